#!/usr/bin/env python3
"""Writes the packet fixtures beside it: `python3 make.py`, or `--check` to compare.

Each case of a file is a frame, the settings and the time under which the program sees it,
and everything that must come of it: the XDP action, the frame afterwards when it is sent
back, and every counter that moves (one that is not named must stand still).

    name, why   for people
    settings    what differs from keys.json's `settings`
    packet      the frame, hex
    lengths     instead of once whole: cut to each length from the first to the last
    action      pass, tx or drop; a passed frame must be unchanged
    output      the frame that is sent back, hex
    counters    by name, how far each moves
"""

import json
import pathlib
import struct
import sys

sys.dont_write_bytecode = True
from wire import *

HERE = pathlib.Path(__file__).parent
FILES = {}

LEGACY = ("no_token", "acme_challenge")
REJECTS = ("token_malformed", "token_duplicate", "key_unknown", "tag_wrong", "key_revoked",
           "key_not_yet_valid", "key_expired", "token_expired", "token_from_future", "legacy_denied")
UNDECIDED = ("incomplete", "record_fragmented", "hello_malformed", "hello_too_long", "not_linear",
             "policy_incomplete", "heartbeat_stale")


def case(file, name, packet, reason, why="", output=None, lengths=None, **settings):
    kind = settings.get("answer", "alert")
    counters = {"packets": 1, reason: 1}
    action = "pass"
    if reason == "accepted" or reason in LEGACY + REJECTS + UNDECIDED:
        counters |= {"hellos": 1, "events_sent": 1}
    if reason in REJECTS:
        action = "drop" if kind == "drop" else "tx"
        counters[f"answered_{kind}"] = 1
    made = {"name": name}
    if why:
        made["why"] = why
    if settings:
        made["settings"] = settings
    made["packet"] = packet.hex()
    if lengths:
        made["lengths"] = lengths
    made["action"] = action
    if action == "tx":
        made["output"] = output.hex()
    made["counters"] = counters
    cases = FILES.setdefault(file, [])
    assert name not in [other["name"] for other in cases], name
    cases.append(made)


GOOD = hello([b"h2", b"http/1.1", token()])
BAD = hello([b"h2", b"http/1.1", token(flip=1)])
PLAIN = hello([b"h2", b"http/1.1"])
USUAL = NOP + NOP + timestamps()
STAMPS = (0x11223344, 0x55667788)


