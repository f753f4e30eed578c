#!/usr/bin/env python3
"""Writes src/pattern/runs.rs: the class of every code point, as tiktoken 0.14.0 sees it.

    pip install tiktoken==0.14.0
    python3 tools/unicode_classes.py          write the file
    python3 tools/unicode_classes.py --check  compare the file with the package

The package is asked, not a copy of the Unicode data: a pattern of one class and a vocabulary
of the 256 bytes encode a character to something only if it is in the class.
"""
import importlib.metadata
import pathlib
import sys

import tiktoken

PINNED = "0.14.0"
FILE = pathlib.Path(__file__).parent.parent / "src/pattern/runs.rs"
# Bits, the same as in src/pattern/class.rs.
CLASSES = [
    (1, r"\s"),
    (2, r"\p{L}"),
    (4, r"\p{N}"),
    (8, r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]"),
    (16, r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"),
]
HEAD = '''//! The class of every code point: where a class starts, and the bits of `super::class`.
//!
//! Made by `tools/unicode_classes.py` from tiktoken 0.14.0; not to be edited.

/// First code point of each run and its bits, in order; a run ends where the next starts.
pub(crate) static RUNS: &[(u32, u8)] = &[
'''


def classes():
    """The bits of each code point; a surrogate is no character and has none."""
    version = importlib.metadata.version("tiktoken")
    if version != PINNED:
        sys.exit(f"this needs tiktoken {PINNED}, {version} is installed")
    of = bytearray(0x110000)
    for bit, pattern in CLASSES:
        encoding = tiktoken.Encoding(
            name=pattern,
            pat_str=pattern,
            mergeable_ranks={bytes([b]): b for b in range(256)},
            special_tokens={},
        )
        for code_point in range(0x110000):
            if not 0xD800 <= code_point < 0xE000 and encoding.encode_ordinary(chr(code_point)):
                of[code_point] |= bit
    return of


def written(of):
    runs = [(i, of[i]) for i in range(len(of)) if i == 0 or of[i] != of[i - 1]]
    lines, line = [], ""
    for start, bits in runs:
        item = f"(0x{start:x}, {bits}),"
        if len(line) + len(item) + 1 > 92:
            lines.append(line)
            line = ""
        line += (" " if line else "") + item
    lines.append(line)
    return HEAD + "".join(f"    {line}\n" for line in lines) + "];\n"


if __name__ == "__main__":
    text = written(classes())
    if "--check" in sys.argv:
        if FILE.read_text() != text:
            sys.exit(f"{FILE.name} is not what tiktoken {PINNED} says")
        print(f"{FILE.name} is what tiktoken {PINNED} says")
    else:
        FILE.write_text(text)
