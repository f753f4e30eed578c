#!/usr/bin/env python3
"""Makes the hand-made ClientHellos in `handmade/`: `python3 handmade.py`, or `--check`.

What no client at hand sends, and what none should: each file has, before its hex, comment
lines that say

    why       for people, where the file's name does not say it
    scanned   what the scanner must make of the whole (`Scanned` in client_hello.rs)
    alpn      the ALPN names it offers, percent-encoded; only with found and absent
    rustls    `reads` the same names, `refuses`, or `waits` for more
"""

import pathlib
import struct
import sys
import urllib.parse

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parents[2] / "edge-userspace/tests/packets"))
from wire import PLAIN_EXTENSIONS, alpn, hello, message, record, token, u8, u16

MADE = {}
SERVER_NAME, GROUPS, SCHEMES, VERSIONS, KEY_SHARE = PLAIN_EXTENSIONS
PLAIN = [b"h2", b"http/1.1"]
WITH_TOKEN = PLAIN + [token()]
OTHER_TOKEN = token(nonce=bytes(8))
RECORD_MOST = 1 << 14


def made(name, data, scanned, names=(), rustls=None, why=""):
    assert name not in MADE, name
    if rustls is None:
        rustls = "reads" if scanned in ("found", "absent") else "refuses"
    text = "# made by: handmade.py\n" + (f"# why: {why}\n" if why else "") + f"# scanned: {scanned}\n"
    if scanned in ("found", "absent"):
        text += " ".join(["# alpn:", *(urllib.parse.quote(each, safe="/") for each in names)]) + "\n"
    text += f"# rustls: {rustls}\n"
    digits = data.hex()
    text += "".join(digits[i:i + 96] + "\n" for i in range(0, len(digits), 96))
    MADE[name] = text


def offers(name, names, rustls=None, why="", **more):
    """A hello with these names; `extensions` replaces all of them, the names' own included."""
    found = any(each.startswith(b"ezl1-") for each in names)
    made(name, hello(names, **more), "found" if found else "absent", names, rustls, why)


def server_name(host):
    return 0, u16(b"\x00" + u16(host))


def ech_outer(payload):
    """draft-ietf-tls-esni section 5: outer, HKDF-SHA256 and AES-128-GCM, config id, enc, payload."""
    return 0xFE0D, b"\x00" + struct.pack(">HHB", 1, 1, 0x42) + u16(bytes(range(32))) + u16(payload)


def padded(size, before=(), after=()):
    """Extensions that make a hello of `size` bytes with its record header, filled between the two."""
    parts = [*PLAIN_EXTENSIONS, *before, *after]
    room = size - len(hello(extensions=parts)) - 4
    return [*PLAIN_EXTENSIONS, *before, (0x7A01, bytes(room)), *after]


def places():
    names = 16, alpn(WITH_TOKEN)
    offers("alpn-first", WITH_TOKEN, extensions=[names, *PLAIN_EXTENSIONS])
    offers("alpn-last", WITH_TOKEN, extensions=[*PLAIN_EXTENSIONS, names],
           why="the token is the very last bytes of the hello")
    offers("alpn-alone", WITH_TOKEN, "refuses", extensions=[names], why="no other extension at all")
    made("token-before-other-records", hello(WITH_TOKEN) + record(b"\x01", 20) + record(bytes(300), 23),
         "found", WITH_TOKEN)
    offers("token-first-of-three", [token(), *PLAIN])
    offers("token-alone", [token()])
    offers("token-last-of-200-names", [b"x%d" % i for i in range(199)] + [token()])
    offers("tokens-two", [*PLAIN, token(), OTHER_TOKEN])
    offers("tokens-two-alike", [token(), b"h2", token()])
    offers("tokens-good-and-malformed", [*PLAIN, token(), b"ezl1-"])
    offers("tokens-malformed-and-good", [b"ezl1-00", *PLAIN, token()])
    offers("tokens-forty", [OTHER_TOKEN] * 40)
    for name, text in {"short": token()[:-1], "long": token() + b"0", "upper-case": b"ezl1-" + token()[5:].upper(),
                       "not-hex": token()[:-1] + b"g", "nul": token()[:30] + b"\0" + token()[31:],
                       "prefix-alone": b"ezl1-", "255-bytes": b"ezl1-" + b"0" * 250}.items():
        offers(f"token-malformed-{name}", [*PLAIN, text])