def headers():
    def accepted(name, packet, why=""):
        case("headers", name, packet, "accepted", why)

    def passed(name, packet, reason, why=""):
        case("headers", name, packet, reason, why)

    for version in (4, 6):
        for words, tags in (("no", []), ("one", [DOT1Q]), ("a provider's", [QINQ]),
                            ("a provider's and a customer's", [QINQ, DOT1Q]), ("two customers'", [DOT1Q, DOT1Q])):
            accepted(f"IPv{version}, {words} VLAN tag", frame(GOOD, version, tags))
        for tags in ([DOT1Q, DOT1Q, DOT1Q], [QINQ, DOT1Q, DOT1Q], [QINQ, QINQ], [DOT1Q, QINQ]):
            kinds = ", ".join(f"{kind:04x}" for kind, _ in tags)
            passed(f"IPv{version} behind tags {kinds}", frame(GOOD, version, tags), "other_ether_type",
                   "two tags are followed, a provider's only as the first")

    for length in range(4, 41, 4):
        accepted(f"IPv4 with {length} bytes of options", frame(GOOD, ip={"options": NOP * length}),
                 "the payload is found by the header's length")
    accepted("IPv4, ECN and DSCP set", frame(GOOD, ip={"tos": 0xB9}))
    accepted("IPv4 without don't-fragment", frame(GOOD, ip={"fragment": 0}))
    accepted("IPv4, the reserved flag set", frame(GOOD, ip={"fragment": 0x8000}), "RFC 3514; not a fragment")
    accepted("IPv6 with traffic class and flow label", frame(GOOD, 6, ip={"first": 0x6FFABCDE}))
    accepted("IPv4, a wrong IP checksum", spoil(frame(GOOD), 14 + 10),
             "checksums are the stack's: with offloads they are not there yet")
    accepted("IPv4, a wrong TCP checksum", spoil(frame(GOOD), 14 + 20 + 16))

    usual = {
        "timestamps in the usual place": USUAL,
        "timestamps, then NOPs": timestamps() + NOP + NOP,
        "window scale, SACK permitted": b"\x03\x03\x07" + NOP + b"\x04\x02" + NOP + NOP,
        "a SACK block and timestamps": USUAL + NOP + NOP + b"\x05\x0a" + bytes(8),
        "40 bytes of NOP": NOP * 40,
        "an option whose length is 0": b"\x1e\x00" + bytes(2),
    }
    for name, options in usual.items():
        accepted(f"TCP with {name}", frame(GOOD, options=options))
        accepted(f"IPv6, TCP with {name}", frame(GOOD, 6, options=options))
    for flags, name in ((ACK, "ACK"), (ACK | PSH | FIN, "ACK, PSH, FIN"), (ACK | URG, "ACK, URG"),
                        (ACK | 0xC0, "ACK, CWR, ECE")):
        accepted(f"flags {name}", frame(GOOD, flags=flags))

    for flags, name in ((SYN, "SYN"), (SYN | ACK, "SYN, ACK"), (SYN | RST, "SYN, RST"), (SYN | FIN | ACK, "SYN, FIN, ACK")):
        passed(f"payload with {name}", frame(BAD, flags=flags), "syn_payload",
               "no connection behind it: answered by nobody")
    for flags, name in ((0, "none"), (PSH, "PSH"), (RST, "RST"), (RST | ACK, "RST, ACK"), (FIN, "FIN")):
        passed(f"payload with flags {name}", frame(BAD, flags=flags), "odd_flags")

    for version in (4, 6):
        for flags, name in ((SYN, "SYN"), (SYN | ACK, "SYN, ACK"), (ACK, "ACK"), (FIN | ACK, "FIN, ACK"), (RST, "RST"), (0, "no flag")):
            passed(f"IPv{version}, {name} without payload", frame(b"", version, flags=flags, options=USUAL), "no_payload")
        padded = frame(b"", version, flags=ACK)
        passed(f"IPv{version}, Ethernet padding that looks like a hello", padded + BAD, "no_payload",
               "what lies behind the IP packet is no payload")
        for port in (0, 80, 442, 444, 507, 379, 8442, 65535):
            passed(f"IPv{version}, a bad token to port {port}", frame(BAD, version, dport=port), "other_port")
        case("headers", f"IPv{version}, a good token to the second port", frame(GOOD, version, dport=8443), "accepted")

    for kind, name in ((0x0806, "ARP"), (0x88CC, "LLDP"), (0x8847, "MPLS"), (0x8864, "PPPoE"), (0x0600, "length 1536"), (0, "length 0")):
        passed(f"Ethernet, {name}", ethernet(ipv4(tcp(BAD, CLIENT4, SERVER4)), kind=kind), "other_ether_type")
    passed("Ethernet, IPv6's type on an IPv4 packet", ethernet(ipv4(tcp(BAD, CLIENT4, SERVER4)), kind=0x86DD), "header_truncated")
    passed("Ethernet, IPv4's type on an IPv6 packet", ethernet(ipv6(tcp(BAD, CLIENT6, SERVER6)), kind=0x0800), "header_truncated")

    segment = tcp(BAD, CLIENT4, SERVER4)
    for protocol, name in ((17, "UDP"), (1, "ICMP"), (47, "GRE"), (50, "ESP"), (132, "SCTP"), (4, "IPv4 in IPv4")):
        passed(f"IPv4, {name}", ethernet(ipv4(segment, protocol=protocol)), "other_protocol")
    segment6 = tcp(BAD, CLIENT6, SERVER6)
    extension = bytes([6, 0]) + bytes(6)
    for following, name in ((0, "hop-by-hop options"), (43, "routing"), (60, "destination options"),
                            (51, "authentication"), (135, "mobility"), (59, "no next header"), (253, "an unknown header")):
        passed(f"IPv6, {name}", ethernet(ipv6(extension + segment6, following=following)), "other_protocol",
               "extension headers are not followed")
    for following, name in ((17, "UDP"), (58, "ICMPv6")):
        passed(f"IPv6, {name}", ethernet(ipv6(segment6, following=following)), "other_protocol")

    for fragment, name in ((0x2000, "first"), (0x2001, "middle"), (0x00B9, "last"), (0x3FFF, "furthest"), (0x6000, "don't-fragment set, first")):
        passed(f"IPv4 fragment, {name}", ethernet(ipv4(segment, fragment=fragment)), "ip_fragment")
    for offset, name in ((1, "first"), (0xB9, "middle"), (0xB8, "last"), (0, "the only one")):
        header = bytes([6, 0]) + struct.pack(">HI", offset, 0x4242)
        passed(f"IPv6 fragment, {name}", ethernet(ipv6(header + segment6, following=44)), "ip_fragment")

    lies = {
        "IPv4 of version 5": ipv4(segment, version=5),
        "IPv4 of version 0": ipv4(segment, version=0),
        "IPv4, a header of 0 words": ipv4(segment, ihl=0),
        "IPv4, a header of 4 words": ipv4(segment, ihl=4),
        "IPv4, total length 0": ipv4(segment, total=0),
        "IPv4, total length below the header's": ipv4(segment, total=19),
        "IPv4, total length below its options'": ipv4(segment, options=NOP * 8, total=27),
        "IPv4, total length ends within the TCP header": ipv4(segment, total=20 + 19),
        "TCP, a header of 4 words": ipv4(tcp(BAD, CLIENT4, SERVER4, offset=4)),
        "TCP, a header of 0 words": ipv4(tcp(BAD, CLIENT4, SERVER4, offset=0)),
        "TCP, a header beyond the packet's end": ipv4(tcp(b"\x16\x03\x01", CLIENT4, SERVER4, offset=15)),
        "TCP, options beyond the total length": ipv4(tcp(BAD, CLIENT4, SERVER4, options=USUAL), total=20 + 31),
        "IPv6, payload length 0": ipv6(segment6, length=0),
        "IPv6, payload length within the TCP header": ipv6(segment6, length=19),
        "IPv6 of version 4": ipv6(segment6, first=0x40000000),
    }
    for name, packet in lies.items():
        kind = 0x86DD if "IPv6" in name else 0x0800
        passed(name, ethernet(packet, kind=kind), "header_truncated")
    passed("IPv4, a header of 15 words over a segment of 5",
           ethernet(ipv4(segment, ihl=15)), "other_port", "the ports are looked for where the header says")
    passed("IPv4, total length cuts the payload", ethernet(ipv4(segment, total=20 + 20 + 100)), "incomplete")
    passed("TCP, a header of 15 words over a hello", ethernet(ipv4(tcp(BAD, CLIENT4, SERVER4, offset=15))), "not_hello")
    passed("IPv6 jumbogram's length of 0 with a hop-by-hop header", ethernet(ipv6(extension + segment6, following=0, length=0)), "other_protocol")


