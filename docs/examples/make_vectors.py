#!/usr/bin/env python3
"""Makes vectors.json: what docs/protocol.md says, in numbers.

    python3 docs/examples/make_vectors.py            writes vectors.json anew
    python3 docs/examples/make_vectors.py --check    says whether it would change

Every hash, HKDF and SipHash in it is computed by OpenSSL's command line (3.0 or later), which
shares no code with the edge or with the clients beside this file. Here bytes are only joined.
"""

import json
import pathlib
import subprocess
import sys

FILE = pathlib.Path(__file__).with_name("vectors.json")
TEST_KEY = "sk-edge-test"
# The text of 32 bytes 00, 01, 02 … 1f, as `edge keys new` would write them.
LONG_KEY = "sk-edge-AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8"
NOW = 1800000000


def openssl(*arguments, data=b""):
    """What OpenSSL says, as lower-case hex."""
    done = subprocess.run(["openssl", *arguments], input=data, capture_output=True, check=True)
    return done.stdout.decode().split("=")[-1].strip().replace(":", "").lower()


def sha256(data):
    return openssl("dgst", "-sha256", data=data)


def hkdf_extract(key):
    """HKDF-Extract without a salt is an HMAC under 32 zero bytes (RFC 5869 section 2.2)."""
    return openssl("mac", "-digest", "SHA256", "-macopt", "hexkey:" + "00" * 32, "HMAC", data=key)


def hkdf(key, info):
    return openssl("kdf", "-keylen", "16", "-kdfopt", "digest:SHA256", "-kdfopt", "hexkey:" + key.hex(),
                   "-kdfopt", "hexinfo:" + info.hex(), "HKDF")


def siphash(key, data):
    """SipHash-2-4 with eight bytes of output."""
    return openssl("mac", "-macopt", "hexkey:" + key, "-macopt", "size:8", "SIPHASH", data=data)


def token(api_key, audience, issued_at, nonce):
    """A token and everything on the way to it."""
    key = api_key.encode()
    key_id = sha256(b"zl1 key id" + key)[:16]
    mac_key = hkdf(key, b"zl1 preauth" + audience.encode())
    mac_input = key_id + issued_at.to_bytes(4, "big").hex() + nonce
    tag = siphash(mac_key, bytes.fromhex(mac_input))
    return {
        "api_key": api_key,
        "audience": audience,
        "key_id": key_id,
        "key_hash": sha256(key),
        "hkdf_prk": hkdf_extract(key),
        "mac_key": mac_key,
        "issued_at": issued_at,
        "nonce": nonce,
        "mac_input": mac_input,
        "tag": tag,
        "token": "ezl1-" + mac_input + tag,
    }


def tokens():
    return [
        token(TEST_KEY, "demo", NOW, "0001020304050607"),
        token(LONG_KEY, "edge-1.example", 1, "ff" * 8),
        token(LONG_KEY, "edge-2.example", 0xFFFFFFFF, "00" * 8),
        token(TEST_KEY, "demo", NOW + 1, "8000000000000001"),
        token(TEST_KEY, "demo2", NOW, "0001020304050607"),
        token(LONG_KEY, "z\u00fcrich", 0x80000000, "0123456789abcdef"),
    ]


def siphash_vectors():
    """The paper's own key and messages (Aumasson and Bernstein 2012, appendix A and its code)."""
    key = bytes(range(16)).hex()
    return [{"key": key, "message": bytes(range(n)).hex(), "tag": siphash(key, bytes(range(n)))}
            for n in (0, 7, 8, 15, 20, 63)]


