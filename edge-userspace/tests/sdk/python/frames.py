"""HTTP/2 by others' libraries: the scripts of `tests/framing/http2`, with frames by hyperframe
and heads by hpack (indexed, with Huffman's code), and answers that h2's strict client reads.

How a script is read is said in `data_path/frames/scripts.rs`, which runs the same ones with frames
that are made by hand.
"""

import json
import os
import pathlib
import re
import socket
import ssl
import time
import urllib.parse
import urllib.request

import h2.config
import h2.connection
import h2.events
import hpack
from hyperframe.frame import ContinuationFrame, DataFrame, Frame, GoAwayFrame, HeadersFrame
from hyperframe.frame import PingFrame, RstStreamFrame, SettingsFrame
from h2.errors import ErrorCodes
from checks import check, run

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
ASK = b"are-you?"
KEY = os.environ["ANTHROPIC_API_KEY"]
SCRIPTS = pathlib.Path(__file__).parents[2] / "framing/http2"
# A hang guard, not a promise.
PATIENCE = 60


def connect():
    """A TLS connection on which HTTP/2 was agreed."""
    base = urllib.parse.urlsplit(os.environ["ANTHROPIC_BASE_URL"])
    context = ssl.create_default_context(cafile=os.environ["SSL_CERT_FILE"])
    context.set_alpn_protocols(["h2"])
    tcp = socket.create_connection((base.hostname, base.port), timeout=PATIENCE)
    tls = context.wrap_socket(tcp, server_hostname=base.hostname)
    assert tls.selected_alpn_protocol() == "h2"
    return tls


LOOKS = 0


def figures():
    """What the demo model has counted, without our looks, each of which is a request there."""
    global LOOKS
    LOOKS += 1
    with urllib.request.urlopen(os.environ["EDGE_TEST_MODEL"] + "/demo/stats", timeout=PATIENCE) as answer:
        counted = json.load(answer)
    return {"requests": counted["requests"] - LOOKS, "active": counted["active"]}


def unescape(text):
    byte = {"r": "\r", "n": "\n", "t": "\t", "0": "\0", "\\": "\\"}
    def one(match):
        escape = match.group(1)
        return chr(int(escape[1:], 16)) if escape[0] == "x" else byte[escape]
    # Characters beyond one byte do not occur.
    return re.sub(r"\\(x..|.)", one, text).encode("latin-1")


def fields(text):
    pairs = (field.split("=", 1) for field in text.split(" ") if field)
    return [(unescape(name), unescape(value)) for name, value in pairs]


def integer(first, bits, value):
    """An integer whose first byte has so many bits for it behind `first` (RFC 7541 section 5.1)."""
    most = (1 << bits) - 1
    if value < most:
        return bytes([first | value])
    coded, rest = [first | most], value - most
    while rest >= 128:
        coded.append(rest % 128 | 128)
        rest //= 128
    return bytes(coded + [rest])


def form(field):
    """A field in the form that the script wants."""
    if field[0] in "#^":
        first, bits = (0x80, 7) if field[0] == "#" else (0x20, 5)
        return integer(first, bits, int(field[1:]))
    first = {"+": 0x40, "!": 0x10}.get(field[0], 0)
    [(name, value)] = fields(field[1:] if first else field)
    return bytes([first]) + b"".join(integer(0, 7, len(text)) + text for text in (name, value))


def raw_frame(kind, flags, stream, payload):
    head = len(payload).to_bytes(3, "big") + bytes([kind, flags])
    return head + stream.to_bytes(4, "big") + payload


def step(line, encoder):
    """The bytes of one line."""
    what, _, rest = line.partition(" ")
    if what == "raw":
        return unescape(rest)
    first, second, third = rest.split(" ", 2)
    if what == "fields":
        flags = int(second)
        payload = b"".join(form(field) for field in third.split(" ") if field)
        if flags & 0x20:
            payload = bytes(4) + b"\x0f" + payload
        if flags & 8:
            payload = b"\x03" + payload + bytes(3)
        return raw_frame(1, flags, int(first), payload)
    if what == "frame":
        stream, payload = third.split(" ", 1)
        zeros = re.fullmatch(r"zeros (\d+)", payload)
        payload = bytes(int(zeros.group(1))) if zeros else unescape(payload)
        return raw_frame(int(first), int(second), int(stream), payload)
    kinds = {"headers": HeadersFrame, "continuation": ContinuationFrame, "data": DataFrame}
    # hyperframe refuses a stream of 0 for these; what is wrong is to reach the edge.
    frame = kinds[what](int(first) or 1)
    frame.stream_id = int(first)
    for flag in second.split(","):
        if flag != "-":
            frame.flags.add(flag.upper())
    frame.data = unescape(third) if what == "data" else encoder.encode(fields(third))
    return frame.serialize()


