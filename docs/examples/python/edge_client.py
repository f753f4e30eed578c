#!/usr/bin/env python3
"""A client of the zero-layer edge with nothing but Python's standard library (3.9 or later).

    EDGE_API_KEY_FILE=me.key python3 edge_client.py --audience demo --ca cert.pem localhost:8443
    python3 edge_client.py --vectors ../vectors.json

Python has no HTTP/2, so this offers `http/1.1` and the token.
"""

import argparse
import hashlib
import hmac
import http.client
import json
import os
import secrets
import ssl
import sys
import time

REFUSED = """the edge refused the token (TLS alert access_denied). Things to check, likeliest first:
  - the audience: is {audience!r} the edge's keys.audience, letter for letter?
  - the API key: does `edge keys list` show its key id, {key_id}, not revoked, not out of date,
    and for that audience?
  - the clock: this machine says {now}; tokens are good 30 s back, 5 s ahead by default
  - the rate: a key may open only so many connections a second
  - the token: a new one for each connection, never one that was sent before"""


def rotate(word, by):
    return (word << by | word >> (64 - by)) & 0xFFFFFFFFFFFFFFFF


def siphash24(key, data):
    """SipHash-2-4 of eight bytes, least significant first (Aumasson and Bernstein, 2012)."""
    k0, k1 = int.from_bytes(key[:8], "little"), int.from_bytes(key[8:], "little")
    v = [k0 ^ 0x736F6D6570736575, k1 ^ 0x646F72616E646F6D,
         k0 ^ 0x6C7967656E657261, k1 ^ 0x7465646279746573]

    def rounds(count):
        for _ in range(count):
            for a, b, by, turn in ((0, 1, 13, 32), (2, 3, 16, 0), (0, 3, 21, 0), (2, 1, 17, 32)):
                v[a] = (v[a] + v[b]) & 0xFFFFFFFFFFFFFFFF
                v[b] = rotate(v[b], by) ^ v[a]
                v[a] = rotate(v[a], turn)

    # Whole words, then one of what is left with the length in its highest byte.
    last = len(data) // 8 * 8
    words = [data[at:at + 8] for at in range(0, last, 8)]
    words.append(data[last:].ljust(7, b"\0") + bytes([len(data) & 255]))
    for word in words:
        number = int.from_bytes(word, "little")
        v[3] ^= number
        rounds(2)
        v[0] ^= number
    v[2] ^= 0xFF
    rounds(4)
    return (v[0] ^ v[1] ^ v[2] ^ v[3]).to_bytes(8, "little")


class Minter:
    """Makes the tokens of one API key at one audience."""

    def __init__(self, api_key, audience):
        # HKDF-SHA256 without a salt, one block of output (RFC 5869).
        prk = hmac.digest(bytes(32), api_key, "sha256")
        self.mac_key = hmac.digest(prk, b"zl1 preauth" + audience.encode() + b"\1", "sha256")[:16]
        self.key_id = hashlib.sha256(b"zl1 key id" + api_key).digest()[:8]

    def token(self, issued_at, nonce):
        """The ALPN name for one connection."""
        body = self.key_id + issued_at.to_bytes(4, "big") + nonce
        return "ezl1-" + (body + siphash24(self.mac_key, body)).hex()

    def fresh(self):
        return self.token(int(time.time()), secrets.token_bytes(8))


class EdgeConnection(http.client.HTTPSConnection):
    """http.client's connection, with a new token each time that it connects."""

    def __init__(self, host, port, minter, ca_file=None, timeout=30):
        self.minter = minter
        self.tls = ssl.create_default_context(cafile=ca_file)
        self.tls.minimum_version = ssl.TLSVersion.TLSv1_3
        super().__init__(host, port, context=self.tls, timeout=timeout)

    def connect(self):
        self.tls.set_alpn_protocols(["http/1.1", self.minter.fresh()])
        super().connect()


def read_api_key():
    """From the file that EDGE_API_KEY_FILE names, or from EDGE_API_KEY; never an argument."""
    file = os.environ.get("EDGE_API_KEY_FILE")
    if file:
        with open(file, "rb") as key:
            text = key.read().strip()
    else:
        text = os.environ.get("EDGE_API_KEY", "").strip().encode()
    if not text:
        sys.exit("error: no API key: set EDGE_API_KEY_FILE to a file that holds it, or EDGE_API_KEY")
    return text


def check_vectors(file):
    with open(file, encoding="utf-8") as text:
        vectors = json.load(text)
    for vector in vectors["siphash"]:
        tag = siphash24(bytes.fromhex(vector["key"]), bytes.fromhex(vector["message"])).hex()
        if tag != vector["tag"]:
            sys.exit(f"error: SipHash of {vector['message']!r} is {tag}, not {vector['tag']}")
    for vector in vectors["tokens"]:
        minter = Minter(vector["api_key"].encode(), vector["audience"])
        got = (minter.key_id.hex(), minter.mac_key.hex(),
               minter.token(vector["issued_at"], bytes.fromhex(vector["nonce"])))
        wanted = (vector["key_id"], vector["mac_key"], vector["token"])
        if got != wanted:
            sys.exit(f"error: made {got}, not {wanted}")
    print(f"{len(vectors['tokens'])} tokens and {len(vectors['siphash'])} tags are as in {file}")


def explain(error, minter, options):
    """What went wrong, in words that help."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the edge's certificate is not trusted: {error.verify_message}; is --ca right?"
    if isinstance(error, ssl.SSLError) and error.reason and error.reason.endswith("ALERT_ACCESS_DENIED"):
        return REFUSED.format(audience=options.audience, key_id=minter.key_id.hex(), now=time.ctime())
    if isinstance(error, (ConnectionResetError, TimeoutError)):
        return f"{error}; an edge with kernel.answer = \"rst\" or \"drop\" refuses a token like this"
    return str(error)


def main():
    parser = argparse.ArgumentParser(description="One request to the zero-layer edge.")
    parser.add_argument("edge", nargs="?", metavar="HOST:PORT")
    parser.add_argument("--audience", default="demo", help="the edge's keys.audience")
    parser.add_argument("--ca", metavar="FILE", help="PEM certificates to trust, not the system's")
    parser.add_argument("--vectors", metavar="FILE", help="only check this program against them")
    options = parser.parse_args()
    if options.vectors:
        return check_vectors(options.vectors)
    host, colon, port = (options.edge or "").rpartition(":")
    if not colon:
        parser.error("where is the edge? HOST:PORT")

    api_key = read_api_key()
    minter = Minter(api_key, options.audience)
    connection = EdgeConnection(host.strip("[]"), int(port), minter, options.ca)
    body = {"model": "m", "max_tokens": 8, "messages": [{"role": "user", "content": "hello"}]}
    headers = {"x-api-key": api_key.decode(), "anthropic-version": "2023-06-01",
               "content-type": "application/json"}
    try:
        connection.request("POST", "/v1/messages", json.dumps(body), headers)
        response = connection.getresponse()
        text = response.read().decode()
    except (OSError, http.client.HTTPException) as error:
        sys.exit(f"error: {explain(error, minter, options)}")
    finally:
        connection.close()
    print(f"HTTP/1.1 {response.status}, x-claude-route: {response.getheader('x-claude-route')}")
    print(text)
    if response.status != 200:
        sys.exit("error: the request was refused inside TLS; the answer says why")


if __name__ == "__main__":
    main()