def offers():
    """ALPN lists, and what the edge makes of each at a time when it knows these keys."""
    good = token(TEST_KEY, "demo", NOW, "0001020304050607")["token"]
    digits = good[5:]
    other_audience = token(TEST_KEY, "demo2", NOW, "0001020304050607")["token"]
    stranger = token("sk-edge-stranger", "demo", NOW, "0001020304050607")["token"]
    revoked = token("sk-edge-revoked", "demo", NOW, "0001020304050607")["token"]
    early = token("sk-edge-not-yet", "demo", NOW, "0001020304050607")["token"]
    late = token("sk-edge-no-more", "demo", NOW, "0001020304050607")["token"]
    another = token(TEST_KEY, "demo", NOW, "8000000000000001")["token"]
    # Mistakes that a client's author makes.
    tag = bytes.fromhex(digits[40:])
    tag_turned = "ezl1-" + digits[:40] + tag[::-1].hex()
    little = digits[:16] + NOW.to_bytes(4, "little").hex() + digits[24:40]
    mac_key = token(TEST_KEY, "demo", NOW, "00" * 8)["mac_key"]
    time_turned = "ezl1-" + little + siphash(mac_key, bytes.fromhex(little))
    tag_of_text = "ezl1-" + digits[:40] + siphash(mac_key, digits[:40].encode())
    tag_of_name = "ezl1-" + digits[:40] + siphash(mac_key, b"ezl1-" + bytes.fromhex(digits[:40]))
    info_turned = hkdf(TEST_KEY.encode(), b"demozl1 preauth")
    wrong_info = "ezl1-" + digits[:40] + siphash(info_turned, bytes.fromhex(digits[:40]))
    flipped = good[:-1] + ("1" if good[-1] == "0" else "0")
    both = ["h2", "http/1.1"]
    rows = [
        ("accepted", 0, both + [good], "the token of the first vector"),
        ("accepted", 0, [good, *both], "its place in the list is not judged; last is a client's duty"),
        ("accepted", 0, [good], "no other name is needed for the verdict (but see section 2.4)"),
        ("accepted", 30, both + [good], "as old as the window allows"),
        ("token_expired", 31, both + [good], "one second older than that"),
        ("accepted", -5, both + [good], "as far ahead as the window allows"),
        ("token_from_future", -6, both + [good], "one second further ahead"),
        ("token_expired", 0, both + [time_turned], "issued at written little-endian, which says 1970"),
        ("tag_wrong", 0, both + [flipped], "the last bit of the tag flipped"),
        ("tag_wrong", 0, both + [tag_turned], "the tag as a big-endian number: turn its eight bytes round"),
        ("tag_wrong", 0, both + [tag_of_text], "the tag over the 40 hex digits and not over the 20 bytes"),
        ("tag_wrong", 0, both + [tag_of_name], "the tag over the prefix too"),
        ("tag_wrong", 0, both + [wrong_info], "audience before `zl1 preauth` in HKDF's info"),
        ("tag_wrong", 0, both + [other_audience], "made for the audience demo2"),
        ("tag_wrong", 31, both + [flipped], "old too, but the tag is looked at first"),
        ("key_unknown", 0, both + [stranger], "a key that this edge has not got"),
        ("key_revoked", 0, both + [revoked], "good in all else"),
        ("key_not_yet_valid", 0, both + [early], "good in all else"),
        ("key_expired", 0, both + [late], "good in all else"),
        ("token_malformed", 0, both + ["ezl1-" + digits.upper()], "upper-case digits"),
        ("token_malformed", 0, both + [good[:-1]], "55 digits"),
        ("token_malformed", 0, both + [good + "0"], "57 digits"),
        ("token_malformed", 0, both + [good[:-1] + "g"], "a digit that is none"),
        ("token_malformed", 0, both + ["ezl1-"], "nothing behind the prefix"),
        ("token_duplicate", 0, both + [good, good], "the same token twice"),
        ("token_duplicate", 0, both + [good, another], "two good tokens"),
        ("token_duplicate", 0, both + ["ezl1-", good], "the number is looked at before the form"),
        ("no_token", 0, both, "an ordinary client"),
        ("no_token", 0, both + ["EZL1-" + digits], "the prefix in upper case is another name"),
        ("no_token", 0, both + ["ezl1" + digits], "no hyphen"),
        ("no_token", 0, both + ["ezl2-" + digits], "another version's prefix"),
        ("acme_challenge", 0, ["acme-tls/1"], "a certificate authority's check (RFC 8737)"),
    ]
    return {
        "audience": "demo",
        "now": NOW,
        "window_back": 30,
        "window_ahead": 5,
        "keys": [
            {"api_key": TEST_KEY},
            {"api_key": "sk-edge-revoked", "revoked": True},
            {"api_key": "sk-edge-not-yet", "not_before": NOW + 1},
            {"api_key": "sk-edge-no-more", "not_after": NOW - 1},
        ],
        "rows": [{"reason": reason, "seconds_later": later, "names": names, "why": why}
                 for reason, later, names, why in rows],
    }


