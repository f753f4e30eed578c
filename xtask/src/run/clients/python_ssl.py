"""One request over Python's own ssl module, and one line of JSON about what it said.

Arguments: address, port, server name, CA file, ALPN names (comma-separated), header file
(lines "name: value", may be empty), body.
"""

import json
import socket
import ssl
import sys

address, port, name, ca_file, alpn, header_file, body = sys.argv[1:]

context = ssl.create_default_context(cafile=ca_file)
# From 3.5 on OpenSSL offers a post-quantum group by itself, and the hello takes two segments.
# Before, X25519 is its first choice, and not every Python can name it.
if ssl.OPENSSL_VERSION_INFO >= (3, 5):
    context.set_ecdh_curve("X25519")
context.set_alpn_protocols(alpn.split(","))

with open(header_file, encoding="ascii") as file:
    headers = [line.strip() for line in file if line.strip()]
payload = body.encode()
request = "\r\n".join(
    [
        "POST /v1/messages HTTP/1.1",
        f"host: {name}",
        "content-type: application/json",
        f"content-length: {len(payload)}",
        "connection: close",
        *headers,
        "",
        "",
    ]
).encode() + payload

said = {"error": None, "protocol": None, "answer": ""}
try:
    with socket.create_connection((address, int(port)), timeout=30) as tcp:
        with context.wrap_socket(tcp, server_hostname=name) as tls:
            said["protocol"] = tls.selected_alpn_protocol()
            tls.sendall(request)
            while data := tls.recv(65536):
                said["answer"] += data.decode("latin-1")
except OSError as error:
    said["error"] = str(error)
print(json.dumps(said))