def spoil(packet, at):
    return packet[:at] + bytes([packet[at] ^ 0xFF]) + packet[at + 1:]


def truncated():
    """A bad token, and the frame cut at each length: never judged."""
    for version in (4, 6):
        for tags in ([], [DOT1Q], [QINQ, DOT1Q]):
            whole = frame(BAD, version, tags, options=USUAL)
            fixed = 14 + 4 * len(tags) + (20 if version == 4 else 40) + 20
            headers = fixed + len(USUAL)
            what = f"IPv{version}, {len(tags)} VLAN tags"
            case("truncated", f"{what}: within the headers", whole, "header_truncated", lengths=[14, fixed - 1])
            case("truncated", f"{what}: within TCP's options and the payload", whole, "not_linear",
                 "the rest may lie where the program cannot see it", lengths=[fixed, len(whole) - 1])
            assert headers < len(whole)
    options = frame(BAD, ip={"options": NOP * 40})
    case("truncated", "IPv4 with 40 bytes of options: within the headers", options, "header_truncated",
         lengths=[14, 14 + 60 + 19])
    # The last extension is padding, which the scanner skips without looking.
    padded = frame(hello([b"h2", token(flip=1)], after=[(21, bytes(100))]))
    case("truncated", "within an extension that is skipped", padded, "not_linear",
         "no verdict on a hello whose end is not there", lengths=[len(padded) - 99, len(padded) - 1])
    far = frame(hello([b"h2", token(flip=1)], after=[(21, bytes(100))]), 6, ip={"length": 0x81D6})
    case("truncated", "a length that claims 32 KiB more", far, "not_linear")
    case("truncated", "the same, whole", padded, "tag_wrong",
         output=answer("alert", len(padded) - 54))