def code(number):
    try:
        return ErrorCodes(number).name
    except ValueError:
        return "?"


class Observed:
    """What has come back on a connection."""

    def __init__(self, tls):
        self.tls, self.seen, self.buffer, self.decoder = tls, [], b"", hpack.Decoder()

    def until(self, is_enough):
        """Reads until that is so, or the end."""
        while not is_enough(self.seen):
            if not self.next():
                self.seen.append("closed")
                return

    def next(self):
        """The next frame; whether there was one."""
        tls, seen, buffer = self.tls, self.seen, self.buffer
        while len(buffer) < 9 or len(buffer) < 9 + int.from_bytes(buffer[:3], "big"):
            try:
                more = tls.recv(65536)
            except (ConnectionError, ssl.SSLError):
                more = b""
            if not more:
                return False
            buffer += more
        frame, length = Frame.parse_frame_header(memoryview(buffer[:9]))
        frame.parse_body(memoryview(buffer[9:9 + length]))
        self.buffer = buffer[9 + length:]
        if isinstance(frame, HeadersFrame):
            head = dict(self.decoder.decode(frame.data))
            if ":status" in head:
                seen.append(f"status {frame.stream_id} {head[':status']}")
        elif isinstance(frame, RstStreamFrame):
            seen.append(f"rst {frame.stream_id} {code(frame.error_code)}")
        elif isinstance(frame, GoAwayFrame):
            seen.append(f"goaway {code(frame.error_code)}")
        elif isinstance(frame, PingFrame) and "ACK" in frame.flags:
            seen.append("open" if frame.opaque_data == ASK else "pong")
        elif isinstance(frame, SettingsFrame) and "ACK" not in frame.flags:
            seen.append("settings")
        elif isinstance(frame, SettingsFrame):
            before = sum(one.startswith("acknowledged ") for one in seen)
            seen.append(f"acknowledged {before + 1}")
        if isinstance(frame, (DataFrame, HeadersFrame)) and "END_STREAM" in frame.flags:
            seen.append(f"end {frame.stream_id}")
        return True


def is_last(seen):
    """Whether a GOAWAY of an error is the last thing that is said (RFC 9113 section 5.4.1)."""
    errors = [said for said in seen if said.startswith("goaway ") and said != "goaway NO_ERROR"]
    return not errors or all(said == "closed" for said in seen[seen.index(errors[0]) + 1:])


def play(file):
    """Runs one script; gives what is wrong, if anything is."""
    head, script = file.read_text().split("---\n")
    head = dict(line.split(": ", 1) for line in head.splitlines())
    expect = head["expect"]
    alternatives = [{one.strip() for one in wanted.split(",")} for wanted in expect.split("|")]
    lines = script.replace("{key}", KEY).splitlines()
    encoder = hpack.Encoder()
    begin = PREFACE + SettingsFrame(0).serialize()
    if lines[0] in ("bare", "nothing"):
        begin = PREFACE if lines.pop(0) == "bare" else b""
    ping = PingFrame(0)
    ping.opaque_data = ASK
    before = figures()["requests"]
    with connect() as tls:
        observed, sent = Observed(tls), begin
        for line in lines + [None]:
            if line is not None and not line.startswith("until "):
                sent += step(line, encoder)
                continue
            try:
                tls.sendall(sent + (ping.serialize() if line is None else b""))
            except (ConnectionError, ssl.SSLError):
                pass  # ended by the edge meanwhile; what it said is read
            sent = b""
            if line is not None:
                condition = line.removeprefix("until ")
                observed.until(lambda seen: condition in seen)
        met = lambda seen: any(wanted <= set(seen) for wanted in alternatives)
        observed.until(lambda seen: "open" in seen and met(seen))
        seen = observed.seen
    deadline = time.monotonic() + PATIENCE
    while figures()["active"] > IDLE:
        assert time.monotonic() < deadline, "the model does not come to rest"
        time.sleep(0.01)
    after = figures()
    requests = after["requests"] - before
    if not any(wanted <= set(seen) for wanted in alternatives):
        return f"{file.stem}: {seen}, not {expect}"
    if head.get("never") in seen or not is_last(seen):
        return f"{file.stem}: {seen}, with what must not come"
    if head["upstream"].split(" ").count(str(requests)) == 0:
        return f"{file.stem}: {requests} requests reached the model"
    return None


