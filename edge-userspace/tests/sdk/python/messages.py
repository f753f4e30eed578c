"""The official Python SDK against the edge: everything but errors."""

import asyncio
import base64
import hashlib
import os
import struct
import zlib

import anthropic
from anthropic import Anthropic, AsyncAnthropic, beta_tool
from anthropic.types import (
    Message, MessageTokensCount, ModelInfo, RawMessageStreamEvent, TextBlock, ThinkingBlock,
    ToolUseBlock,
)
from checks import check, ledger, run, words

MODEL = "claude-demo"
ASK = [{"role": "user", "content": "How are you, água?"}]
WEATHER = {
    "name": "weather",
    "description": "What the weather will be",
    "input_schema": {
        "type": "object",
        "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
        "required": ["city", "days"],
    },
}
INPUT = {"city": "água 🦀", "days": 7}

client = Anthropic()


def account(name):
    return {"x-demo-account": f"python-{name}"}


def assert_is_the_edges(headers):
    """The answer came by the edge, and says how it counted."""
    assert headers["request-id"].startswith("req_"), headers
    assert headers["request-id"] != "req_demo", "the edge's own"
    tokens, kind = headers["x-edge-input-tokens"].split(";")
    assert int(tokens) > 0 and kind in ("estimate", "exact"), headers
    zero = os.environ["EDGE_TEST_LANE"] == "zero"
    assert headers["x-claude-route"] == ("direct" if zero else "fallback"), headers


@check
def a_message():
    message = client.messages.create(model=MODEL, max_tokens=12, messages=ASK)
    assert isinstance(message, Message)
    assert [type(block) for block in message.content] == [TextBlock]
    assert message.content[0].text == words(12)
    assert message.role == "assistant" and message.model == MODEL
    assert message.stop_reason == "max_tokens" and message.stop_sequence is None
    assert message.usage.output_tokens == 12 and message.usage.input_tokens > 0
    assert message._request_id.startswith("req_")


@check
def a_message_with_system_metadata_and_sampling():
    message = client.messages.create(
        model=MODEL, max_tokens=100, messages=ASK + [
            {"role": "assistant", "content": "Well."},
            {"role": "user", "content": [{"type": "text", "text": "And now? " + "日本" * 2000}]},
        ],
        system=[{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}],
        metadata={"user_id": "u1"}, stop_sequences=["END"],
        extra_headers={"x-demo-tokens": "3"},
    )
    assert message.content[0].text == words(3) and message.stop_reason == "end_turn"


@check
def a_raw_response_and_the_body_as_it_was_sent():
    raw = client.messages.with_raw_response.create(
        model=MODEL, max_tokens=4, messages=ASK, extra_headers={"x-demo-hash": "1"},
    )
    sent = raw.http_request.content
    assert raw.headers["x-demo-body-sha256"] == hashlib.sha256(sent).hexdigest()
    assert_is_the_edges(raw.headers)
    assert raw.status_code == 200
    message = raw.parse()
    assert isinstance(message, Message) and message.content[0].text == words(4)


@check
def a_streaming_response_read_by_lines():
    with client.messages.with_streaming_response.create(
        model=MODEL, max_tokens=4, messages=ASK,
    ) as response:
        assert_is_the_edges(response.headers)
        message = response.parse()
    assert message.content[0].text == words(4)


@check
def a_stream_of_raw_events():
    stream = client.messages.create(
        model=MODEL, max_tokens=20, messages=ASK, stream=True,
        extra_headers={"x-demo-chunk-bytes": "7"},
    )
    assert_is_the_edges(stream.response.headers)
    events = list(stream)
    kinds = [event.type for event in events]
    assert kinds == ["message_start", "content_block_start"] + ["content_block_delta"] * 20 + [
        "content_block_stop", "message_delta", "message_stop"], kinds
    text = "".join(event.delta.text for event in events if event.type == "content_block_delta")
    assert text == words(20)
    assert events[0].message.usage.output_tokens == 1
    assert events[-2].usage.output_tokens == 20