def hellos():
    def judged(name, payload, reason, why="", **settings):
        kind = settings.get("answer", "alert")
        for version in (4, 6):
            case("hellos", f"IPv{version}, {name}", frame(payload, version), reason, why,
                 output=answer(kind, len(payload), version), **settings)

    offering = lambda *names: hello([b"h2", *names])
    judged("a valid token", GOOD, "accepted")
    judged("a valid token as the first name", hello([token(), b"h2"]), "accepted")
    judged("a valid token alone", hello([token()]), "accepted")
    judged("a valid token, ALPN first of the extensions",
           hello(extensions=[(16, alpn([b"h2", token()])), *PLAIN_EXTENSIONS]), "accepted")
    judged("a valid token among GREASE",
           hello(extensions=[(0x0A0A, b""), *PLAIN_EXTENSIONS, (0x1A1A, b"\x00"), (16, alpn([b"\x0a\x0a", token()])), (0xFAFA, bytes(300))]),
           "accepted")
    judged("a valid token beside acme-tls/1", offering(b"acme-tls/1", token()), "accepted")
    judged("a valid token, other records behind the hello",
           GOOD + record(b"\x01", 20) + record(bytes(300), 23), "accepted", "early data")
    judged("a valid token, something behind the hello", GOOD + b"\x00", "accepted")
    judged("no token", PLAIN, "no_token")
    judged("no ALPN", hello(), "no_token")
    judged("no extensions", hello(extensions=[]), "no_token")
    legacy = message(extensions=[])[4:-2]
    judged("no extensions block", record(b"\x01" + len(legacy).to_bytes(3, "big") + legacy), "no_token")
    judged("an ACME challenge", hello([b"acme-tls/1"]), "acme_challenge")
    judged("a look-alike of the prefix", offering(b"ezl1", b"ezl2-" + token()[5:], b"EZL1-" + token()[5:]), "no_token")
    judged("no token, legacy denied", PLAIN, "legacy_denied", deny_legacy=True)
    judged("an ACME challenge, legacy denied", hello([b"acme-tls/1"]), "legacy_denied", deny_legacy=True)
    judged("a valid token, legacy denied", GOOD, "accepted", deny_legacy=True)

    for name, text in {
        "the prefix alone": b"ezl1-",
        "a digit short": token()[:-1],
        "a digit long": token() + b"0",
        "upper-case digits": b"ezl1-" + token()[5:].upper(),
        "a letter beyond f in its first digit": b"ezl1-g" + token()[6:],
        "a letter beyond f in its last digit": token()[:-1] + b"g",
        "a NUL": token()[:30] + b"\0" + token()[31:],
        "255 bytes": b"ezl1-" + b"0" * 250,
    }.items():
        judged(f"a malformed token: {name}", offering(text), "token_malformed")
    judged("the same token twice", offering(token(), token()), "token_duplicate")
    judged("two tokens", offering(token(), b"http/1.1", token(nonce=bytes(8))), "token_duplicate")
    judged("a valid token and a malformed one", offering(token(), b"ezl1-"), "token_duplicate")
    judged("a malformed token and a valid one", offering(b"ezl1-", token()), "token_duplicate")
    judged("an unknown key", offering(token(key_id=b"\x01" * 8)), "key_unknown")
    judged("a flipped tag", BAD, "tag_wrong")
    judged("another key's MAC", offering(token(mac_key=bytes(16))), "tag_wrong")
    judged("another audience's MAC", offering(token(mac_key=MAC_KEY[::-1])), "tag_wrong")
    for state, reason in (("revoked", "key_revoked"), ("not_yet_valid", "key_not_yet_valid"), ("expired", "key_expired")):
        key = KEYS[state]
        judged(f"a key that is {state.replace('_', ' ')}", offering(token(key_id=key["id"], mac_key=key["mac"])), reason)
        judged(f"a key that is {state.replace('_', ' ')}, a flipped tag",
               offering(token(key_id=key["id"], mac_key=key["mac"], flip=128)), "tag_wrong",
               "only a holder of the key learns its state")
    for age, reason in ((30, "accepted"), (31, "token_expired"), (86400, "token_expired"), (NOW, "token_expired"),
                        (-5, "accepted"), (-6, "token_from_future"), (-86400, "token_from_future")):
        judged(f"a token {age} s old", offering(token(NOW - age)), reason)
    judged("a token from the end of time", offering(token(0xFFFFFFFF)), "token_from_future")

    judged("an unknown key, the policy incomplete", offering(token(key_id=b"\x01" * 8)), "policy_incomplete", policy_complete=False)
    judged("a flipped tag, the policy incomplete", BAD, "tag_wrong", policy_complete=False)
    judged("a malformed token, the policy incomplete", offering(b"ezl1-"), "token_malformed", policy_complete=False)
    judged("a valid token, the policy incomplete", GOOD, "accepted", policy_complete=False)

    for payload, what in ((GOOD, "a valid token"), (BAD, "a flipped tag"), (PLAIN, "no token"), (PLAIN[:80], "part of a hello")):
        judged(f"{what}, the heartbeat stale", payload, "heartbeat_stale", heartbeat="stale")
        judged(f"{what}, no heartbeat ever", payload, "heartbeat_stale", heartbeat="never")
    judged("no token, legacy denied, the heartbeat stale", PLAIN, "heartbeat_stale", heartbeat="stale", deny_legacy=True)
    judged("a flipped tag, a heartbeat just after the coarse clock", BAD, "tag_wrong",
           "the coarse clock may lag the beat by a tick", heartbeat="ahead")
    judged("later data, the heartbeat stale", record(bytes(100), 23), "not_hello", heartbeat="stale")

    whole = message([b"h2", token(flip=1)])
    judged("a hello in two records", record(whole[:100]) + record(whole[100:]), "record_fragmented")
    judged("a record that ends within the handshake header", record(whole[:3]) + record(whole[3:]), "record_fragmented")
    judged("the first half of a hello", BAD[:200], "incomplete")
    judged("a hello without its last byte", BAD[:-1], "incomplete")
    judged("the first byte of a hello", BAD[:1], "incomplete")
    judged("the first five bytes of a hello", BAD[:5], "incomplete")
    judged("a hello of two segments, the first", hello([b"h2", token(flip=1)], after=[(0xABCD, bytes(1300))])[:1448], "incomplete")

    twice = [*PLAIN_EXTENSIONS, (16, alpn([b"h2"])), (16, alpn([token(flip=1)]))]
    for name, payload in {
        "ALPN twice": hello(extensions=twice),
        "an empty ALPN list": hello(extensions=[(16, b"\0\0")]),
        "an empty name": offering(b"", token(flip=1)),
        "a name beyond its list": hello(extensions=[(16, b"\0\4\7\0\0\0")]),
        "a list beyond its extension": hello(extensions=[(16, b"\0\x09\2h2")]),
        "an extension beyond the hello": hello(extensions=[(16, alpn([b"h2"]))])[:-6] + b"\x7f" + hello(extensions=[(16, alpn([b"h2"]))])[-5:],
        "no cipher suites": hello([token(flip=1)], ciphers=b""),
        "an odd number of bytes of cipher suites": hello([token(flip=1)], ciphers=b"\x13\x01\x13"),
        "a session id of 33 bytes": hello([token(flip=1)], session=bytes(33)),
        "two messages in its record": record(message([token(flip=1)]) + b"\x00\x00\x00\x00"),
    }.items():
        judged(f"a malformed hello: {name}", payload, "hello_malformed", "undecided: TLS will say decode_error")
    judged("48 extensions and names", hello([*[b"x"] * 41, token(flip=1)]), "tag_wrong")
    judged("49 extensions and names", hello([*[b"x"] * 42, token(flip=1)]), "hello_too_long")
    judged("60 extensions before ALPN",
           hello(extensions=[(1000 + i, b"") for i in range(60)] + [(16, alpn([token(flip=1)]))]), "hello_too_long")

    for name, payload in {
        "application data": record(bytes(1000), 23),
        "an alert": bytes.fromhex("15030300020100"),
        "a change of cipher": bytes.fromhex("140303000101"),
        "a ServerHello": record(b"\x02" + message()[1:]),
        "HTTP": b"GET / HTTP/1.1\r\nhost: edge.example\r\n\r\n",
        "HTTP/2 in the clear": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        "SSH": b"SSH-2.0-client\r\n",
        "an SSLv2 hello": bytes.fromhex("802e0103010015000000100100800200800300800400800500800600400700c0"),
        "TLS of major version 2": b"\x16\x02" + BAD[2:],
        "an empty record": bytes.fromhex("1603010000") + message([token(flip=1)]),
        "a record over 2^14": b"\x16\x03\x01\x40\x01" + message([token(flip=1)]),
        "one byte": b"\x17",
        "zeros": bytes(1400),
    }.items():
        judged(f"no hello: {name}", payload, "not_hello")