# What is always active there: the request that fills another edge, if there is one.
IDLE = figures()["active"]


@check
def each_script_gets_the_specified_error():
    files = sorted(SCRIPTS.glob("*.txt"))
    assert len(files) > 90, files
    wrong = [what for what in map(play, files) if what]
    assert not wrong, "\n".join([f"{len(wrong)} of them:", *wrong])
    print(len(files), "scripts")


def ask(client, tls, path, headers, body):
    """One request by h2's client, which raises when the edge breaks the protocol; gives status,
    body, and whether the connection goes on."""
    stream = client.get_next_available_stream_id()
    head = [(":method", "POST"), (":scheme", "https"), (":path", path), (":authority", "localhost")]
    client.send_headers(stream, head + [("x-api-key", KEY)] + headers, end_stream=not body)
    status, answer, over = None, b"", False
    while not over or body:
        room = min(client.local_flow_control_window(stream), client.max_outbound_frame_size) if body else 0
        if room:
            client.send_data(stream, body[:room], end_stream=len(body) <= room)
            body = body[room:]
        tls.sendall(client.data_to_send())
        if room:
            continue
        more = tls.recv(65536)
        assert more, "the connection goes on"
        for event in client.receive_data(more):
            if isinstance(event, h2.events.ResponseReceived):
                status = int(dict(event.headers)[b":status"])
            elif isinstance(event, h2.events.DataReceived):
                answer += event.data
                client.acknowledge_received_data(event.flow_controlled_length, stream)
            elif isinstance(event, h2.events.StreamEnded):
                over = True
            else:
                assert not isinstance(event, (h2.events.StreamReset, h2.events.ConnectionTerminated)), event
    return status, answer


@check
def a_strict_client_finds_nothing_wrong_in_what_the_edge_sends():
    client = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True, header_encoding=None))
    version = [("anthropic-version", "2023-06-01")]
    message = b'{"model":"claude-demo","max_tokens":50,"messages":[{"role":"user","content":"?"}]}'
    stream = message[:-1] + b',"stream":true}'
    with connect() as tls:
        client.initiate_connection()
        for _ in range(3):
            status, answer = ask(client, tls, "/v1/messages", version, message)
            assert status == 200 and json.loads(answer)["type"] == "message"
            status, answer = ask(client, tls, "/v1/messages", version, stream)
            assert status == 200 and answer.endswith(b'{"type":"message_stop"}\n\n'), answer[-200:]
            # Refused while a body of megabytes is on its way.
            status, answer = ask(client, tls, "/v1/messages", [], b" " * 3_000_000)
            assert status == 400 and json.loads(answer)["error"]["type"] == "invalid_request_error"
            status, answer = ask(client, tls, "/v1/messages", version + [("x-large", "x" * 70_000)], message)
            assert status == 431 and json.loads(answer)["error"]["type"] == "request_too_large"
            status, answer = ask(client, tls, "/v1/nothing", version, b"")
            assert status == 404


@check
def a_strict_client_that_waits_for_a_100_is_asked_for_its_body_unless_it_is_refused():
    client = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True, header_encoding=None))
    body = b'{"model":"claude-demo","max_tokens":5,"messages":[{"role":"user","content":"?"}]}'
    head = [(":method", "POST"), (":scheme", "https"), (":path", "/v1/messages"), (":authority", "localhost")]
    head += [("expect", "100-continue"), ("x-api-key", KEY)]
    version = [("anthropic-version", "2023-06-01")]
    with connect() as tls:
        client.initiate_connection()
        for more_head, expected in [(version, [100, 200]), ([], [400]), (version, [100, 200])]:
            stream = client.get_next_available_stream_id()
            client.send_headers(stream, head + more_head)
            statuses, over = [], False
            while not over:
                tls.sendall(client.data_to_send())
                more = tls.recv(65536)
                assert more, "the connection goes on"
                for event in client.receive_data(more):
                    if isinstance(event, h2.events.InformationalResponseReceived):
                        statuses.append(int(dict(event.headers)[b":status"]))
                        client.send_data(stream, body, end_stream=True)
                    elif isinstance(event, h2.events.ResponseReceived):
                        statuses.append(int(dict(event.headers)[b":status"]))
                    elif isinstance(event, h2.events.StreamEnded):
                        over = True
            assert statuses == expected, statuses


run()
