"""Texts that are made up because that is what they are: base64, digests, logs, emoji, runs.

The same on every machine: random numbers come from a generator seeded by the text's name.
"""
import base64
import hashlib
import random
import uuid
import zlib

WORDS = ("the request was sent to an upstream that did not answer in time so it is tried again and the "
         "connection stays open for those who wait while other work goes on as before without delay").split()
HOSTS = ["api", "edge-1", "edge-2", "db-primary", "worker-17", "gateway", "cache.internal", "ip-10-0-3-17"]
PATHS = ["/v1/messages", "/v1/chat/completions", "/healthz", "/index.html", "/static/js/main.3f2a1b.js",
         "/api/users/{n}", "/search?q={w}", "/metrics", "/login", "/images/{n}.png", "/.env", "/wp-login.php"]
AGENTS = ["Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 Safari/537.36",
          "curl/8.5.0", "python-httpx/0.27.0", "anthropic-sdk-typescript 0.32.1", "Go-http-client/2.0", "kube-probe/1.29"]
LEVELS = ["INFO", "WARN", "ERROR", "DEBUG", "TRACE"]
MODULES = ["edge::relay", "hyper::proto::h1", "tokio::runtime", "sqlx::query", "http_server", "scheduler", "auth.session"]
MONTHS = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split()


def size_of(r):
    return int(512 * 2 ** r.uniform(0, 7))


def sentence(r):
    return " ".join(r.choice(WORDS) for _ in range(r.randint(3, 12)))


def log_line(r, kind, clock):
    clock[0] += r.expovariate(2.0)
    s = int(clock[0])
    h, m, sec, ms = s // 3600 % 24, s // 60 % 60, s % 60, int(clock[0] * 1000) % 1000
    day, month = 1 + s // 86400 % 28, 1 + s // 2419200 % 12
    ip = ".".join(str(r.randint(1, 254)) for _ in range(4))
    path = r.choice(PATHS).format(n=r.randint(1, 99999), w="+".join(r.sample(WORDS, 2)))
    host, status = r.choice(HOSTS), r.choice([200, 200, 200, 204, 301, 304, 400, 401, 404, 429, 500, 502])
    if kind == 0:
        return (f'{ip} - - [{day:02}/{MONTHS[month-1]}/2026:{h:02}:{m:02}:{sec:02} +0000] "{r.choice(["GET","POST","PUT"])} {path} HTTP/1.1" '
                f'{status} {r.randint(0, 99999)} "-" "{r.choice(AGENTS)}"')
    if kind == 1:
        return (f"2026-{month:02}-{day:02}T{h:02}:{m:02}:{sec:02}.{ms:03}Z {r.choice(LEVELS):>5} {r.choice(MODULES)}: {sentence(r)} "
                f"status={status} latency_ms={r.uniform(0.1, 900):.3f} request_id={uuid.UUID(int=r.getrandbits(128))}")
    if kind == 2:
        return f"{MONTHS[month-1]} {day:2} {h:02}:{m:02}:{sec:02} {host} {r.choice(['sshd','kernel','systemd','cron'])}[{r.randint(100,65535)}]: {sentence(r)} from {ip} port {r.randint(1024,65535)}"
    if kind == 3:
        return (f'{{"timestamp":"2026-{month:02}-{day:02}T{h:02}:{m:02}:{sec:02}.{ms:03}Z","level":"{r.choice(LEVELS).lower()}","target":"{r.choice(MODULES)}",'
                f'"message":"{sentence(r)}","host":"{host}","path":"{path}","status":{status},"bytes":{r.randint(0,99999)},"duration":{r.uniform(0,3):.4f}}}')
    if kind == 4:
        frames = "".join(f'\n  File "/usr/lib/python3/dist-packages/{r.choice(WORDS)}/{r.choice(WORDS)}.py", line {r.randint(1,999)}, in {r.choice(WORDS)}_{r.choice(WORDS)}'
                         for _ in range(r.randint(2, 6)))
        return f"Traceback (most recent call last):{frames}\n{r.choice(['ValueError','KeyError','TimeoutError','ConnectionResetError'])}: {sentence(r)}"
    return (f"[{s}.{r.randint(0,999999):06}] {r.choice(['eth0','nvme0n1','usb 1-2','EXT4-fs (sda1)','audit'])}: {sentence(r)} "
            f"0x{r.getrandbits(64):016x} ({r.randint(0,4096)} kB)")


