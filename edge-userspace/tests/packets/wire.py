"""Packets, tokens and ClientHellos by the RFCs, for make.py. Standard library only; shares
no line with the product, so that a fixture's bytes are a second opinion."""

import struct

# The protocol page's vector: key `sk-edge-test`, audience `demo`.
KEY_ID = bytes.fromhex("16c90ee8f37ea61f")
MAC_KEY = bytes.fromhex("dd0a70cd36ab09f377bda082827a7738")
NOW = 1_800_000_000

CLIENT_MAC, SERVER_MAC = bytes.fromhex("020000000001"), bytes.fromhex("020000000002")
CLIENT4, SERVER4 = bytes([192, 0, 2, 1]), bytes([198, 51, 100, 2])
CLIENT6 = bytes.fromhex("20010db8000000000000000000000001")
SERVER6 = bytes.fromhex("20010db8fedc00000000000000000002")

NOP, EOL = b"\x01", b"\x00"
FIN, SYN, RST, PSH, ACK, URG = 1, 2, 4, 8, 16, 32


def siphash24(key, data):
    """SipHash-2-4 (Aumasson and Bernstein, 2012); the eight bytes as in the paper."""
    mask = (1 << 64) - 1
    k0, k1 = struct.unpack("<QQ", key)
    v = [k0 ^ 0x736F6D6570736575, k1 ^ 0x646F72616E646F6D,
         k0 ^ 0x6C7967656E657261, k1 ^ 0x7465646279746573]

    def turn(count):
        for _ in range(count):
            for a, b, rotate, half in ((0, 1, 13, 1), (2, 3, 16, 0), (0, 3, 21, 0), (2, 1, 17, 1)):
                v[a] = (v[a] + v[b]) & mask
                v[b] = ((v[b] << rotate) | (v[b] >> (64 - rotate))) & mask
                v[b] ^= v[a]
                if half:
                    v[a] = ((v[a] << 32) | (v[a] >> 32)) & mask

    padded = data + bytes(7 - len(data) % 8) + bytes([len(data) & 255])
    for (word,) in struct.iter_unpack("<Q", padded):
        v[3] ^= word
        turn(2)
        v[0] ^= word
    v[2] ^= 0xFF
    turn(4)
    return struct.pack("<Q", v[0] ^ v[1] ^ v[2] ^ v[3])


def token(issued_at=NOW, key_id=KEY_ID, mac_key=MAC_KEY, nonce=bytes(range(8)), flip=0):
    """A token's ALPN name; `flip` spoils the tag."""
    signed = key_id + struct.pack(">I", issued_at) + nonce
    tag = bytearray(siphash24(mac_key, signed))
    tag[7] ^= flip
    return b"ezl1-" + (signed + tag).hex().encode()


assert siphash24(bytes(range(16)), bytes(range(20))).hex() == "98eea21af25cd6be"
assert token() == b"ezl1-16c90ee8f37ea61f6b49d2000001020304050607faee5d056928a260"


def u8(data):
    return struct.pack(">B", len(data)) + data


def u16(data):
    return struct.pack(">H", len(data)) + data


def alpn(names):
    return u16(b"".join(u8(name) for name in names))


PLAIN_EXTENSIONS = [
    (0, bytes.fromhex("000f00000c") + b"edge.example"),  # server_name
    (10, bytes.fromhex("0002001d")),                      # supported_groups
    (13, bytes.fromhex("000408040403")),                  # signature_algorithms
    (43, bytes.fromhex("0403040303")),                    # supported_versions
    (51, bytes.fromhex("0024001d0020") + bytes(32)),      # key_share
]


def message(names=(), extensions=None, after=(), session=bytes(32), ciphers=b"\x13\x01\x13\x02"):
    """A ClientHello handshake message (RFC 8446 section 4.1.2)."""
    if extensions is None:
        extensions = list(PLAIN_EXTENSIONS)
        if names:
            extensions.append((16, alpn(names)))
        extensions += after
    block = b"".join(struct.pack(">H", kind) + u16(body) for kind, body in extensions)
    body = b"\x03\x03" + bytes(range(32)) + u8(session) + u16(ciphers) + b"\x01\x00" + u16(block)
    return b"\x01" + len(body).to_bytes(3, "big") + body


def record(fragment, kind=22):
    return bytes([kind, 3, 1]) + u16(fragment)


def hello(names=(), **more):
    return record(message(names, **more))


