// What the scripts share: a list of checks, each of which says `ok` or `FAILED` with its name.
//
// Where the edge is, the SDK takes from its own variables (ANTHROPIC_BASE_URL and so on).
// EDGE_TEST_MODEL is where the demo model itself is, which knows how often it was asked.

import { createRequire } from 'node:module';

const require = createRequire(process.env.EDGE_TEST_PACKAGES + '/');
export const sdk = require('@anthropic-ai/sdk');

const checks = [];

/** Puts a function into the list, under its name. */
export const check = (name, run) => checks.push([name, run]);

// Of the demo model's sixteen words, in the order in which it says them.
const WORDS = ['the ', 'model ', 'says ', 'that ', 'água ', 'über ', 'naïve ', '日本 ', '語 ',
  '🦀 ', 'and ', 'so ', 'on, ', 'one ', 'token ', 'more. '];

/** The text that the demo model answers with, in so many pieces. */
export const words = (count) => {
  const nth = (n) => BigInt.asUintN(64, BigInt(n) * 0x9E3779B97F4A7C15n) >> 60n;
  return Array.from({ length: count }, (_, n) => WORDS[Number(nth(n))]).join('');
};

/** What the demo model has booked for an account: how often it was asked, for one. */
export const ledger = async (account) => {
  const answer = await fetch(process.env.EDGE_TEST_MODEL + '/demo/ledger');
  return (await answer.json())[account] ?? { requests: 0 };
};

/** Runs every check and exits: 1 when one failed. */
export const run = async () => {
  let failed = 0;
  for (const [name, check] of checks) {
    try {
      await check();
      console.log('ok', name);
    } catch (error) {
      failed += 1;
      console.log('FAILED', name);
      console.log(error);
    }
  }
  console.log(`${checks.length} checks, ${failed} failed`);
  process.exit(failed ? 1 : 0);
};