@check
def the_streaming_helper():
    with client.messages.stream(model=MODEL, max_tokens=50, messages=ASK) as stream:
        assert_is_the_edges(stream.response.headers)
        text = "".join(stream.text_stream)
        message = stream.get_final_message()
    assert text == words(50) == message.content[0].text
    assert message.usage.output_tokens == 50 and message.stop_reason == "max_tokens"
    assert message.usage.input_tokens > 0


@check
def a_stream_that_is_left():
    with client.messages.stream(
        model=MODEL, max_tokens=100_000, messages=ASK,
        extra_headers={"x-demo-inter-token-ms": "5", **account("left")},
    ) as stream:
        for n, _ in enumerate(stream.text_stream):
            if n == 5:
                break
    # The same client is good for more.
    assert client.messages.create(model=MODEL, max_tokens=1, messages=ASK).content


@check
def a_count_of_tokens():
    alone = client.messages.count_tokens(model=MODEL, messages=ASK)
    assert isinstance(alone, MessageTokensCount)
    more = client.messages.count_tokens(
        model=MODEL, messages=ASK, system="Be brief, " * 20, tools=[WEATHER],
    )
    assert 0 < alone.input_tokens < more.input_tokens, (alone, more)


@check
def a_call_of_a_tool():
    asked = dict(model=MODEL, max_tokens=30, tools=[WEATHER], tool_choice={"type": "any"})
    message = client.messages.create(messages=ASK, **asked)
    text, call = message.content
    assert isinstance(text, TextBlock) and isinstance(call, ToolUseBlock)
    assert (call.name, call.input, message.stop_reason) == ("weather", INPUT, "tool_use")
    with client.messages.stream(messages=ASK, **asked) as stream:
        partial = [event.partial_json for event in stream if event.type == "input_json"]
        streamed = stream.get_final_message()
    assert "".join(partial) and streamed.content[1].input == INPUT
    assert streamed.to_dict()["content"] == message.to_dict()["content"]
    answer = client.messages.create(messages=ASK + [
        {"role": "assistant", "content": message.content},
        {"role": "user", "content": [{
            "type": "tool_result", "tool_use_id": call.id, "content": "9 °C"}]},
    ], **asked)
    assert [block.type for block in answer.content] == ["text"]


@check
def the_tool_runner():
    seen = []

    @beta_tool
    def weather(city: str, days: int) -> str:
        """What the weather will be.

        Args:
            city: Where.
            days: For how long.
        """
        seen.append((city, days))
        return "9 °C"

    runner = client.beta.messages.tool_runner(
        model=MODEL, max_tokens=30, tools=[weather], tool_choice={"type": "any"}, messages=ASK,
    )
    last = runner.until_done()
    assert seen == [("água 🦀", 7)], seen
    assert last.stop_reason == "max_tokens" and last.content[0].text == words(30)


@check
def thinking():
    asked = dict(model=MODEL, max_tokens=2000, messages=ASK,
                 thinking={"type": "enabled", "budget_tokens": 1024},
                 extra_headers={"x-demo-tokens": "40"})
    message = client.messages.create(**asked)
    thought, text = message.content
    assert isinstance(thought, ThinkingBlock) and thought.thinking == words(20)
    with client.messages.stream(**asked) as stream:
        thoughts = "".join(event.thinking for event in stream if event.type == "thinking")
        streamed = stream.get_final_message()
    assert thoughts == words(20)
    assert streamed.content[0].signature == thought.signature != ""
    assert streamed.content[1].text == text.text == words(20)


def png(width, height):
    """A picture without anything on it."""
    def chunk(kind, data):
        body = kind + data
        return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    rows = (b"\0" + b"\xff\x80\0" * width) * height
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


