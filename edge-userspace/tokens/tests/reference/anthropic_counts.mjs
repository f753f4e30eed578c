// Counts texts with the npm package @anthropic-ai/tokenizer, for tests that compare.
//
// Argument: the folder that holds node_modules. Standard input and output: as
// tiktoken_counts.py says. The package's countTokens takes special tokens in a text for
// what they name; here, as everywhere in the edge, they are text, so its tokenizer is
// called as countTokens does, on normalised text, but for that.

import { readSync, writeSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";

const require = createRequire(join(process.argv[2], "here.js"));
const { getTokenizer } = require("@anthropic-ai/tokenizer");
const REFUSED = (1n << 64n) - 1n;
const decoder = new TextDecoder("utf-8", { ignoreBOM: true });
let tokenizer = getTokenizer();
// Characters that this Node's Unicode has not heard of: it cannot bring them into normal
// form, so there is nothing to compare with. (Noncharacters never will be in any.)
const UNKNOWN = /[^\P{Cn}\p{NChar}]/u;

// The next bytes of standard input; null at its end.
function read(length) {
  const bytes = Buffer.allocUnsafe(length);
  let at = 0;
  while (at < length) {
    try {
      const got = readSync(0, bytes, at, length - at);
      if (got === 0) return null;
      at += got;
    } catch (error) {
      if (error.code === "EOF") return null;
      if (error.code !== "EAGAIN") throw error;
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1);
    }
  }
  return bytes;
}

function write(bytes) {
  for (let at = 0; at < bytes.length; ) at += writeSync(1, bytes, at);
}

function count(text) {
  try {
    const decoded = decoder.decode(text);
    if (UNKNOWN.test(decoded)) return REFUSED;
    const normal = decoded.normalize("NFKC");
    return BigInt(tokenizer.encode_ordinary(normal).length);
  } catch (error) {
    console.error(`@anthropic-ai/tokenizer fails on ${text.length} bytes: ${error}`);
    tokenizer = getTokenizer();
    return REFUSED;
  }
}

write(Buffer.from("ready\n"));
for (let head; (head = read(4)); ) {
  const texts = head.readUInt32LE();
  const counts = Buffer.alloc(8 * texts);
  for (let index = 0; index < texts; index += 1) {
    const length = read(4).readUInt32LE();
    counts.writeBigUInt64LE(count(length ? read(length) : Buffer.alloc(0)), 8 * index);
  }
  write(counts);
}
