#!/usr/bin/env node
// A client of the zero-layer edge with nothing but Node.js (18 or later).
//
//     EDGE_API_KEY_FILE=me.key node edge-client.mjs --audience demo --ca cert.pem localhost:8443
//     node edge-client.mjs --vectors ../vectors.json
//
// It offers `h2`, `http/1.1` and the token, and speaks what the edge selects.

import { createHash, hkdfSync, randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import http2 from 'node:http2';
import https from 'node:https';
import net from 'node:net';
import tls from 'node:tls';
import { parseArgs } from 'node:util';

const MASK = 0xffffffffffffffffn;
const rotate = (word, by) => ((word << by) | (word >> (64n - by))) & MASK;

/** SipHash-2-4 of eight bytes, least significant first (Aumasson and Bernstein, 2012). */
export function siphash24(key, data) {
  const [k0, k1] = [key.readBigUInt64LE(0), key.readBigUInt64LE(8)];
  let v0 = k0 ^ 0x736f6d6570736575n;
  let v1 = k1 ^ 0x646f72616e646f6dn;
  let v2 = k0 ^ 0x6c7967656e657261n;
  let v3 = k1 ^ 0x7465646279746573n;
  const rounds = (count) => {
    while (count--) {
      v0 = (v0 + v1) & MASK; v1 = rotate(v1, 13n) ^ v0; v0 = rotate(v0, 32n);
      v2 = (v2 + v3) & MASK; v3 = rotate(v3, 16n) ^ v2;
      v0 = (v0 + v3) & MASK; v3 = rotate(v3, 21n) ^ v0;
      v2 = (v2 + v1) & MASK; v1 = rotate(v1, 17n) ^ v2; v2 = rotate(v2, 32n);
    }
  };
  // Zeros up to whole words, and the length in the highest byte of the last.
  const padded = Buffer.alloc((Math.floor(data.length / 8) + 1) * 8);
  data.copy(padded);
  padded[padded.length - 1] = data.length & 255;
  for (let at = 0; at < padded.length; at += 8) {
    const word = padded.readBigUInt64LE(at);
    v3 ^= word;
    rounds(2);
    v0 ^= word;
  }
  v2 ^= 0xffn;
  rounds(4);
  const tag = Buffer.alloc(8);
  tag.writeBigUInt64LE(v0 ^ v1 ^ v2 ^ v3);
  return tag;
}

/** Makes the tokens of one API key at one audience. */
export class Minter {
  constructor(apiKey, audience) {
    const info = Buffer.from(`zl1 preauth${audience}`);
    this.macKey = Buffer.from(hkdfSync('sha256', apiKey, Buffer.alloc(0), info, 16));
    this.keyId = createHash('sha256').update('zl1 key id').update(apiKey).digest().subarray(0, 8);
  }

  /** The ALPN name for one connection. */
  token(issuedAt, nonce) {
    const time = Buffer.alloc(4);
    time.writeUInt32BE(issuedAt);
    const body = Buffer.concat([this.keyId, time, nonce]);
    return `ezl1-${Buffer.concat([body, siphash24(this.macKey, body)]).toString('hex')}`;
  }

  fresh() {
    return this.token(Math.floor(Date.now() / 1000), randomBytes(8));
  }
}

/** A TLS connection with a token of its own. */
export function connect(host, port, minter, ca) {
  return new Promise((resolve, reject) => {
    const socket = tls.connect({
      host,
      port,
      ca,
      servername: net.isIP(host) ? '' : host,
      minVersion: 'TLSv1.3',
      ALPNProtocols: ['h2', 'http/1.1', minter.fresh()],
      autoSelectFamily: true, // Node.js 18 would try `localhost` over IPv6 alone
    });
    socket.setTimeout(30_000, () => socket.destroy(new Error('no answer in 30 s')));
    socket.once('secureConnect', () => resolve(socket));
    socket.once('error', reject);
  });
}

/** One POST on that connection, in the protocol that was selected for it. */
function post(socket, authority, path, headers, body) {
  return socket.alpnProtocol === 'h2'
    ? overHttp2(socket, authority, path, headers, body)
    : overHttp1(socket, authority, path, headers, body);
}

function overHttp2(socket, authority, path, headers, body) {
  return new Promise((resolve, reject) => {
    const session = http2.connect(`https://${authority}`, { createConnection: () => socket });
    session.on('error', reject);
    const request = session.request({ ':method': 'POST', ':path': path, ...headers });
    let answer;
    let text = '';
    request.setEncoding('utf8');
    request.on('response', (head) => {
      answer = { protocol: 'h2', status: head[':status'], route: head['x-claude-route'] };
    });
    request.on('data', (chunk) => { text += chunk; });
    request.on('error', reject);
    // After an answer these change nothing any more.
    request.on('close', () => reject(new Error('the edge closed the stream without an answer')));
    request.on('end', () => {
      session.close();
      resolve({ ...answer, text });
    });
    request.end(body);
  });
}

function overHttp1(socket, authority, path, headers, body) {
  return new Promise((resolve, reject) => {
    const request = https.request({
      createConnection: () => socket,
      method: 'POST',
      path,
      headers: { host: authority, 'content-length': Buffer.byteLength(body), ...headers },
    }, (response) => {
      let text = '';
      response.setEncoding('utf8');
      response.on('data', (chunk) => { text += chunk; });
      response.on('error', reject);
      response.on('end', () => {
        socket.end();
        const { statusCode: status, headers: head } = response;
        resolve({ protocol: 'http/1.1', status, route: head['x-claude-route'], text });
      });
    });
    request.on('error', reject);
    request.end(body);
  });
}

/** From the file that EDGE_API_KEY_FILE names, or from EDGE_API_KEY; never an argument. */
function readApiKey() {
  const { EDGE_API_KEY_FILE: file, EDGE_API_KEY: text = '' } = process.env;
  const key = (file ? readFileSync(file, 'utf8') : text).trim();
  if (!key) {
    throw new Error('no API key: set EDGE_API_KEY_FILE to a file that holds it, or EDGE_API_KEY');
  }
  return Buffer.from(key);
}

function checkVectors(file) {
  const vectors = JSON.parse(readFileSync(file, 'utf8'));
  const bytes = (hex) => Buffer.from(hex, 'hex');
  const demand = (got, wanted) => {
    if (got !== wanted) throw new Error(`made ${got}, not ${wanted}`);
  };
  for (const { key, message, tag } of vectors.siphash) {
    demand(siphash24(bytes(key), bytes(message)).toString('hex'), tag);
  }
  for (const vector of vectors.tokens) {
    const minter = new Minter(Buffer.from(vector.api_key), vector.audience);
    demand(minter.keyId.toString('hex'), vector.key_id);
    demand(minter.macKey.toString('hex'), vector.mac_key);
    demand(minter.token(vector.issued_at, bytes(vector.nonce)), vector.token);
  }
  console.log(`${vectors.tokens.length} tokens and ${vectors.siphash.length} tags are as in ${file}`);
}

/** What went wrong, in words that help. */
function explain(error, minter, audience) {
  switch (error.code) {
    case 'ERR_SSL_TLSV1_ALERT_ACCESS_DENIED':
      return `the edge refused the token (TLS alert access_denied). Things to check, likeliest first:
  - the audience: is '${audience}' the edge's keys.audience, letter for letter?
  - the API key: does \`edge keys list\` show its key id, ${minter.keyId.toString('hex')}, not revoked, not out of
    date, and for that audience?
  - the clock: this machine says ${new Date().toISOString()}; tokens are good 30 s back, 5 s ahead by default
  - the rate: a key may open only so many connections a second
  - the token: a new one for each connection, never one that was sent before`;
    case 'ECONNRESET':
    case 'ETIMEDOUT':
      return `${error.message}; an edge with kernel.answer = "rst" or "drop" refuses a token like this`;
    case 'DEPTH_ZERO_SELF_SIGNED_CERT':
    case 'UNABLE_TO_VERIFY_LEAF_SIGNATURE':
    case 'SELF_SIGNED_CERT_IN_CHAIN':
      return `the edge's certificate is not trusted: ${error.message}; is --ca right?`;
    default:
      return error.message || String(error);
  }
}

async function main() {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      audience: { type: 'string', default: 'demo' },
      ca: { type: 'string' },
      vectors: { type: 'string' },
    },
  });
  if (values.vectors) {
    checkVectors(values.vectors);
    return;
  }
  const [, host, port] = /^\[?(.+?)\]?:(\d+)$/.exec(positionals[0] ?? '') ?? [];
  if (!host) {
    throw new Error('where is the edge? edge-client.mjs [--audience NAME] [--ca FILE] HOST:PORT');
  }
  const apiKey = readApiKey();
  const minter = new Minter(apiKey, values.audience);
  const ca = values.ca && readFileSync(values.ca);
  const body = JSON.stringify({ model: 'm', max_tokens: 8, messages: [{ role: 'user', content: 'hello' }] });
  const headers = {
    'x-api-key': apiKey.toString(),
    'anthropic-version': '2023-06-01',
    'content-type': 'application/json',
  };
  let answer;
  try {
    const socket = await connect(host, Number(port), minter, ca);
    answer = await post(socket, positionals[0], '/v1/messages', headers, body);
  } catch (error) {
    throw new Error(explain(error, minter, values.audience), { cause: error });
  }
  console.log(`${answer.protocol} ${answer.status}, x-claude-route: ${answer.route}`);
  console.log(answer.text);
  if (answer.status !== 200) {
    throw new Error('the request was refused inside TLS; the answer says why');
  }
}

main().catch((error) => {
  console.error(`error: ${error.message}`);
  process.exitCode = 1;
});
