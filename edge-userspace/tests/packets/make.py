#!/usr/bin/env python3
"""Writes the packet fixtures beside it: `python3 make.py`, or `--check` to compare.

Each case of a file is one frame or several of one connection, the settings and the time
under which the programs see them, and everything that must come of each.

    name, why   for people
    settings    what differs from keys.json's `settings`
    lengths     instead of the one frame whole: cut to each length from the first to the last
    steps       in order; the connection is new with the first
      packet    the frame, hex
      action    pass, tx or drop
      output    the frame afterwards, hex; without it the frame must be unchanged
      counters  by name, how far each moves (one that is not named must stand still)
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
UNDECIDED = ("record_fragmented", "hello_malformed", "hello_too_long", "hello_oversize", "out_of_order",
             "not_linear", "policy_incomplete", "heartbeat_stale")


def step(packet, reason, output=None, kind="alert", resumed=False, first=False):
    """What a frame comes to. `output`: the frame that is sent back, or up in its place.
    `first`: the server is freed before the client is told."""
    counters = {"packets": 1, reason: 1}
    action = "pass"
    if reason == "accepted" or reason in LEGACY + REJECTS + UNDECIDED:
        counters |= {"hellos": 1, "events_sent": 1}
        if resumed:
            counters["hellos_resumed"] = 1
    if reason in REJECTS:
        counters["answered_up" if first else f"answered_{kind}"] = 1
        action = "pass" if first or kind == "drop" else "tx"
    elif reason == "rejected_again":
        counters[f"answered_{kind}"] = 1
        action = "drop" if kind == "drop" else "tx"
    made = {"packet": packet.hex(), "action": action}
    if action == "tx" or reason in REJECTS or reason == "reject_closed":
        made["output"] = output.hex()
    made["counters"] = counters
    return made


def sequence(file, name, steps, why="", lengths=None, **settings):
    """A case of several frames."""
    made = {"name": name}
    if why:
        made["why"] = why
    if settings:
        made["settings"] = settings
    if lengths:
        made["lengths"] = lengths
    made["steps"] = steps
    cases = FILES.setdefault(file, [])
    assert name not in [other["name"] for other in cases], name
    cases.append(made)


def case(file, name, packet, reason, why="", output=None, lengths=None, **settings):
    """A case of one frame."""
    kind = settings.get("answer", "alert")
    sequence(file, name, [step(packet, reason, output, kind)], why, lengths, **settings)


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
    good6 = tcp(GOOD, CLIENT6, SERVER6)
    followed = {0: "hop-by-hop options", 43: "routing", 60: "destination options"}
    for kind, name in followed.items():
        accepted(f"IPv6, {name}", extended([kind], good6))
        accepted(f"IPv6, {name} of 40 bytes", extended([kind], good6, body=bytes(38)))
        case("headers", f"IPv6, a flipped tag behind {name}", extended([kind], segment6), "tag_wrong",
             output=answer("alert", len(BAD), 6))
    accepted("IPv6, four extension headers", extended([0, 60, 43, 60], good6), "as many as RFC 8200 section 4.1 orders")
    passed("IPv6, five extension headers", extended([0, 60, 43, 60, 60], segment6), "other_protocol")
    passed("IPv6, routing that is not at its end", extended([43], segment6, segments_left=1), "other_protocol",
           "the packet is on its way to another address")
    accepted("IPv6, TCP begins at byte 318", extended([60], good6, body=bytes(262)))
    passed("IPv6, TCP begins at byte 326", extended([60], segment6, body=bytes(270)), "other_protocol")
    passed("IPv6, an extension header of 2,048 bytes", extended([60], segment6, body=bytes(2046)), "other_protocol")
    passed("IPv6, a fragment behind extension headers", extended([0, 60, 44], segment6, body=bytes(6)), "ip_fragment")
    passed("IPv6, a fragment behind four extension headers", extended([0, 60, 43, 60, 44], segment6, body=bytes(6)), "ip_fragment")
    passed("IPv6, UDP behind an extension header",
           ethernet(ipv6(extension_header(17, 0) + segment6, following=0)), "other_protocol")
    for kind, name in ((51, "authentication"), (135, "mobility"), (59, "no next header"), (253, "an unknown header"), (50, "ESP")):
        passed(f"IPv6, {name}", extended([kind], segment6), "other_protocol", "not on the list of those that are followed")
        passed(f"IPv6, {name} behind hop-by-hop options", extended([0, kind], segment6), "other_protocol")
    short = extended([0, 60], segment6)
    case("headers", "IPv6, cut within its extension headers", short, "header_truncated", lengths=[14 + 40, 14 + 40 + 15 + 20])
    passed("IPv6, an extension header beyond the payload's length",
           ethernet(ipv6(extension_header(6, 0, bytes(30)) + segment6, following=0, length=16)), "header_truncated")
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
    passed("IPv4, total length cuts the payload", ethernet(ipv4(tcp(BAD[:100], CLIENT4, SERVER4) + BAD[100:], total=20 + 20 + 100)), "hello_begun",
           "what lies behind the packet's end is no payload")
    passed("TCP, a header of 15 words over a hello", ethernet(ipv4(tcp(BAD, CLIENT4, SERVER4, offset=15))), "not_hello")
    passed("IPv6 jumbogram's length of 0 with a hop-by-hop header", 
           ethernet(ipv6(extension_header(6, 0) + segment6, following=0, length=0)), "header_truncated")


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
        for version in (4, 6):
            case("hellos", f"IPv{version}, {name}", frame(payload, version), reason, why,
                 output=answer("alert", len(payload), version), **settings)

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

    judged("part of a hello, the heartbeat stale", PLAIN[:80], "hello_begun", "followed without a clock", heartbeat="stale")
    for payload, what in ((GOOD, "a valid token"), (BAD, "a flipped tag"), (PLAIN, "no token")):
        judged(f"{what}, the heartbeat stale", payload, "heartbeat_stale", heartbeat="stale")
        judged(f"{what}, no heartbeat ever", payload, "heartbeat_stale", heartbeat="never")
    judged("no token, legacy denied, the heartbeat stale", PLAIN, "heartbeat_stale", heartbeat="stale", deny_legacy=True)
    judged("a flipped tag, a heartbeat just after the coarse clock", BAD, "tag_wrong",
           "the coarse clock may lag the beat by a tick", heartbeat="ahead")
    judged("later data, the heartbeat stale", record(bytes(100), 23), "not_hello", heartbeat="stale")

    whole = message([b"h2", token(flip=1)])
    judged("a hello in two records", record(whole[:100]) + record(whole[100:]), "record_fragmented")
    judged("a record that ends within the handshake header", record(whole[:3]) + record(whole[3:]), "record_fragmented")
    judged("the first half of a hello", BAD[:200], "hello_begun")
    judged("a hello without its last byte", BAD[:-1], "hello_begun")
    judged("the first byte of a hello", BAD[:1], "hello_begun")
    judged("the first five bytes of a hello", BAD[:5], "hello_begun")
    judged("a hello of two segments, the first", hello([b"h2", token(flip=1)], after=[(0xABCD, bytes(1300))])[:1448], "hello_begun")

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
    for count in (28, 29, 30, 31, 32, 33, 60, 64, 192):
        judged(f"{count} extensions and names", hello([*[b"x"] * (count - 7), token(flip=1)]), "tag_wrong")
    judged("193 extensions and names", hello([*[b"x"] * 186, token(flip=1)]), "hello_too_long")
    for count in (60, 190):
        judged(f"{count} extensions before ALPN",
               hello(extensions=[(1000 + i, b"") for i in range(count)] + [(16, alpn([token(flip=1)]))]), "tag_wrong")
    judged("191 extensions before ALPN and two names",
           hello(extensions=[(1000 + i, b"") for i in range(191)] + [(16, alpn([b"h2", token(flip=1)]))]), "hello_too_long")

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
    """Frames that do not fit one buffer."""
    for version in (4, 6):
        late = hello(extensions=[(21, bytes(3600)), (16, alpn([b"h2", token(flip=1)]))])
        case("big", f"IPv{version}, the token beyond the first buffer", frame(late, version), "tag_wrong",
             output=answer("alert", len(late), version))
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
    for size in (8900, 15000, 16389):
        room = size - len(hello([b"h2", token()], after=[(21, b"")]))
        first, last = [(21, bytes(room)), (16, alpn([b"h2", token(flip=1)]))], [(16, alpn([b"h2", token(flip=1)])), (21, bytes(room))]
        for place, extensions in (("last", first), ("first", last)):
            bad = hello(extensions=[*PLAIN_EXTENSIONS, *extensions])
            assert len(bad) == size
            case("big", f"a hello of {size} bytes in one frame, the token {place}", frame(bad), "tag_wrong",
                 output=answer("alert", len(bad)))
            case("big", f"a hello of {size} bytes in one frame, the token {place}, its last byte not there",
                 frame(bad)[:-1], "not_linear")


def split(payload, *cuts):
    """The parts of a payload with where each begins."""
    edges = [0, *cuts, len(payload)]
    return [(start, payload[start:end]) for start, end in zip(edges, edges[1:])]


SEQ = 0x10000000


def flows():
    """Hellos over several segments: what each segment comes to."""
    def at(offset, payload, version=4, **more):
        return frame(payload, version, seq=(SEQ + offset) & 0xFFFFFFFF, **more)

    def whole(name, payload, reason, cuts, version=4, why="", **settings):
        """In order, each once."""
        parts = split(payload, *cuts)
        steps = [step(at(offset, part, version), "hello_continued" if offset else "hello_begun") for offset, part in parts[:-1]]
        offset, part = parts[-1]
        steps.append(step(at(offset, part, version), reason, resumed=True,
                          output=answer("alert", len(part), version, seq=SEQ + offset)))
        sequence("flows", name, steps, why, **settings)

    in_two, end = len(GOOD) // 2, len(GOOD)
    for version in (4, 6):
        for name, payload, reason in (("a valid token", GOOD, "accepted"), ("a flipped tag", BAD, "tag_wrong"), ("no token", PLAIN, "no_token")):
            whole(f"IPv{version}, {name} in two", payload, reason, [in_two], version)
            whole(f"IPv{version}, {name}, cut after the first byte", payload, reason, [1], version)
            whole(f"IPv{version}, {name}, cut before the last byte", payload, reason, [len(payload) - 1], version)
            whole(f"IPv{version}, {name} in three", payload, reason, [100, 150], version)
    token_at = BAD.index(b"ezl1-")
    padding_first = [(21, b"\x5a" * 5000), *PLAIN_EXTENSIONS]
    for offset in (-1, 0, 1, 3, 5, 30, 60):
        whole(f"cut {offset} bytes into the token's name", BAD, "tag_wrong", [token_at + offset])
    whole("a post-quantum hello", hello([b"h2", token()], after=[(0xABCD, bytes(1300))]), "accepted", [1448])
    whole("a token that straddles a post-quantum hello's cut",
          hello(extensions=[(51, bytes(1300)), *PLAIN_EXTENSIONS[:4], (16, alpn([b"h2", token()]))]), "accepted", [1440])

    def in_segments(size, count, flip=0):
        room = size - len(hello([b"h2", token(flip=flip)], after=[(21, b"")]))
        payload = hello([b"h2", token(flip=flip)], after=[(21, bytes(room))])
        assert len(payload) == size
        return payload, [size * i // count for i in range(1, count)]

    for size, count in ((1200, 12), (16389, 12), (15000, 2), (9000, 7)):
        for flip, reason in ((0, "accepted"), (1, "tag_wrong")):
            payload, cuts = in_segments(size, count, flip)
            whole(f"{size} bytes in {count} segments, {reason}", payload, reason, cuts)
    payload, cuts = in_segments(1300, 13)
    parts = split(payload, *cuts)
    steps = [step(at(offset, part), "hello_continued" if offset else "hello_begun") for offset, part in parts[:11]]
    steps.append(step(at(*parts[11]), "hello_oversize", resumed=True))
    steps.append(step(at(*parts[12]), "not_hello"))
    sequence("flows", "13 segments", steps, "as many as 12 are followed; then userspace decides")

    middle = [(0, BAD[:150]), (150, BAD[150:])]
    first, second = (at(*part) for part in middle)
    begun = step(first, "hello_begun")
    refused = step(second, "tag_wrong", resumed=True, output=answer("alert", len(BAD) - 150, seq=SEQ + 150))
    good_first, good_second = at(0, GOOD[:150]), at(150, GOOD[150:])
    accepted = step(good_second, "accepted", resumed=True)
    sequence("flows", "the first segment twice", [begun, step(first, "retransmitted"), refused])
    sequence("flows", "the first segment again, shorter and then longer",
             [begun, step(at(0, BAD[:80]), "retransmitted"), step(at(20, BAD[20:150]), "retransmitted"),
              step(at(0, BAD[:190]), "hello_continued"),
              step(at(190, BAD[190:]), "tag_wrong", resumed=True, output=answer("alert", len(BAD) - 190, seq=SEQ + 190))])
    sequence("flows", "the whole hello again after its first segment",
             [begun, step(at(0, BAD), "tag_wrong", resumed=True, output=answer("alert", len(BAD)))],
             "a client that sends again from its oldest byte")
    for overlap in (1, 40, 149):
        sequence("flows", f"the second segment overlaps the first by {overlap} bytes",
                 [begun, step(at(150 - overlap, BAD[150 - overlap:]), "tag_wrong", resumed=True,
                              output=answer("alert", len(BAD) - 150 + overlap, seq=SEQ + 150 - overlap))])
    other = bytes(b ^ 0x20 for b in BAD[120:150])
    sequence("flows", "the overlap says something else", [begun, step(at(120, other + GOOD[150:]), "accepted", resumed=True)],
             "the first copy counts, as in the stack: the second one's tag is good")
    sequence("flows", "both segments again, accepted",
             [step(good_first, "hello_begun"), accepted, step(good_first, "retransmitted"), step(good_second, "retransmitted"),
              step(at(0, GOOD), "retransmitted")])
    sequence("flows", "one segment again, accepted", [step(frame(GOOD), "accepted"), step(frame(GOOD), "retransmitted")])
    sequence("flows", "a keep-alive of a byte that is there already",
             [step(good_first, "hello_begun"), step(at(149, b"\0"), "retransmitted"), accepted])
    sequence("flows", "pure acknowledgements between the segments",
             [step(good_first, "hello_begun"), step(at(150, b"", flags=ACK), "no_payload"), accepted])

    sequence("flows", "the second segment before the first",
             [step(second, "not_hello"), begun, refused], "the first alone can be told; the second comes again, or does not")
    late = step(at(250, BAD[250:]), "out_of_order", resumed=True)
    sequence("flows", "the third segment before the second",
             [begun, late, step(at(150, BAD[150:250]), "retransmitted"), step(at(0, BAD), "retransmitted"), step(second, "retransmitted")],
             "given up undecided, and never refused afterwards")
    sequence("flows", "a gap of one byte", [begun, step(at(151, BAD[151:]), "out_of_order", resumed=True)])
    sequence("flows", "far ahead of its hello", [begun, step(at(1 << 19, BAD), "out_of_order", resumed=True)])
    sequence("flows", "a hello so far on that its connection is another",
             [step(frame(GOOD), "accepted"), step(at(1 << 20, BAD), "tag_wrong", output=answer("alert", len(BAD), seq=SEQ + (1 << 20)))],
             "the SYN between them was not seen")
    sequence("flows", "a hello before the first byte of the old one",
             [step(frame(GOOD), "accepted"), step(at(-5000, BAD), "tag_wrong", output=answer("alert", len(BAD), seq=SEQ - 5000))])

    ccs = record(b"\x01", 20)

    sequence("flows", "a second hello after HelloRetryRequest",
             [step(frame(GOOD), "accepted"), step(at(end, ccs + GOOD), "not_hello"), step(at(end + 1000, record(bytes(100), 23)), "not_hello")],
             "change_cipher_spec stands before it")
    sequence("flows", "a second hello after HelloRetryRequest, in a segment of its own",
             [step(frame(GOOD), "accepted"), step(at(end, ccs), "not_hello"), step(at(end + 6, GOOD), "hello_again")])
    sequence("flows", "a second hello that is worse",
             [step(frame(GOOD), "accepted"), step(at(end, BAD), "hello_again")], "userspace sees both; the kernel counts one")
    sequence("flows", "a second hello in two",
             [step(frame(GOOD), "accepted"), step(at(end, GOOD[:150]), "hello_again"), step(at(end + 150, GOOD[150:]), "not_hello")])
    sequence("flows", "data after a split hello",
             [step(good_first, "hello_begun"), accepted, step(at(end, record(bytes(100), 23)), "not_hello")])
    sequence("flows", "data in the hello's last segment",
             [step(good_first, "hello_begun"), step(at(150, GOOD[150:] + record(bytes(100), 23)), "accepted", resumed=True),
              step(at(end, record(bytes(100), 23)), "retransmitted")])

    # A new connection begins elsewhere.
    new = SEQ + 5000
    syn = frame(b"", flags=SYN, seq=new - 1)
    sequence("flows", "a new connection after one that was accepted",
             [step(frame(GOOD), "accepted"), step(syn, "no_payload"), step(frame(PLAIN, seq=new), "no_token")])
    sequence("flows", "a new connection after half a hello",
             [begun, step(syn, "no_payload"), step(second, "not_hello"), step(frame(GOOD, seq=new), "accepted")])
    sequence("flows", "a new connection after one that was refused",
             [step(frame(BAD), "tag_wrong", output=answer("alert", len(BAD))), step(syn, "no_payload"), step(frame(GOOD, seq=new), "accepted"),
              step(frame(record(bytes(10), 23), seq=new + len(GOOD)), "not_hello")])
    own = frame(b"", flags=SYN, seq=SEQ - 1)
    sequence("flows", "the connection's own SYN comes late",
             [step(frame(GOOD), "accepted"), step(own, "no_payload"), step(frame(GOOD), "retransmitted")],
             "a delayed duplicate: the hello is not counted again")
    sequence("flows", "the connection's own SYN comes amid the hello",
             [step(good_first, "hello_begun"), step(own, "no_payload"), step(good_second, "accepted", resumed=True)])
    sequence("flows", "its own SYN with data in the middle",
             [step(good_first, "hello_begun"), step(frame(GOOD, flags=SYN, seq=SEQ - 1), "syn_payload"),
              step(good_second, "accepted", resumed=True)])
    sequence("flows", "another client port is another connection",
             [begun, step(at(150, BAD[150:], sport=50001), "not_hello"), step(at(0, GOOD, sport=50001), "accepted"), refused])
    sequence("flows", "another server port is another connection",
             [begun, step(at(150, BAD[150:], dport=8443), "not_hello"), refused])
    other_client = {"sport": 50001}
    for offset in (1, 30, 60):
        cut = token_at + offset
        other = hello([b"h2", b"http/1.1", token(nonce=b"\xee" * 8)])
        other_cut = other.index(b"ezl1-") + 45
        sequence("flows", f"two hellos, segment by segment in turn, one cut {offset} bytes into the token's name",
                 [step(at(0, BAD[:cut]), "hello_begun"), step(at(0, other[:other_cut], **other_client), "hello_begun"),
                  step(at(cut, BAD[cut:]), "tag_wrong", resumed=True, output=answer("alert", len(BAD) - cut, seq=SEQ + cut)),
                  step(at(other_cut, other[other_cut:], **other_client), "accepted", resumed=True)],
                 "each goes on from its own bytes")
        sequence("flows", f"a hello in one frame between the segments of another, cut {offset} bytes into the token's name",
                 [step(at(0, GOOD[:cut]), "hello_begun"), step(at(0, hello(extensions=padding_first), **other_client), "no_token"),
                  step(at(cut, GOOD[cut:]), "accepted", resumed=True)])
    sequence("flows", "fragments between the segments",
             [begun, step(ethernet(ipv4(tcp(BAD[150:], CLIENT4, SERVER4, seq=SEQ + 150), fragment=0x2000)), "ip_fragment"), refused])
    sequence("flows", "segments with and without a VLAN tag are of one connection",
             [begun, step(at(150, BAD[150:], tags=[DOT1Q]), "tag_wrong", resumed=True,
                          output=answer("alert", len(BAD) - 150, tags=[DOT1Q], seq=SEQ + 150))])

    wrapping = 0xFFFFFFFF - 99
    sequence("flows", "sequence numbers wrap within the hello",
             [step(frame(BAD[:150], seq=wrapping), "hello_begun"), step(frame(BAD[:150], seq=wrapping), "retransmitted"),
              step(frame(BAD[140:], seq=40), "tag_wrong", resumed=True, output=answer("alert", len(BAD) - 140, seq=40))])
    sequence("flows", "sequence numbers wrap at a cut",
             [step(frame(GOOD[:150], seq=(1 << 32) - 150), "hello_begun"), step(frame(GOOD[150:], seq=0), "accepted", resumed=True)])

    sequence("flows", "malformed from its second segment on",
             [step(at(0, GOOD[:60]), "hello_begun"), step(at(60, b"\xff" * 200), "hello_malformed", resumed=True), step(at(260, b"\0"), "not_hello")])
    sequence("flows", "no TLS from its second byte on",
             [step(at(0, b"\x16"), "hello_begun"), step(at(1, b"\x02" + GOOD[2:]), "not_hello"), step(at(end + 100, b"\x17\3\3"), "not_hello")],
             "nothing of it is remembered")
    sequence("flows", "a second segment that is not all there",
             [begun, step(second[:-1], "not_linear", resumed=True), step(second, "retransmitted")])
    twice = record(message([b"h2", token(flip=1)])[:100]) + record(message([b"h2", token(flip=1)])[100:])
    sequence("flows", "two records, cut at their border",
             [step(at(0, twice[:105]), "record_fragmented"), step(at(105, twice[105:]), "not_hello")],
             "a handshake record, but no hello begins in it")
    sequence("flows", "a stale heartbeat at the second segment",
             [begun, step(second, "heartbeat_stale", resumed=True)], heartbeat="stale")
    many = hello([*[b"x"] * 186, token(flip=1)])
    sequence("flows", "too many names over two segments",
             [step(at(0, many[:300]), "hello_begun"), step(at(300, many[300:]), "hello_too_long", resumed=True)])


def rejects():
    """What follows a refusal, and the order of answers."""
    size = len(BAD)
    for version in (4, 6):
        def at(offset, payload, **more):
            return frame(payload, version, seq=SEQ + offset, **more)

        def sequenced(name, steps, why="", **settings):
            sequence("rejects", f"IPv{version}, {name}", steps, why, **settings)

        refused = step(at(0, BAD), "tag_wrong", output=answer("alert", size, version))
        ended = reset_up(version, seq=SEQ, ack=0x20000000)
        acknowledged = at(size, b"", ack=0x20000008, flags=ACK)
        closed = step(acknowledged, "reject_closed", output=ended)
        sequenced("the client acknowledges alert and FIN", [refused, closed, step(acknowledged, "no_payload")],
                  "its acknowledgement becomes the server's reset")
        for ack in (0x20000000, 0x20000007, 0x20000009):
            sequenced(f"the client acknowledges {ack - 0x20000000} bytes",
                      [refused, step(at(size, b"", ack=ack, flags=ACK), "no_payload"), closed],
                      "only the exact one: another may be a new connection's")
        sequenced("the client's FIN", [refused, step(at(size, b"", ack=0x20000008, flags=FIN | ACK), "reject_closed", output=ended)])
        sequenced("the client's reset", [refused, step(at(size, b"", flags=RST), "reject_closed", output=ended)])
        sequenced("the hello again", [refused, step(at(0, BAD), "rejected_again", output=answer("alert", size, version)), closed])
        sequenced("the hello again after the end", [refused, closed, step(at(0, BAD), "rejected_again", output=answer("alert", size, version))])
        sequenced("a part of the hello again",
                  [refused, step(at(100, BAD[100:]), "rejected_again", output=answer("alert", size - 100, version, seq=SEQ + 100)),
                   step(at(0, BAD[:100]), "rejected_again", output=answer("alert", size, version))],
                  "all of it is acknowledged, whatever part comes again")
        sequenced("more data", [refused, step(at(size, b"abc"), "rejected_again", output=answer("alert", 3, version, seq=SEQ + size))])
        sequenced("a good hello on a refused connection",
                  [refused, step(at(size, GOOD), "rejected_again", output=answer("alert", len(GOOD), version, seq=SEQ + size))])
        second = size - 150
        split_refused = [step(at(0, BAD[:150]), "hello_begun"),
                         step(at(150, BAD[150:]), "tag_wrong", resumed=True, output=answer("alert", second, version, seq=SEQ + 150))]
        sequenced("refused in its second segment, which comes again",
                  [*split_refused, step(at(150, BAD[150:]), "rejected_again", output=answer("alert", second, version, seq=SEQ + 150)),
                   step(acknowledged, "reject_closed", output=reset_up(version, seq=SEQ + 150))],
                  "the server has the first segment alone")
        sequenced("refused in its second segment, and the first comes again",
                  [*split_refused, step(at(0, BAD[:150]), "rejected_again", output=answer("alert", size, version))])
        again = step(at(0, BAD), "rejected_again", output=answer("rst", size, version), kind="rst")
        sequenced("by reset, again by reset", [step(at(0, BAD), "tag_wrong", output=answer("rst", size, version), kind="rst"), again], answer="rst")
        sequenced("dropped: the server is freed, the client hears nothing",
                  [step(at(0, BAD), "tag_wrong", output=ended, kind="drop"), step(at(0, BAD), "rejected_again", kind="drop")], answer="drop")
        sequenced("dropped in its second segment",
                  [step(at(0, BAD[:150]), "hello_begun"),
                   step(at(150, BAD[150:]), "tag_wrong", resumed=True, output=reset_up(version, seq=SEQ + 150), kind="drop"),
                   step(at(150, BAD[150:]), "rejected_again", kind="drop")], answer="drop")
        sequenced("more than are answered at once: the server first, the client at its retransmission",
                  [step(at(0, BAD), "tag_wrong", output=ended, first=True),
                   step(at(0, BAD), "rejected_again", output=answer("alert", size, version))], answers_per_second=0)
        stamped = at(0, BAD, options=USUAL)
        sequenced("the answer to a retransmission has the retransmission's timestamps",
                  [step(stamped, "tag_wrong", output=answer("alert", size, version, stamps=STAMPS)),
                   step(at(0, BAD, options=NOP + NOP + timestamps(0x11223400, 0x55667700)), "rejected_again",
                        output=answer("alert", size, version, stamps=(0x11223400, 0x55667700)))])
        legacy = step(at(0, PLAIN), "legacy_denied", output=answer("alert", len(PLAIN), version))
        sequenced("legacy denied, again", [legacy, step(at(0, PLAIN), "rejected_again", output=answer("alert", len(PLAIN), version))], deny_legacy=True)


def damaged():
    """Segments that the stack throws away: nobody is refused for what is in them."""
    for version in (4, 6):
        headers = 14 + (20 if version == 4 else 40)

        def at(offset, payload, **more):
            return frame(payload, version, seq=SEQ + offset, **more)

        def flipped(packet, payload_at, bit=1, options=0):
            """One bit of the payload, after the checksum was made."""
            place = headers + 20 + options + payload_at
            return packet[:place] + bytes([packet[place] ^ bit]) + packet[place + 1:]

        def partial(packet):
            """The pseudo-header's sum alone, for a device to complete."""
            source, destination = (CLIENT4, SERVER4) if version == 4 else (CLIENT6, SERVER6)
            segment = packet[headers:]
            pseudo = source + destination + struct.pack(">HH", 6, len(segment))
            place = headers + 16
            return packet[:place] + struct.pack(">H", ~checksum(pseudo) & 0xFFFF) + packet[place + 2:]

        def sequenced(name, steps, why="", **settings):
            sequence("damaged", f"IPv{version}, {name}", steps, why, **settings)

        def refused(packet, payload, offset=0, resumed=False):
            return step(packet, "tag_wrong", resumed=resumed, output=answer("alert", len(payload), version, seq=SEQ + offset))

        lost = "checksum_wrong"
        good = at(0, GOOD)
        token_at = GOOD.index(b"ezl1-")
        # Bits of the name that leave it one: of a digit of key, time, nonce and tag.
        for place in (5, 21, 29, 45):
            bent = flipped(good, token_at + place)
            sequenced(f"a bit of the token at {place}", [step(bent, lost), step(good, "accepted")],
                      "the stack throws it away; the client's own copy is judged")
        sequenced("damaged more than once", [step(flipped(good, token_at + 45), lost)] * 3 + [step(good, "accepted")])
        sequenced("damaged, and bad before it was", [step(flipped(at(0, BAD), 20), lost), refused(at(0, BAD), BAD)])
        sequenced("a bit of the last, odd byte",
                  [step(flipped(at(0, BAD + b"\x17"), len(BAD)), lost), refused(at(0, BAD + b"\x17"), BAD + b"\x17")])
        for size in range(len(BAD), len(BAD) + 5):
            padded = BAD + bytes(range(0x17, 0x17 + size - len(BAD)))
            sequenced(f"{size} bytes, right", [refused(at(0, padded), padded)])
        for size in (472, 473, 491, 492, 493, 1003, 1004, 1005, 1448):
            room = size - len(hello([b"h2", token(flip=1)], after=[(21, b"")]))
            padded = hello([b"h2", token(flip=1)], after=[(21, bytes(room))])
            sequenced(f"{size} bytes, right, then damaged in the last",
                      [step(flipped(at(0, padded), size - 1), lost), refused(at(0, padded), padded)],
                      "at the borders of what is summed up at a time")
        sequenced("the options damaged", [step(flipped(at(0, BAD, options=USUAL), -4), lost),
                                          step(at(0, GOOD, options=USUAL), "accepted")])
        denied = step(at(0, PLAIN), "legacy_denied", output=answer("alert", len(PLAIN), version))
        sequenced("no token, damaged", [step(flipped(at(0, PLAIN), 20), lost), denied], deny_legacy=True)
        sequenced("damaged and not refused", [step(flipped(good, 20), "accepted"), step(good, "retransmitted")],
                  "whatever passes, the stack decides")
        zero = headers + 16
        none = at(0, BAD)[:zero] + bytes(2) + at(0, BAD)[zero + 2:]
        sequenced("no checksum at all", [step(none, lost)], "TCP has no such thing (RFC 9293 section 3.1)")
        sequenced("the checksum left to the device", [refused(partial(at(0, BAD)), BAD)],
                  "veth, virtio, GRO: the stack takes it so")
        sequenced("left to the device, accepted", [step(partial(good), "accepted")])

        first, second, third = at(0, GOOD[:100]), at(100, GOOD[100:150]), at(150, GOOD[150:])
        begun, continued = step(first, "hello_begun"), step(second, "hello_continued")
        accepted = step(third, "accepted", resumed=True)
        sequenced("the first of three damaged", [step(flipped(first, 50), lost), begun, continued, accepted],
                  "nothing of it is kept")
        sequenced("the middle of three damaged", [begun, step(flipped(second, 20), lost), continued, accepted])
        sequenced("the last of three damaged, in the token",
                  [begun, continued, step(flipped(third, token_at + 45 - 150), lost), accepted],
                  "what was kept of the others is still there")
        sequenced("the first of three damaged, and not sent again",
                  [step(flipped(first, 50), lost), step(second, "not_hello"), step(third, "not_hello")])
        parts = [(0, BAD[:100]), (100, BAD[100:150]), (150, BAD[150:])]
        sequenced("a bad one in three, left to the device",
                  [step(partial(at(*parts[0])), "hello_begun"), step(partial(at(*parts[1])), "hello_continued"),
                   refused(partial(at(*parts[2])), parts[2][1], 150, resumed=True)])
        sequenced("a bad one, its middle damaged first",
                  [step(at(*parts[0]), "hello_begun"), step(flipped(at(*parts[1]), 20), lost), step(at(*parts[1]), "hello_continued"),
                   refused(at(*parts[2]), parts[2][1], 150, resumed=True)])

        much = BAD + record(bytes(17400), 23)[:17408 - 20 - len(BAD)]
        sequenced("17 KiB, all summed up", [refused(at(0, much), much)])
        sequenced("17 KiB, the last byte damaged", [step(flipped(at(0, much), len(much) - 1), lost)])
        sequenced("a byte more than is summed up", [step(at(0, much + b"\0"), "hello_oversize")], "userspace decides")
        sequenced("as long, left to the device", [refused(partial(at(0, much + b"\0")), much + b"\0")])


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
            case("answers", f"drop, IPv{version}, {number}", frame(BAD, version, tag, options=USUAL), "tag_wrong",
                 output=reset_up(version, tag), answer="drop")
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
                     "heartbeat_max_age_s": 3, "window_back_s": 30, "window_ahead_s": 5, "answers_per_second": 2**32 - 1},
        "keys": [{"key_id": key["id"].hex(), "mac_key": key["mac"].hex(), "not_before_s": key.get("not_before_s", 0),
                  "not_after_s": key.get("not_after_s", 2**64 - 1), "revoked": key.get("revoked", False)}
                 for key in KEYS.values()],
    }


def main():
    for make in (headers, truncated, hellos, big, answers, flows, rejects, damaged):
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
            print(f"{name}: {text.count('packet')} frames")
    if stale:
        sys.exit(f"not what make.py makes: {', '.join(stale)}; run it without --check")


main()
