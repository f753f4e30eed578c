"""The official `openai` package against the edge: chat completions."""

import asyncio
import hashlib
import os

from openai import AsyncOpenAI, OpenAI
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from checks import check, run, words

MODEL = "gpt-demo"
ASK = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "How are you, água?"}]
WEATHER = {"type": "function", "function": {
    "name": "weather",
    "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
        "required": ["city", "days"],
    },
}}

client = OpenAI()


@check
def a_completion():
    completion = client.chat.completions.create(model=MODEL, max_tokens=12, messages=ASK)
    assert isinstance(completion, ChatCompletion)
    choice = completion.choices[0]
    assert choice.message.content == words(12) and choice.message.role == "assistant"
    assert choice.finish_reason == "stop" and completion.model == MODEL
    assert completion.usage.completion_tokens == 12 and completion.usage.prompt_tokens > 0


@check
def several_choices():
    completion = client.chat.completions.create(model=MODEL, max_completion_tokens=3, n=3, messages=ASK)
    assert [choice.message.content for choice in completion.choices] == [words(3)] * 3
    assert completion.usage.completion_tokens == 9


@check
def a_raw_response_and_the_body_as_it_was_sent():
    raw = client.chat.completions.with_raw_response.create(
        model=MODEL, max_tokens=4, messages=ASK, extra_headers={"x-demo-hash": "1"})
    sent = raw.http_request.content
    assert raw.headers["x-demo-body-sha256"] == hashlib.sha256(sent).hexdigest()
    assert raw.headers["request-id"].startswith("req_")
    zero = os.environ["EDGE_TEST_LANE"] == "zero"
    assert raw.headers["x-claude-route"] == ("direct" if zero else "fallback"), raw.headers
    assert raw.headers["x-edge-input-tokens"].split(";")[1] in ("estimate", "exact")
    assert raw.parse().choices[0].message.content == words(4)


@check
def a_stream():
    chunks = list(client.chat.completions.create(
        model=MODEL, max_tokens=20, messages=ASK, stream=True,
        stream_options={"include_usage": True}, extra_headers={"x-demo-chunk-bytes": "7"}))
    assert all(isinstance(chunk, ChatCompletionChunk) for chunk in chunks)
    told = [chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices]
    assert "".join(told) == words(20)
    assert chunks[-1].usage.completion_tokens == 20 and not chunks[-1].choices


@check
def a_stream_without_usage():
    chunks = list(client.chat.completions.create(
        model=MODEL, max_tokens=5, messages=ASK, stream=True))
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == words(5)
    assert all(chunk.usage is None for chunk in chunks)


@check
def the_streaming_helper():
    with client.chat.completions.stream(model=MODEL, max_tokens=30, messages=ASK) as stream:
        told = "".join(event.delta for event in stream if event.type == "content.delta")
        completion = stream.get_final_completion()
    assert told == words(30) == completion.choices[0].message.content


@check
def a_call_of_a_tool():
    asked = dict(model=MODEL, max_tokens=9, messages=ASK, tools=[WEATHER], tool_choice="required")
    completion = client.chat.completions.create(**asked)
    call = completion.choices[0].message.tool_calls[0]
    assert call.function.name == "weather" and "água 🦀" in call.function.arguments
    assert completion.choices[0].finish_reason == "tool_calls"
    with client.chat.completions.stream(**asked) as stream:
        for _ in stream:
            pass
        streamed = stream.get_final_completion().choices[0].message.tool_calls[0]
    assert streamed.function.arguments == call.function.arguments


@check
def models():
    listed = client.models.list().data
    assert [model.id for model in listed] == ["claude-demo", "claude-other", "gpt-demo"]


@check
def asynchronous():
    async def go():
        async with AsyncOpenAI() as client:
            many = [client.chat.completions.create(model=MODEL, max_tokens=n, messages=ASK)
                    for n in range(1, 9)]
            for n, completion in enumerate(await asyncio.gather(*many), start=1):
                assert completion.choices[0].message.content == words(n)
            stream = await client.chat.completions.create(
                model=MODEL, max_tokens=9, messages=ASK, stream=True)
            told = [chunk.choices[0].delta.content or "" async for chunk in stream]
            assert "".join(told) == words(9)
    asyncio.run(go())


if __name__ == "__main__":
    run()
