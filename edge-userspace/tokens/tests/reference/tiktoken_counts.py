"""Counts texts with the Python package tiktoken, for tests that compare.

Arguments: the encoding's name, and the folder that holds its rank file. Standard input:
batches, each a number of texts and then each text with its length before it (32-bit
little-endian numbers). Standard output: for each text a 64-bit count, all ones where the
package itself fails. Text that is no UTF-8 is decoded by Python's own rule of replacement.
"""

import hashlib
import os
import struct
import sys

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


def count(encode, text):
    try:
        return len(encode(text.decode("utf-8", "replace")))
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # its Rust part panics on some inputs
        print(f"tiktoken fails on {len(text)} bytes: {error}", file=sys.stderr)
        return REFUSED


def main():
    encode = encoding(sys.argv[1], sys.argv[2]).encode_ordinary
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