def client_hello(name):
    """A whole ClientHello that any TLS 1.3 server would answer, in named parts."""
    names = ["h2", "http/1.1", name]

    def u16(number):
        return number.to_bytes(2, "big").hex()

    def name_of(text):
        return f"{len(text):02x}" + text.encode().hex()

    alpn = sum(len(text) + 1 for text in names)
    server_name = b"edge.example"
    after = [
        ("002b 0003 02 0304", "supported_versions: TLS 1.3"),
        ("000d 0006 0004 0403 0804", "signature_algorithms: ECDSA with P-256, RSA-PSS"),
        ("000a 0004 0002 001d", "supported_groups: X25519"),
        ("0033 0026 0024 001d 0020", "key_share: one of X25519,"),
        # Alice's public key of RFC 7748 section 6.1.
        ("8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a", "its 32 bytes"),
    ]
    extensions = [
        ("0000" + u16(len(server_name) + 5) + u16(len(server_name) + 3) + "00"
         + u16(len(server_name)) + server_name.hex(), "server_name: edge.example"),
        ("0010" + u16(alpn + 2), "ALPN, and its length"),
        (u16(alpn), "length of the list of names"),
        (name_of("h2"), "h2"),
        (name_of("http/1.1"), "http/1.1"),
        ("3d", "a name of 61 bytes: the token"),
        (name[:5].encode().hex(), "ezl1-"),
        (name[5:21].encode().hex(), "hex digits of the key id"),
        (name[21:29].encode().hex(), "of issued at"),
        (name[29:45].encode().hex(), "of the nonce"),
        (name[45:].encode().hex(), "of the tag"),
        *after,
    ]
    body = [
        ("0303", "legacy_version"),
        (bytes(range(32)).hex(), "random"),
        ("20" + bytes(range(32, 64)).hex(), "legacy_session_id"),
        ("0002 1301", "cipher_suites: TLS_AES_128_GCM_SHA256"),
        ("01 00", "legacy_compression_methods: null"),
    ]

    def length(parts):
        return sum(len(text.replace(" ", "")) // 2 for text, _ in parts)

    body += [(u16(length(extensions)), "length of the extensions"), *extensions]
    handshake = [("01" + length(body).to_bytes(3, "big").hex(), "ClientHello, and its length"), *body]
    parts = [("16 0301" + u16(length(handshake)), "TLS record: handshake, and its length"), *handshake]
    parts = [{"hex": text.replace(" ", ""), "what": what} for text, what in parts]
    whole = "".join(part["hex"] for part in parts)
    return {
        "names": names,
        "bytes": len(whole) // 2,
        "token_at": whole.index(name.encode().hex()) // 2,
        "parts": parts,
    }


def made():
    vectors = {
        "tokens": tokens(),
        "siphash": siphash_vectors(),
        "offers": offers(),
    }
    vectors["client_hello"] = client_hello(vectors["tokens"][0]["token"])
    return json.dumps(vectors, indent=1, ensure_ascii=False) + "\n"


def main():
    text = made()
    if sys.argv[1:] == ["--check"]:
        if FILE.read_text(encoding="utf-8") != text:
            sys.exit(f"{FILE} is not what OpenSSL computes; make it anew without --check")
        print(f"{FILE.name} is what OpenSSL computes")
    elif not sys.argv[1:]:
        FILE.write_text(text, encoding="utf-8")
    else:
        sys.exit(__doc__)


main()
