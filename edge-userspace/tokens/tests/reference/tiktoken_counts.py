"""Counts texts with the Python package tiktoken, for tests that compare.

Arguments: the encoding's name, and the folder that holds its rank file; for claude-2, which
the package does not know, the folder of the npm package @anthropic-ai/tokenizer, of which
ranks and pattern are taken. Standard input: batches, each a number of texts and then each text with its length before it (32-bit
little-endian numbers). Standard output: for each text a 64-bit count, all ones where the
package itself fails. Text that is no UTF-8 is decoded by Python's own rule of replacement.
For claude-2, text is brought into normal form KC; that with characters newer than Python's
Unicode is not counted.
"""

import base64
import hashlib
import json
import os
import struct
import sys
import unicodedata

import tiktoken
import tiktoken.load

REFUSED = (1 << 64) - 1


def encoding(name, folder):
    """The package's own encoding, its rank file read here and checked by its own digest."""

    def read(path, expected_hash=None):
        with open(os.path.join(folder, path.rsplit("/", 1)[-1]), "rb") as file:
            contents = file.read()
        if not expected_hash or hashlib.sha256(contents).hexdigest() != expected_hash:
            raise SystemExit(f"{folder}: not the rank file that tiktoken expects of {name}")
        return contents

    tiktoken.load.read_file_cached = read
    return tiktoken.get_encoding(name)


def claude(folder):
    """The npm package's vocabulary: ranks from a number on, tokens in base64."""
    with open(os.path.join(folder, "claude.json")) as file:
        said = json.load(file)
    _, first, *tokens = said["bpe_ranks"].split(" ")
    ranks = {base64.b64decode(token): int(first) + at for at, token in enumerate(tokens)}
    special = said["special_tokens"]
    return tiktoken.Encoding(
        "claude-2", pat_str=said["pat_str"], mergeable_ranks=ranks, special_tokens=special
    )


class Newer(Exception):
    """Than this Python's Unicode."""


def normal(text):
    if any(
        unicodedata.category(c) == "Cn" and ord(c) & 0xFFFE != 0xFFFE and not 0xFDD0 <= ord(c) < 0xFDF0
        for c in set(text)
    ):
        raise Newer()
    return unicodedata.normalize("NFKC", text)


def count(encode, text):
    try:
        return len(encode(text.decode("utf-8", "replace")))
    except (KeyboardInterrupt, SystemExit):
        raise
    except Newer:
        return REFUSED
    except BaseException as error:  # its Rust part panics on some inputs
        print(f"tiktoken fails on {len(text)} bytes: {error}", file=sys.stderr)
        return REFUSED


def main():
    name, folder = sys.argv[1:]
    if name == "claude-2":
        ordinary = claude(folder).encode_ordinary
        encode = lambda text: ordinary(normal(text))
    else:
        encode = encoding(name, folder).encode_ordinary
    texts_in, counts_out = sys.stdin.buffer, sys.stdout.buffer
    counts_out.write(b"ready\n")
    counts_out.flush()
    while head := texts_in.read(4):
        (texts,) = struct.unpack("<I", head)
        counts = []
        for _ in range(texts):
            (length,) = struct.unpack("<I", texts_in.read(4))
            counts.append(count(encode, texts_in.read(length)))
        counts_out.write(struct.pack(f"<{texts}Q", *counts))
        counts_out.flush()


main()