def logs(n):
    for i in range(n):
        r = random.Random(f"logs {i}")
        clock, size, kind, out, total = [r.uniform(0, 3e7)], size_of(r), i % 6, [], 0
        while total < size:
            out.append(log_line(r, kind, clock))
            total += len(out[-1]) + 1
        yield "logs", f"logs-{i}", ["\n".join(out) + "\n"]


def packed(r, size):
    """Bytes to encode: random, packed text, or plain text."""
    kind = r.randint(0, 2)
    if kind == 0:
        return r.randbytes(size)
    text = "\n".join(log_line(r, r.randint(0, 5), [r.uniform(0, 3e7)]) for _ in range(size // 60)).encode()
    return zlib.compress(text)[:size] if kind == 1 else text[:size]


def base64s(n):
    for i in range(n):
        r = random.Random(f"base64 {i}")
        data = packed(r, size_of(r))
        kind = i % 4
        if kind == 0:
            text = base64.b64encode(data).decode()
        elif kind == 1:
            text = "-----BEGIN CERTIFICATE-----\n" + "\n".join(
                base64.b64encode(data[j:j + 48]).decode() for j in range(0, len(data), 48)) + "\n-----END CERTIFICATE-----\n"
        elif kind == 2:
            text = "data:image/png;base64," + base64.b64encode(data).decode()
        else:
            text = base64.urlsafe_b64encode(data).decode().rstrip("=")
        yield "base64", f"base64-{i}", [text]


def hexes(n):
    for i in range(n):
        r = random.Random(f"hex {i}")
        data, kind = packed(r, size_of(r)), i % 5
        if kind == 0:
            text = data.hex()
        elif kind == 1:
            text = data.hex().upper()
        elif kind == 2:
            text = "\n".join(f"{hashlib.sha256(data[j:j+8]).hexdigest()}  {r.choice(WORDS)}/{r.choice(WORDS)}.{r.choice(['c','rs','txt'])}"
                             for j in range(0, len(data), 64))
        elif kind == 3:
            text = "\n".join(f"{j:08x}: " + " ".join(data[k:k + 2].hex() for k in range(j, j + 16, 2)) for j in range(0, len(data), 16))
        else:
            text = "\n".join(str(uuid.UUID(int=r.getrandbits(128))) for _ in range(len(data) // 24))
        yield "hex", f"hex-{i}", [text]


def adversarial(n):
    for i in range(n):
        r = random.Random(f"adversarial {i}")
        size, kind = size_of(r), i % 8
        if kind == 0:
            text = "".join(r.choices("abcdefghijklmnopqrstuvwxyz", k=size))
        elif kind == 1:
            text = r.choice("a ^\n_0=-.#\t") * size
        elif kind == 2:
            text = r.choice(["\U0001F600", "\u0301", "\u200D", "\u00A0", "\u3000", "\uFFFD"]) * (size // 3)
        elif kind == 3:
            text = "".join(chr(r.choice([r.randint(0x20, 0xD7FF), r.randint(0xE000, 0x1FFFF)])) for _ in range(size // 4))
        elif kind == 4:
            text = "".join(chr(r.randint(1, 127)) for _ in range(size))
        elif kind == 5:
            text = "".join(r.choice("abcXYZ019 \n\t.,'\"{}éß中🙂") for _ in range(size))
        elif kind == 6:
            text = " ".join("".join(r.choices("abcdefghijklmnopqrstuvwxyz", k=r.randint(1, 20))) for _ in range(size // 11))
        else:
            text = "".join(r.choices("0123456789", k=size))
        yield "adversarial", f"adversarial-{i}", [text]


CONTROLS = "".join(map(chr, [*range(9), *range(14, 32), 127]))
PUNCTUATION = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"


def deceiving(n):
    """Texts that look like runs, which are few tokens, and are not."""
    for i in range(n):
        r = random.Random(f"deceiving {i}")
        size, kind = size_of(r), i % 10
        few = lambda of, most: r.sample(of, r.randint(2, min(most, len(of))))
        if kind == 0:
            text = r.choice(CONTROLS) * size
        elif kind == 1:
            text = "".join(r.choices(few(CONTROLS, 12), k=size))
        elif kind == 2:
            controls, rate = few(CONTROLS, 4), r.uniform(0.02, 0.6)
            words = " ".join(sentence(r) for _ in range(size // 40 + 1))[:size]
            text = "".join(r.choice(controls) if r.random() < rate else c for c in words)
        elif kind == 3:
            text = "".join(r.choices(few(PUNCTUATION, 32), k=size))
        elif kind == 4:
            marks, rate = few(PUNCTUATION, 32), r.uniform(0.05, 0.5)
            text = "".join(r.choice("abcXYZ 019\n") if r.random() < rate else r.choice(marks) for _ in range(size))
        elif kind == 5:
            text = "".join(r.choices(few(" \t\n\r\x0b\x0c", 6), k=size))
        elif kind == 6:
            letters = few("bcdfghjklmnpqrstvwxyz" if i % 20 < 10 else "abcdefghijklmnopqrstuvwxyz", 26)
            cases, blanks = r.choice([str, str.upper, lambda c: r.choice((c, c.upper()))]), r.choice([0, 0.02, 0.05, 0.2])
            text = "".join(" " if r.random() < blanks else cases(c) for c in r.choices(letters, k=size))
        elif kind == 7:
            run, every = r.choice(PUNCTUATION + " "), r.choice([2, 3, 4, 5, 7, 10, 20, 40, 60])
            breaks = few(r.choice([PUNCTUATION, CONTROLS, "\0\1"]), 4)
            text = "".join(r.choice(breaks) if j % every == 0 else run for j in range(size))
        elif kind == 8:
            first, last = r.choice([(0x80, 0x7FF), (0x800, 0xD7FF), (0x2000, 0x2FFF), (0xE000, 0xFFFF), (0x10000, 0x1FFFF), (0x20000, 0x2FFFF)])
            few_characters = [chr(r.randint(first, last)) for _ in range(r.randint(1, 6))]
            text = "".join(few_characters[j % len(few_characters)] for j in range(size // 3))
        else:
            every, most, out = [*map(chr, range(128))], r.randint(1, 8), []
            while len(out) < size:
                out.extend(r.choice(every) * r.randint(1, most))
            text = "".join(out)
        yield "adversarial", f"deceiving-{i}", [text]


def emoji(table, name):
    """Chat lines with emoji, and lists of emoji, from emojibase's table of one language."""
    items = [(e["emoji"], e["label"], e.get("tags", [])) for e in table if "emoji" in e]
    common = [i for i in items if len(i[0]) <= 2][:600]
    out = []
    for i in range(700):
        r = random.Random(f"emoji {name.rsplit('/', 2)[-2]} {i}")
        size, lines, total = size_of(r) // 4 + 300, [], 0
        while total < size:
            if i % 3 == 0:
                line = "".join(r.choice(items)[0] for _ in range(r.randint(1, 30)))
            elif i % 3 == 1:
                e = r.choice(items)
                line = f"{e[0]} {e[1]}: {', '.join(e[2])}"
            else:
                words = [w for e in r.sample(items, 3) for w in e[1].split()[:3]]
                line = " ".join(words) + r.choice(["! ", " ", "... ", "? "]) + r.choice(common)[0] * r.randint(1, 4)
            lines.append(line)
            total += len(line.encode()) + 1
        out.append("\n".join(lines))
    return out


def all_texts():
    yield from logs(1200)
    yield from base64s(800)
    yield from hexes(800)
    yield from adversarial(800)
    yield from deceiving(1000)