def sorts():
    grease = [
        (0x3A3A, b""), SERVER_NAME,
        (10, u16(bytes.fromhex("caca001d"))), (13, u16(bytes.fromhex("0a0a08040403"))),
        (43, u8(bytes.fromhex("9a9a03040303"))), (45, u8(bytes.fromhex("0b01"))),
        (51, u16(bytes.fromhex("caca000100") + bytes.fromhex("001d0020") + bytes(32))),
        (16, alpn([b"\x0a\x0a", *WITH_TOKEN, b"\xfa\xfa"])), (0xFAFA, b"\x00"),
    ]
    offers("grease-everywhere", [b"\x0a\x0a", *WITH_TOKEN, b"\xfa\xfa"], extensions=grease,
           ciphers=bytes.fromhex("2a2a13011302dada"), why="RFC 8701, every place that may hold it")
    offers("grease-every-value", WITH_TOKEN,
           extensions=[*PLAIN_EXTENSIONS, *((0x0A0A + 0x1010 * i, bytes(i)) for i in range(16)), (16, alpn(WITH_TOKEN))])
    offers("extensions-60", WITH_TOKEN,
           extensions=[*PLAIN_EXTENSIONS, *((0x4000 + i, bytes(i)) for i in range(54)), (16, alpn(WITH_TOKEN))])
    offers("extensions-60-no-token", PLAIN,
           extensions=[(16, alpn(PLAIN)), *PLAIN_EXTENSIONS, *((0x4000 + i, bytes(i)) for i in range(54))])
    offers("extensions-1000-empty", WITH_TOKEN,
           extensions=[*PLAIN_EXTENSIONS, *((0x4000 + i, b"") for i in range(994)), (16, alpn(WITH_TOKEN))])
    offers("ech-outer", WITH_TOKEN, extensions=[*PLAIN_EXTENSIONS, ech_outer(bytes(range(239))), (16, alpn(WITH_TOKEN))],
           why="what counts is the outer hello's list; the inner one is the server's alone to read")
    inner = message(WITH_TOKEN)[4:]
    offers("ech-outer-token-text-inside", PLAIN,
           extensions=[*PLAIN_EXTENSIONS, (16, alpn(PLAIN)), ech_outer(inner)], why="a token's text outside the outer list is none")
    offers("token-text-elsewhere", PLAIN,
           extensions=[server_name(token() + b".example"), *PLAIN_EXTENSIONS[1:], (17, alpn([token()])),
                       (35, token()), (16, alpn(PLAIN))], why="in server_name, a ticket and another extension")
    offers("token-prefix-over-two-names", [b"h2", b"ez", b"l1-"])
    offers("server-name-255-bytes", WITH_TOKEN,
           extensions=[server_name(b"a" * 255), *PLAIN_EXTENSIONS[1:], (16, alpn(WITH_TOKEN))],
           rustls="refuses", why="no DNS name is longer than 253, and no label than 63")
    longest = b".".join([b"a" * 63] * 3 + [b"b" * 61])
    offers("server-name-253-bytes", WITH_TOKEN,
           extensions=[server_name(longest), *PLAIN_EXTENSIONS[1:], (16, alpn(WITH_TOKEN))])
    offers("acme", [b"acme-tls/1"])
    offers("acme-and-others", [b"h2", b"acme-tls/1", b"http/1.1"])
    offers("acme-and-token", [b"acme-tls/1", token()])
    offers("acme-look-alikes", [b"acme-tls/2", b"acme-tls/", b"acme-tls/11"])
    offers("no-alpn", [])
    offers("no-extensions", [], extensions=[], rustls="refuses")
    bare = message(extensions=[])[4:-2]
    made("no-extensions-block", record(b"\x01" + len(bare).to_bytes(3, "big") + bare), "absent", rustls="refuses",
         why="RFC 5246 section 7.4.1.2 allows it")
    offers("no-session-id", WITH_TOKEN, session=b"")
    offers("cipher-suites-many", WITH_TOKEN, ciphers=b"".join(struct.pack(">H", 0x1301 + i) for i in range(500)))
    for version in (0x0300, 0x0302, 0x0303, 0x0304):
        data = hello(WITH_TOKEN)
        made(f"record-version-{version:04x}", data[:1] + struct.pack(">H", version) + data[3:], "found", WITH_TOKEN)


def sizes():
    names = 16, alpn(WITH_TOKEN)
    for kilobytes in (2, 4, 9, 15):
        size = 1000 * kilobytes
        offers(f"{kilobytes}-kb-token-last", WITH_TOKEN, extensions=padded(size, after=[names]))
        offers(f"{kilobytes}-kb-token-first", WITH_TOKEN, extensions=padded(size, before=[names]))
    offers("9-kb-no-token", PLAIN, extensions=padded(9000, after=[(16, alpn(PLAIN))]))
    offers("largest-record", WITH_TOKEN, extensions=padded(RECORD_MOST + 5, after=[names]), why="2^14 bytes in one record")
    share = KEY_SHARE[0], u16(bytes.fromhex("11ec04c0") + bytes(1216) + KEY_SHARE[1][2:])
    offers("post-quantum-share-last", WITH_TOKEN, extensions=[SERVER_NAME, (10, u16(bytes.fromhex("11ec001d"))),
                                                              SCHEMES, VERSIONS, names, share])


def set_length(data, at, count, change):
    value = int.from_bytes(data[at:at + count], "big") + change
    return data[:at] + value.to_bytes(count, "big") + data[at + count:]