@check
def a_picture():
    def ask(side):
        picture = base64.b64encode(png(side, side)).decode()
        return [{"role": "user", "content": [
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": picture}},
            {"type": "text", "text": "What is this?"},
        ]}]
    raw = client.messages.with_raw_response.create(
        model=MODEL, max_tokens=2, messages=ask(400), extra_headers={"x-demo-hash": "1"})
    sent = raw.http_request.content
    assert raw.headers["x-demo-body-sha256"] == hashlib.sha256(sent).hexdigest()
    assert raw.parse().content[0].text == words(2)
    small = client.messages.count_tokens(model=MODEL, messages=ask(100)).input_tokens
    large = client.messages.count_tokens(model=MODEL, messages=ask(1000)).input_tokens
    assert large > small + 500, (small, large)


@check
def usage_in_every_shape():
    """Nothing that an upstream says of its usage is changed, or breaks the SDK."""
    for shape in ["null", "absent", "strings", "huge"]:
        # The helpers themselves break on these, the events do not.
        stream = client.messages.create(
            model=MODEL, max_tokens=40, messages=ASK, stream=True, extra_headers={"x-demo-usage": shape})
        told = [event.delta.text for event in stream if event.type == "content_block_delta"]
        assert "".join(told) == words(40), shape
    for shape in ["twice", "cumulative", "cache", "cache-null"]:
        with client.messages.stream(
            model=MODEL, max_tokens=40, messages=ASK, extra_headers={"x-demo-usage": shape},
        ) as stream:
            assert "".join(stream.text_stream) == words(40), shape
            message = stream.get_final_message()
        assert message.usage.output_tokens == 40, (shape, message.usage)
        if shape == "cache":
            assert message.usage.cache_read_input_tokens > 0
            assert message.usage.cache_creation_input_tokens > 0


@check
def the_edges_own_events():
    """`edge_usage` is asked for by a beta, and the SDK passes over it."""
    with client.messages.stream(
        model=MODEL, max_tokens=20, messages=ASK,
        extra_headers={"anthropic-beta": "edge-usage-2026-11-01"},
    ) as stream:
        assert "".join(stream.text_stream) == words(20)
        assert stream.get_final_message().usage.output_tokens == 20


@check
def models():
    listed = client.models.list()
    assert [model.id for model in listed.data] == ["claude-demo", "claude-other", "gpt-demo"]
    assert all(isinstance(model, ModelInfo) for model in listed.data)
    assert all(model.id and model.display_name and model.created_at for model in listed.data)
    assert client.models.retrieve("claude-demo").display_name == "Demo"
    everything = [model.id for model in client.models.list(limit=1)]
    assert everything == [model.id for model in listed.data], "page by page"
    assert len(set(everything)) == len(everything)


@check
def a_large_body():
    text = "0123456789abcdef" * (3 << 16)  # 3 MiB
    raw = client.messages.with_raw_response.create(
        model=MODEL, max_tokens=1, messages=[{"role": "user", "content": text}],
        extra_headers={"x-demo-hash": "1"})
    assert raw.headers["x-demo-body-sha256"] == hashlib.sha256(raw.http_request.content).hexdigest()


@check
def asynchronous():
    async def go():
        async with AsyncAnthropic() as client:
            many = [client.messages.create(model=MODEL, max_tokens=n, messages=ASK) for n in range(1, 17)]
            for n, message in enumerate(await asyncio.gather(*many), start=1):
                assert message.content[0].text == words(n)

            async def streamed(count):
                async with client.messages.stream(
                    model=MODEL, max_tokens=count, messages=ASK,
                    extra_headers={"x-demo-chunk-bytes": str(count)},
                ) as stream:
                    text = "".join([text async for text in stream.text_stream])
                    message = await stream.get_final_message()
                assert text == words(count) == message.content[0].text
                assert message.usage.output_tokens == count

            await asyncio.gather(*(streamed(n) for n in range(1, 17)))
            events = [event async for event in await client.messages.create(
                model=MODEL, max_tokens=3, messages=ASK, stream=True)]
            assert events[-1].type == "message_stop"
            count = await client.messages.count_tokens(model=MODEL, messages=ASK)
            assert count.input_tokens > 0
            pages = [model.id async for model in client.models.list(limit=1)]
            assert pages == [model.id for model in (await client.models.list()).data]
    asyncio.run(go())


if __name__ == "__main__":
    assert anthropic.__version__
    run()
