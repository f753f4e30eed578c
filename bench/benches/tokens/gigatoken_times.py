"""gigatoken, timed inside its own process, for `cargo xtask bench tokens`.

Arguments: the rank file, and the name of its pattern ("" where the file's name says it).
Standard input: commands, each a letter and 32-bit little-endian numbers; standard output:
64-bit numbers. Times are of the processor, all threads of this process together, in
nanoseconds. First of all it says how long it took to load.

  L length, and so many bytes    a further text is given; answers its number
  C text                         answers the count of its tokens
  T text, way, passes            answers the nanoseconds of so many passes over it

Ways: 0 `encode`, of which a caller takes the length; 1 the same work with every row cut to
no ids at all, so that none are handed to Python; 2 lists of Python's own.
"""

import struct
import sys
import time

import gigatoken
from gigatoken.gigatoken_rs import _WrapTruncate

NO_IDS = _WrapTruncate(max_tokens=0)


def main():
    began = time.process_time_ns()
    tokenizer = gigatoken.Tokenizer.from_tiktoken(sys.argv[1], sys.argv[2] or None)
    loaded = time.process_time_ns() - began
    backend = tokenizer.backend
    texts = []
    ways = [
        lambda text: backend.encode(text),
        lambda text: backend._encode_batch_list_compat([text], NO_IDS, parallel=False),
        lambda text: backend.encode_batch_list([text], parallel=False),
    ]
    commands, answers = sys.stdin.buffer, sys.stdout.buffer

    def numbers(count):
        return struct.unpack(f"<{count}I", commands.read(4 * count))

    def answer(number):
        answers.write(struct.pack("<Q", number))
        answers.flush()

    answer(loaded)
    while command := commands.read(1):
        if command == b"L":
            texts.append(commands.read(*numbers(1)))
            answer(len(texts) - 1)
        elif command == b"C":
            answer(len(backend.encode(texts[numbers(1)[0]])))
        elif command == b"T":
            text, way, passes = numbers(3)
            text, way = texts[text], ways[way]
            began = time.process_time_ns()
            for _ in range(passes):
                way(text)
            answer(time.process_time_ns() - began)


main()
