#!/usr/bin/env python3
"""Writes tests/fixtures/*.tokenizer.json and *.counts.json.

    pip install tokenizers==0.23.3
    python3 tools/tokenizer_json_fixtures.py           write the fixtures
    python3 tools/tokenizer_json_fixtures.py TEXTS     print the fixtures' counts of the texts in
                                                       a file of JSON lines, as JSON lines

Small vocabularies in the form of three that cannot be had without a licence or a network,
trained on this repository's documents, and the library's own counts of texts by them:
GPT-2's (merges in lines), Qwen 2's (NFC, merges in pairs) and Llama 3's (all ways to make a
token listed, `ignore_merges`, as it is converted from a rank file).
"""
import json
import pathlib
import random
import sys

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

HERE = pathlib.Path(__file__).parent.parent
FIXTURES = HERE / "tests/fixtures"
DOCUMENTS = sorted((HERE.parent.parent / "docs").glob("*.md"))
LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
PARTS = (
    "a b Z s S the ing Hello WORLD camelCase ' 's 'S 're 'LL 'vE '\u017f \u017f \u212a \u0130 0 1 12"
    " 123 \u0663 \u0969 \uff11 \u2160 \xbd \u0301 \u0308 e\u0301 \xe9 \xdf \u0436 \u0628 \u064b"
    " \u0928 \u093f \u4e2d \u65e5\u672c \u304b \u3099 \u309b \uac00 \u1100 \u1161 \u11a8 \u4dc0"
    " \U0001f600 \u200d \ufe0f . , / _ ^ = == ( ) \" { } \\ ! # <|endoftext|> \0 \x7f \ufffd"
).split(" ") + [" ", "  ", "    ", "\n", "\r\n", "\t", "\x0b", "\x85", "\xa0", "\u2028", "\u3000"]


def byte_level(split=None):
    steps = [] if split is None else [pre_tokenizers.Split(Regex(split), "isolated", False)]
    own = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=split is None)
    return pre_tokenizers.Sequence(steps + [own]) if steps else own


def trained(split, normalizer, size):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = byte_level(split)
    if normalizer:
        tokenizer.normalizer = normalizer
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        special_tokens=["<|endoftext|>"],
        show_progress=False,
    )
    texts = [path.read_text() for path in DOCUMENTS] + ["".join(PARTS) * 4] * 20
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def converted(source):
    """As `transformers` converts a rank file: for each token, in the order of the ranks, every
    way to put it together from two."""
    model = json.loads(source.to_str())["model"]
    ids = {token: i for token, i in model["vocab"].items() if token != "<|endoftext|>"}
    by_rank = sorted(ids, key=ids.get) + unreachable(source)
    ids = {token: rank for rank, token in enumerate(by_rank)}
    merges = []
    for token in by_rank:
        ways = [(token[:i], token[i:]) for i in range(1, len(token))]
        ways = [way for way in ways if way[0] in ids and way[1] in ids]
        merges += sorted(ways, key=lambda way: (ids[way[0]], ids[way[1]]))
    tokenizer = Tokenizer(models.BPE(vocab=ids, merges=merges, ignore_merges=True))
    tokenizer.pre_tokenizer = byte_level(LLAMA3)
    tokenizer.add_special_tokens(["<|begin_of_text|>", "<|end_of_text|>"])
    return tokenizer


def unreachable(source):
    """Words that are two tokens together, and three or more when merged: as tokens they count
    one only where they are a whole piece."""
    words = [token for token in source.get_vocab() if token.isascii() and token.isalpha()]
    pairs = (left + right for left in sorted(words) for right in sorted(words))
    return [word for word in pairs if len(source.encode(word).ids) > 2][:3]


def texts():
    chosen = random.Random(1)
    for _ in range(400):
        palette = chosen.choices(PARTS, k=6)
        yield "".join(chosen.choices(palette, k=chosen.randint(0, 14)))
    words = " ".join(path.read_text()[:4000] for path in DOCUMENTS).split(" ")
    for _ in range(60):
        start = chosen.randrange(len(words))
        yield " ".join(words[start : start + chosen.randint(1, 40)])
    for character in " \n\ta=é中":
        for length in (2, 3, 5, 17, 64, 200):
            yield character * length


def count(tokenizer, text):
    """Without the names of special tokens, which are plain text here."""
    return len(tokenizer.encode(text.replace("<|", "< |"), add_special_tokens=False).ids)


def main():
    if len(sys.argv) > 1:
        for path in sorted(FIXTURES.glob("*.tokenizer.json")):
            tokenizer = Tokenizer.from_file(str(path))
            lines = pathlib.Path(sys.argv[1]).read_text().strip("\n").split("\n")
            counts = [count(tokenizer, json.loads(line)) for line in lines]
            print(json.dumps({"name": path.name.split(".")[0], "counts": counts}))
        return
    llama3 = trained(LLAMA3, None, 1200)
    tokenizers = {
        "gpt2": trained(None, None, 1200),
        "qwen2": trained(QWEN2, normalizers.NFC(), 1200),
        "llama3": converted(llama3),
    }
    FIXTURES.mkdir(exist_ok=True)
    words = unreachable(llama3)
    of = [text.replace("<|", "< |") for text in [*texts(), *words, *(" " + word for word in words)]]
    for name, tokenizer in tokenizers.items():
        file = json.loads(tokenizer.to_str())
        if name == "gpt2":
            # As files of that time have it.
            model = file["model"]
            model["merges"] = [" ".join(merge) for merge in model["merges"]]
            del model["type"], model["byte_fallback"], model["ignore_merges"]
            model["continuing_subword_prefix"] = model["end_of_word_suffix"] = ""
        text = json.dumps(file, ensure_ascii=False, separators=(",", ":"))
        (FIXTURES / f"{name}.tokenizer.json").write_text(text + "\n")
        lines = [json.dumps([text, count(tokenizer, text)]) for text in of]
        (FIXTURES / f"{name}.counts.json").write_text("[\n" + ",\n".join(lines) + "\n]\n")


if __name__ == "__main__":
    main()