def big():
    """Frames that do not fit one buffer: their later part is not linear."""
    for version in (4, 6):
        late = hello(extensions=[(21, bytes(3600)), (16, alpn([b"h2", token(flip=1)]))])
        case("big", f"IPv{version}, the token beyond the first buffer", frame(late, version), "not_linear")
        early = hello([b"h2", token(flip=1)], after=[(21, bytes(3600))])
        case("big", f"IPv{version}, a bad token, then padding into the second buffer", frame(early, version),
             "tag_wrong", output=answer("alert", len(early), version))
        good = hello([b"h2", token()], after=[(21, bytes(3600))])
        case("big", f"IPv{version}, a good token, then padding into the second buffer", frame(good, version), "accepted")
        behind = BAD + record(bytes(3600), 23)
        case("big", f"IPv{version}, a bad token, other records into the second buffer", frame(behind, version),
             "tag_wrong", output=answer("alert", len(behind), version))
        case("big", f"IPv{version}, a bad token in two buffers, reset", frame(early, version), "tag_wrong",
             output=answer("rst", len(early), version), answer="rst")


def answers():
    places = {
        "no timestamps": (b"", None),
        "timestamps in the usual place": (USUAL, STAMPS),
        "timestamps first": (timestamps() + NOP + NOP, STAMPS),
        "timestamps after a SACK block": (NOP + NOP + b"\x05\x0a" + bytes(8) + NOP + NOP + timestamps(), STAMPS),
        "timestamps last of 40 bytes": (NOP * 2 + b"\x05\x1a" + bytes(24) + NOP * 2 + timestamps(), STAMPS),
        "timestamps after an unknown option": (b"\xfd\x06abcd" + timestamps(), STAMPS),
        "timestamps about to wrap": (NOP + NOP + timestamps(0xFFFFFFFF, 0xFFFFFFF0), (0xFFFFFFFF, 0xFFFFFFF0)),
        "an end of options before what looks like timestamps": (EOL + NOP + timestamps(), None),
        "a window scale": (b"\x03\x03\x07" + NOP, None),
        "an option that overruns": (b"\xfd\x28" + bytes(6), None),
        "an option without a length": (NOP * 3 + b"\xfd", None),
    }
    tags = {"no tag": [], "a tag": [DOT1Q], "two tags": [QINQ, DOT1Q]}
    for version in (4, 6):
        for place, (options, stamps) in places.items():
            for number, tag in tags.items():
                for kind in ("alert", "rst"):
                    case("answers", f"{kind}, IPv{version}, {number}, {place}",
                         frame(BAD, version, tag, options=options), "tag_wrong",
                         output=answer(kind, len(BAD), version, tag, stamps=stamps), answer=kind)
        for number, tag in tags.items():
            case("answers", f"drop, IPv{version}, {number}", frame(BAD, version, tag, options=USUAL), "tag_wrong", answer="drop")
        more = {"seq": 0xFFFFFFFF - 20, "ack": 0xFFFFFFFF}
        for kind in ("alert", "rst"):
            case("answers", f"{kind}, IPv{version}, sequence numbers about to wrap", frame(BAD, version, **more),
                 "tag_wrong", output=answer(kind, len(BAD), version, **more), answer=kind)
            case("answers", f"{kind}, IPv{version}, other ports", frame(BAD, version, sport=1025, dport=8443),
                 "tag_wrong", output=answer(kind, len(BAD), version, sport=1025, dport=8443), answer=kind)
            # The shortest hello there is, refused: the answer must still fit.
            tiny = message(extensions=[], session=b"", ciphers=b"\x13\x01")[4:-2]
            tiny = record(b"\x01" + len(tiny).to_bytes(3, "big") + tiny)
            case("answers", f"{kind}, IPv{version}, the shortest hello, legacy denied",
                 frame(tiny, version, options=USUAL), "legacy_denied",
                 output=answer(kind, len(tiny), version, stamps=STAMPS), answer=kind, deny_legacy=True)
            case("answers", f"{kind}, IPv{version}, data behind the hello is refused with it",
                 frame(BAD + record(bytes(500), 23), version), "tag_wrong",
                 output=answer(kind, len(BAD) + 505, version), answer=kind)
            case("answers", f"{kind}, IPv{version}, bytes behind the packet are not",
                 frame(BAD, version) + b"\xee" * 10, "tag_wrong", output=answer(kind, len(BAD), version), answer=kind)
    for kind in ("alert", "rst"):
        case("answers", f"{kind}, IPv4 options are left out", frame(BAD, ip={"options": NOP * 40}), "tag_wrong",
             output=answer(kind, len(BAD)), answer=kind)
        case("answers", f"{kind}, the wish for a service is not repeated", frame(BAD, ip={"tos": 0xB9}), "tag_wrong",
             output=answer(kind, len(BAD)), answer=kind)
        case("answers", f"{kind}, nor a flow label", frame(BAD, 6, ip={"first": 0x6FFABCDE}), "tag_wrong",
             output=answer(kind, len(BAD), 6), answer=kind)
        case("answers", f"{kind}, to a hello with FIN", frame(BAD, flags=ACK | PSH | FIN), "tag_wrong",
             output=answer(kind, len(BAD)), answer=kind)