def wrong_lengths():
    """Each length field one too small and one too large; what lies behind stays in place."""
    base = hello(extensions=[SERVER_NAME, (16, alpn(WITH_TOKEN)), SCHEMES, GROUPS, VERSIONS, KEY_SHARE])
    names_at = base.index(b"\x00\x10" + u16(alpn(WITH_TOKEN)))
    first = names_at + 6
    # Where it is, how long, and what it must come to one shorter and one longer.
    fields = {
        "record": (3, 2, "record_fragmented", "malformed"),
        "handshake": (6, 3, "malformed", "record_fragmented"),
        "session-id": (43, 1, "malformed", "malformed"),
        "cipher-suites": (76, 2, "malformed", "malformed"),
        "compression": (82, 1, "malformed", "malformed"),
        "extensions": (84, 2, "malformed", "malformed"),
        "server-name-extension": (88, 2, "malformed", "malformed"),
        "alpn-extension": (names_at + 2, 2, "malformed", "malformed"),
        "alpn-list": (names_at + 4, 2, "malformed", "malformed"),
        "first-name": (first, 1, "malformed", "malformed"),
        "token-name": (first + 12, 1, "malformed", "malformed"),
        "last-extension": (len(base) - len(KEY_SHARE[1]) - 2, 2, "malformed", "malformed"),
    }
    assert base[first + 12:first + 18] == b"\x3dezl1-"
    rustls = {("record", 1): "waits", ("handshake", 1): "waits"}
    for name, (at, count, shorter, longer) in fields.items():
        for change, word, scanned in ((-1, "shorter", shorter), (1, "longer", longer)):
            made(f"length-{name}-{word}", set_length(base, at, count, change), scanned,
                 rustls=rustls.get((name, change), "refuses"))
    # Inside extensions that the scanner skips: for TLS to refuse, and no harm to anyone.
    inside = {"server-name-list": 90, "groups-list": base.index(b"\x00\x0a\x00\x04\x00\x02") + 4,
              "key-share-list": len(base) - len(KEY_SHARE[1])}
    for name, at in inside.items():
        for change, word in ((-1, "shorter"), (1, "longer")):
            made(f"length-{name}-{word}", set_length(base, at, 2, change), "found", WITH_TOKEN, "refuses",
                 "inside an extension that the scanner does not look into")
    made("length-handshake-over-2-to-16", base[:6] + b"\x01" + base[7:], "record_fragmented", rustls="refuses")


def broken():
    def malformed(name, data, rustls="refuses"):
        made(name, data, "malformed", rustls=rustls)

    malformed("alpn-list-empty", hello(extensions=[*PLAIN_EXTENSIONS, (16, b"\0\0")]))
    malformed("alpn-extension-empty", hello(extensions=[*PLAIN_EXTENSIONS, (16, b"")]))
    malformed("alpn-extension-one-byte", hello(extensions=[*PLAIN_EXTENSIONS, (16, b"\0")]))
    malformed("alpn-name-empty", hello([b"h2", b"", token()]))
    malformed("alpn-twice", hello(extensions=[*PLAIN_EXTENSIONS, (16, alpn(PLAIN)), (16, alpn(WITH_TOKEN))]))
    malformed("cipher-suites-none", hello(WITH_TOKEN, ciphers=b""))
    malformed("session-id-33-bytes", hello(WITH_TOKEN, session=bytes(33)))
    malformed("two-messages-in-a-record", record(message(WITH_TOKEN) + bytes(4)))
    whole = message(WITH_TOKEN)
    for cut in (1, 3, 4, 100, len(whole) - 1):
        made(f"two-records-cut-at-{cut if cut < 200 else 'the-last-byte'}", record(whole[:cut]) + record(whole[cut:]),
             "record_fragmented", rustls="reads", why="allowed (RFC 8446 section 5.1), and read by userspace")
    made("record-for-each-byte", b"".join(record(whole[i:i + 1]) for i in range(len(whole))), "record_fragmented", rustls="reads")
    made("record-empty-before", record(b"") + record(whole), "not_tls")
    made("record-over-2-to-14", hello(extensions=padded(RECORD_MOST + 6, after=[(16, alpn(WITH_TOKEN))])), "not_tls",
         rustls="reads", why="RFC 8446 section 5.1 forbids it; rustls is kinder")
    made("half-a-hello", hello(WITH_TOKEN)[:150], "incomplete", rustls="waits")
    made("all-but-the-last-byte", hello(WITH_TOKEN)[:-1], "incomplete", rustls="waits")
    made("first-byte-alone", hello(WITH_TOKEN)[:1], "incomplete", rustls="waits")
    made("server-hello", record(b"\x02" + whole[1:]), "not_tls")
    made("application-data", record(bytes(100), 23), "not_tls")


def main():
    for make in (places, sorts, sizes, wrong_lengths, broken):
        make()
    folder = HERE / "handmade"
    folder.mkdir(exist_ok=True)
    wanted = {f"{name}.hex": text for name, text in MADE.items()}
    there = {path.name: path.read_text() for path in folder.iterdir()}
    if sys.argv[1:] == ["--check"]:
        wrong = sorted(name for name in wanted | there if wanted.get(name) != there.get(name))
        if wrong:
            sys.exit(f"not what handmade.py makes: {', '.join(wrong)}; run it without --check")
        return
    for name in there.keys() - wanted.keys():
        (folder / name).unlink()
    for name, text in wanted.items():
        (folder / name).write_text(text)
    print(f"{len(wanted)} hellos")


main()
