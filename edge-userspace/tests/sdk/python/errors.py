"""The table errors.json with the official SDK that is named as the argument: `python` for
`anthropic`, `openai` for `openai`. Its class of exception, and how often it asked."""

import json
import os
import pathlib
import re
import sys
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor

import checks
import httpx2

WHICH = sys.argv[1]
LANE = os.environ["EDGE_TEST_LANE"]
if WHICH == "python":
    import anthropic as sdk
    from anthropic import Anthropic as Client
    MODEL, COLUMN = "claude-demo", 0
else:
    import openai as sdk
    from openai import OpenAI as Client
    MODEL, COLUMN = "gpt-demo", 2

TABLE = json.loads((pathlib.Path(__file__).parent.parent / "errors.json").read_text())


def base(variable):
    return os.environ[variable] + ("" if WHICH == "python" else "/v1")


def client_of(row, retries, **options):
    options["max_retries"] = retries
    if "key" in row:
        options["api_key"] = row["key"]
    if "as" in row:
        options["api_key"] = os.environ[f"EDGE_TEST_{row['as']}_KEY"]
        options["base_url"] = base(f"EDGE_TEST_{row['as']}_BASE")
    if "at" in row:
        options["base_url"] = base(row["at"])
    return Client(**options)


def ask(client, row, account):
    """Asks, and reads the answer to its end."""
    content = "How are you?" + " padding" * (row.get("padding", 0) // 8)
    body = {"model": MODEL, "max_tokens": 20, "messages": [{"role": "user", "content": content}]}
    body |= row.get("body", {})
    headers = {"x-demo-account": account, **row.get("headers", {})}
    create = client.messages.create if WHICH == "python" else client.chat.completions.create
    if row.get("stream"):
        return list(create(**body, stream=True, extra_headers=headers))
    return create(**body, extra_headers=headers)


def account_of(row):
    return f"{WHICH}-{LANE}-" + row["name"].replace(" ", "-")


def refused_by_the_edge():
    """How many requests the edge has answered with an error so far, by status."""
    with urllib.request.urlopen(os.environ["EDGE_TEST_ADMIN"] + "/metrics", timeout=60) as answer:
        text = answer.read().decode()
    counts = {}
    for status, count in re.findall(r'^edge_requests_total\{[^}]*status="(\d+)"[^}]*\} (\d+)', text, re.M):
        counts[int(status)] = counts.get(int(status), 0) + int(count)
    return counts


def error_of(row, retries):
    try:
        answer = ask(client_of(row, retries), row, account_of(row))
    except (sdk.APIError, httpx2.TransportError) as error:
        return error
    raise AssertionError(f"{row['name']}: no error but {answer!r}")


def body_of(error):
    body = error.body
    return body.get("error", body) if isinstance(body, dict) else {}


def assert_is(error, row):
    expected = row.get(WHICH, TABLE["classes"][str(row["status"])][COLUMN])
    assert type(error).__name__ == expected, (row["name"], type(error), error)
    assert error.status_code == row["status"], (row["name"], error)
    assert body_of(error)["type"] == row["type"], (row["name"], error.body)
    assert body_of(error)["message"], (row["name"], error.body)
    assert error.response.headers["request-id"].startswith("req_")


def rows(counted):
    return [row for row in TABLE["rows"]
            if row.get("counted", "model") == counted
            and WHICH in row.get("only", [WHICH]) and LANE == row.get("lane", LANE)]


@checks.check
def errors_of_the_upstream():
    chosen = rows("model")
    with ThreadPoolExecutor(len(chosen)) as pool:
        for row, error in zip(chosen, pool.map(lambda row: error_of(row, 1), chosen)):
            assert_is(error, row)
            asked = checks.ledger(account_of(row))["requests"]
            assert asked == 1 + row["retried"], (row["name"], asked)


@checks.check
def errors_of_the_edge():
    # One after the other: they are counted at the edge, all together.
    for row in rows("edge"):
        if row.get("first"):
            assert ask(client_of(row, 0), row, account_of(row))
        before = refused_by_the_edge().get(row["status"], 0)
        error = error_of(row, 1)
        assert_is(error, row)
        assert checks.ledger(account_of(row))["requests"] == row.get("first", 0), row["name"]
        if "at" not in row:
            asked = refused_by_the_edge()[row["status"]] - before
            assert asked == 1 + row["retried"], (row["name"], asked)


@checks.check
def an_error_that_passes_is_not_seen():
    for error in ["429", "500", "529", "close-before-head"]:
        row = {"name": f"passes {error}", "headers": {"x-demo-error": error, "x-demo-error-times": "1"}}
        assert ask(client_of(row, 2), row, account_of(row)), error
        assert checks.ledger(account_of(row))["requests"] == 2, error
    row = {"name": "passes at the third", "headers": {"x-demo-error": "503", "x-demo-error-times": "2"}}
    assert ask(client_of(row, 2), row, account_of(row))
    assert checks.ledger(account_of(row))["requests"] == 3


@checks.check
def retry_after_is_waited_for():
    headers = {"x-demo-error": "429", "x-demo-error-times": "1",
               "x-demo-headers": '{"retry-after":"2"}'}
    row = {"name": "retry after", "headers": headers}
    since = time.monotonic()
    assert ask(client_of(row, 1), row, account_of(row))
    # The SDK's own wait would have been half a second at most.
    assert time.monotonic() - since >= 2
    assert checks.ledger(account_of(row))["requests"] == 2


@checks.check
def errors_within_a_stream():
    chosen = [dict(row, stream=True) for row in TABLE["streams"] if LANE == row.get("lane", LANE)]
    with ThreadPoolExecutor(len(chosen)) as pool:
        for row, error in zip(chosen, pool.map(lambda row: error_of(row, 2), chosen)):
            if row.get("broken"):
                # The SDK for Messages lets its HTTP library's error through.
                expected = {"python": httpx2.TransportError, "openai": sdk.APIConnectionError}[WHICH]
                assert isinstance(error, expected), (row["name"], type(error), error)
            else:
                expected = {"python": "APIStatusError", "openai": "APIError"}[WHICH]
                assert type(error).__name__ == expected, (row["name"], type(error), error)
                assert body_of(error)["type"] == row["type"], (row["name"], error.body)
            asked = checks.ledger(account_of(row))["requests"]
            assert asked == 1, (row["name"], asked, "an answer that has begun is not asked for again")


def limits_are_told_over_http_2():
    """Python's h2 takes the first GOAWAY for the end of all streams, and fails at frames behind it."""
    client = client_of({"as": "SINGLE"}, 0, http_client=sdk.DefaultHttpxClient(http2=True))
    row = {"name": "beside a stream over http2"}
    account = account_of(row)
    create = client.messages.create if WHICH == "python" else client.chat.completions.create
    body = {"model": MODEL, "max_tokens": 100, "messages": [{"role": "user", "content": "x"}]}
    headers = {"x-demo-account": account, "x-demo-inter-token-ms": "5"}

    def refused():
        try:
            return create(**body, extra_headers=headers)
        except sdk.APIError as error:
            return error

    # Twice: what comes after the connection's end finds another.
    for _ in range(2):
        text = ""
        for at, event in enumerate(create(**body, stream=True, extra_headers=headers)):
            if at in (5, 50):
                error = refused()
                assert isinstance(error, sdk.RateLimitError), repr(error)
            if WHICH == "python":
                text += getattr(getattr(event, "delta", None), "text", "")
            else:
                text += (event.choices[0].delta.content or "") if event.choices else ""
        assert text == checks.words(100), text
    # And when nothing else runs.
    client = client_of({"as": "SLOW"}, 0, http_client=sdk.DefaultHttpxClient(http2=True))
    create = client.messages.create if WHICH == "python" else client.chat.completions.create
    refused()
    for _ in range(3):
        error = refused()
        assert isinstance(error, sdk.RateLimitError), repr(error)


if LANE == "legacy":
    # The sidecar speaks HTTP/1.1 to the SDKs.
    checks.check(limits_are_told_over_http_2)


if __name__ == "__main__":
    checks.run()
