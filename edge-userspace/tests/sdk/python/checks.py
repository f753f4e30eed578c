"""What the scripts share: a list of checks, each of which says `ok` or `FAILED` with its name.

Where the edge is, the SDKs take from their own variables (ANTHROPIC_BASE_URL and so on).
EDGE_TEST_MODEL is where the demo model itself is, which knows how often it was asked.
"""

import json
import os
import sys
import traceback
import urllib.request

CHECKS = []

# Of the demo model's sixteen words, in the order in which it says them.
WORDS = [
    "the ", "model ", "says ", "that ", "água ", "über ", "naïve ", "日本 ", "語 ", "🦀 ",
    "and ", "so ", "on, ", "one ", "token ", "more. ",
]


def check(function):
    """Puts a function into the list, under its name."""
    CHECKS.append(function)
    return function


def words(count):
    """The text that the demo model answers with, in so many pieces."""
    mixed = ((n * 0x9E3779B97F4A7C15 & 0xFFFFFFFFFFFFFFFF) >> 60 for n in range(count))
    return "".join(WORDS[n] for n in mixed)


def ledger(account):
    """What the demo model has booked for an account: how often it was asked, for one."""
    with urllib.request.urlopen(os.environ["EDGE_TEST_MODEL"] + "/demo/ledger", timeout=60) as answer:
        return json.load(answer).get(account, {"requests": 0})


def run():
    """Runs every check and exits: 1 when one failed."""
    failed = 0
    for function in CHECKS:
        try:
            function()
            print("ok", function.__name__, flush=True)
        except BaseException:
            failed += 1
            print("FAILED", function.__name__, flush=True)
            traceback.print_exc(file=sys.stdout)
    print(f"{len(CHECKS)} checks, {failed} failed", flush=True)
    sys.exit(1 if failed else 0)