def checksum(data):
    """RFC 1071."""
    data += bytes(len(data) % 2)
    total = sum(struct.unpack(f">{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def timestamps(value=0x11223344, echo=0x55667788):
    return struct.pack(">BBII", 8, 10, value, echo)


def tcp(payload, source, destination, sport=50000, dport=443, seq=0x10000000, ack=0x20000000,
        flags=PSH | ACK, options=b"", window=0xFFFF, offset=None, urgent=0):
    """A segment with its checksum; `offset` lies about the header's length, in words."""
    options += bytes(-len(options) % 4)
    words = 5 + len(options) // 4 if offset is None else offset
    header = struct.pack(">HHIIBBHHH", sport, dport, seq, ack, words << 4, flags, window, 0, urgent)
    segment = header + options + payload
    if len(source) == 4:
        pseudo = source + destination + struct.pack(">BBH", 0, 6, len(segment) & 0xFFFF)
    else:
        pseudo = source + destination + struct.pack(">IHBB", len(segment), 0, 0, 6)
    total = checksum(pseudo + segment)
    return segment[:16] + struct.pack(">H", total) + segment[18:]


def ipv4(payload, source=CLIENT4, destination=SERVER4, protocol=6, options=b"", tos=0,
         identification=0x4242, fragment=0x4000, ttl=61, version=4, ihl=None, total=None):
    options += bytes(-len(options) % 4)
    ihl = 5 + len(options) // 4 if ihl is None else ihl
    total = 20 + len(options) + len(payload) if total is None else total
    header = struct.pack(">BBHHHBBH", version << 4 | ihl, tos, total & 0xFFFF, identification,
                         fragment, ttl, protocol, 0) + source + destination + options
    return header[:10] + struct.pack(">H", checksum(header)) + header[12:] + payload


def ipv6(payload, source=CLIENT6, destination=SERVER6, following=6, first=0x60000000, hops=61,
         length=None):
    length = len(payload) if length is None else length
    return struct.pack(">IHBB", first, length, following, hops) + source + destination + payload


def ethernet(packet, tags=(), kind=None, source=CLIENT_MAC, destination=SERVER_MAC):
    """`tags`: pairs of EtherType and VLAN id."""
    if kind is None:
        kind = 0x86DD if packet[:1] and packet[0] >> 4 == 6 else 0x0800
    tagged = b"".join(struct.pack(">HH", tpid, vlan) for tpid, vlan in tags)
    return destination + source + tagged + struct.pack(">H", kind) + packet


DOT1Q, QINQ = (0x8100, 7), (0x88A8, 3)


def extension_header(following, kind, body=bytes(6), segments_left=0):
    """An IPv6 extension header of `kind` before one of `following` (RFC 8200 section 4)."""
    body += bytes(-(len(body) + 2) % 8)
    if kind == 43:
        body = bytes([body[0], segments_left]) + body[2:]
    return bytes([following, (len(body) + 2) // 8 - 1]) + body


def extended(kinds, segment, **more):
    """An IPv6 packet with a header of each of these kinds before the segment."""
    headers, following = b"", 6
    for kind in reversed(kinds):
        headers = extension_header(following, kind, **more) + headers
        following = kind
    return ethernet(ipv6(headers + segment, following=following))


def frame(payload, version=4, tags=(), ip=None, **segment):
    """The usual case: a segment from the client in an Ethernet frame."""
    if version == 4:
        return ethernet(ipv4(tcp(payload, CLIENT4, SERVER4, **segment), **(ip or {})), tags)
    return ethernet(ipv6(tcp(payload, CLIENT6, SERVER6, **segment), **(ip or {})), tags)


ALERT = bytes.fromhex("15030300020231")  # fatal access_denied (RFC 8446 section 6.2)
LEAD = 1 << 20


def answer(kind, payload_bytes, version=4, tags=(), seq=0x10000000, ack=0x20000000, stamps=None,
           sport=50000, dport=443):
    """What the edge must send back."""
    options, payload, flags, window = b"", b"", RST | ACK, 0
    if kind == "alert":
        payload, flags, window = ALERT, FIN | PSH | ACK, 0xFFFF
        if stamps:
            value, echo = stamps
            options = NOP + NOP + timestamps((echo + LEAD) & 0xFFFFFFFF, value)
    client, server = (CLIENT4, SERVER4) if version == 4 else (CLIENT6, SERVER6)
    segment = tcp(payload, server, client, sport=dport, dport=sport, seq=ack,
                  ack=(seq + payload_bytes) & 0xFFFFFFFF, flags=flags, options=options, window=window)
    if version == 4:
        packet = ipv4(segment, server, client, identification=0, ttl=64)
    else:
        packet = ipv6(segment, server, client, hops=64)
    return ethernet(packet, tags, source=SERVER_MAC, destination=CLIENT_MAC)


def reset_up(version=4, tags=(), seq=0x10000000, ack=0x20000000, sport=50000, dport=443):
    """What the server is sent in the client's name: a reset at the sequence number it expects."""
    client, server = (CLIENT4, SERVER4) if version == 4 else (CLIENT6, SERVER6)
    segment = tcp(b"", client, server, sport=sport, dport=dport, seq=seq, ack=ack, flags=RST | ACK, window=0)
    if version == 4:
        packet = ipv4(segment, client, server, identification=0, ttl=64)
    else:
        packet = ipv6(segment, client, server, hops=64)
    return ethernet(packet, tags)