KEYS = {
    "good": {"id": KEY_ID, "mac": MAC_KEY},
    "revoked": {"id": bytes.fromhex("a1" * 8), "mac": bytes(range(16)), "revoked": True},
    "not_yet_valid": {"id": bytes.fromhex("a2" * 8), "mac": bytes(range(16, 32)), "not_before_s": NOW + 1},
    "expired": {"id": bytes.fromhex("a3" * 8), "mac": bytes(range(32, 48)), "not_after_s": NOW - 1},
}


def keys():
    """What every case begins with."""
    return {
        "now_s": NOW,
        "ports": [443, 8443],
        "settings": {"answer": "alert", "deny_legacy": False, "policy_complete": True, "heartbeat": "fresh",
                     "heartbeat_max_age_s": 3, "window_back_s": 30, "window_ahead_s": 5},
        "keys": [{"key_id": key["id"].hex(), "mac_key": key["mac"].hex(), "not_before_s": key.get("not_before_s", 0),
                  "not_after_s": key.get("not_after_s", 2**64 - 1), "revoked": key.get("revoked", False)}
                 for key in KEYS.values()],
    }


def main():
    for make in (headers, truncated, hellos, big, answers):
        make()
    wanted = {"keys.json": json.dumps(keys(), indent=1) + "\n"}
    for file, cases in FILES.items():
        wanted[f"{file}.json"] = json.dumps(cases, indent=1) + "\n"
    stale = []
    for name, text in wanted.items():
        path = HERE / name
        if sys.argv[1:] == ["--check"]:
            if not path.exists() or path.read_text() != text:
                stale.append(name)
        else:
            path.write_text(text)
            print(f"{name}: {text.count('packet') } cases")
    if stale:
        sys.exit(f"not what make.py makes: {', '.join(stale)}; run it without --check")


main()
