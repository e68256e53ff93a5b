"""Asks a server for the secret that it was sent, in all ways, and looks whether it comes.

It knows only masked spellings of the value, and holds them apart from what it looks at, in a child:
the parent then looks into the whole memory of the child.
"""
import json, os, re, socket, ssl, subprocess, sys

MASK = bytes(b ^ 0x5A for b in range(256))
HOST = "exact.example"
HOWS = ["raw", "base64", "base64url", "mime", "hex", "HEX", "percent", "query", "unicode", "twice", "page", "address"]
WHERES = ["body", "sized", "error", "chunks", "event", "header", "header name", "type", "cookie", "location", "elsewhere", "authenticate", "trailer",
          "sudden trailer", "early", "gzip", "deflate", "br", "range", "cut"]
RAW = ["status", "no HTTP", "bad header", "bad length", "bad chunk", "chunk extension", "until the end", "folded", "behind", "switch"]


def found(data, needles):
    masked = data.translate(MASK)
    return [name for name, n in needles.items() if n in masked]


def views(data):
    """What a program makes of an answer: chunks put together, and lines."""
    head, _, body = data.partition(b"\r\n\r\n")
    whole = b""
    if b"chunked" in head.lower():
        rest = body
        while m := re.match(rb"([0-9a-fA-F]+)[^\r]*\r\n", rest):
            n = int(m[1], 16)
            whole, rest = whole + rest[m.end():m.end() + n], rest[m.end() + n + 2:]
    whole = whole or body
    return b"\0".join((data, whole, whole.replace(b"\r\n", b"")))


def load():
    return {k: bytes.fromhex(v) for k, v in json.load(open("needles.json")).items()}


def fetch(path, headers="", method="GET", port=443):
    c = ssl.create_default_context()
    s = c.wrap_socket(socket.create_connection((HOST, port), timeout=5), server_hostname=HOST)
    s.sendall(f"{method} {path} HTTP/1.1\r\nHost: {HOST}:{port}\r\nAuthorization: Bearer {os.environ['API_KEY']}\r\nConnection: close\r\n{headers}\r\n".encode())
    got = b""
    try:
        while chunk := s.recv(65536):
            got += chunk
    except OSError as e:
        got += b" <%s>" % str(e).encode()
    return got


def curl(path, *flags):
    out = subprocess.run(["curl", "-sS", "-i", "--raw", "-m", "5", "-H", "Authorization: Bearer " + os.environ["API_KEY"], *flags, f"https://{HOST}{path}"], capture_output=True)
    return out.stdout + out.stderr


def child():
    kept = []  # all answers stay in memory
    def tell(name, data):
        kept.append(views(data))
        print(json.dumps({"name": name, "bytes": len(data), "found": found(kept[-1], needles), "saw": data[:60].decode("latin1")}), flush=True)
    needles = load()
    q = lambda how, where: "/give?how=%s&where=%s" % (how, where.replace(" ", "+"))
    ways = 1 if "all" in sys.argv else 4  # else each place has every fourth spelling, and each spelling places of every kind
    for i, where in enumerate(WHERES + RAW):
        for how in HOWS[i % ways::ways]:
            tell(f"h1 {where} {how}", fetch(q(how, where), port=8443 if where in RAW else 443))
        if where not in RAW:
            for how in ("raw", "base64"):
                tell(f"h2 {where} {how}", curl(q(how, where), "--http2"))
    for where in ("body", "header", "cookie", "trailer"):
        tell(f"HEAD {where}", fetch(q("raw", where), method="HEAD"))
    tell("decoded gzip", curl(q("raw", "gzip"), "--compressed"))
    tell("asked for gzip", fetch(q("raw", "gzip"), "Accept-Encoding: gzip\r\n"))
    tell("asked for brotli", fetch(q("raw", "br"), "Accept-Encoding: br\r\n"))
    tell("a range with all", fetch(q("raw", "range"), "Range: bytes=10-\r\n"))
    tell("two ranges", fetch(q("raw", "range"), "Range: bytes=0-1,8-1000\r\n"))
    tell("redirect followed", curl(q("raw", "elsewhere"), "-L"))
    tell("environment", b"\0".join(k + b"=" + v for k, v in os.environb.items()))
    for path in ("/proc/self/environ", "/proc/self/cmdline", "/proc/1/environ", "/proc/1/cmdline", "/proc/self/mountinfo"):
        try:
            tell(path, open(path, "rb").read())
        except OSError as e:
            tell(path, str(e).encode())
    for directory, dirs, files in os.walk("/"):
        dirs[:] = [d for d in dirs if os.path.join(directory, d) not in ("/proc", "/sys", "/usr", "/lib", "/lib64", "/bin", "/sbin") and not os.path.islink(os.path.join(directory, d))
                   and "pyenv" not in d and "nvm" not in d]
        for f in files:
            p = os.path.join(directory, f)
            try:
                if os.path.isfile(p) and os.path.getsize(p) < 4 << 20:
                    data = open(p, "rb").read()
                    if hits := found(data, needles):
                        tell("file " + p, data)
            except OSError:
                pass
    open("artifact.bin", "wb").write(b"\n".join(kept))
    needles.clear()
    print("done", flush=True)
    sys.stdin.readline()


def parent():
    c = subprocess.Popen([sys.executable, sys.argv[0], "child", *sys.argv[1:]], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    for line in c.stdout:
        if line == b"done\n":
            break
        sys.stdout.buffer.write(line)
    needles, looked, hits = load(), 0, []
    mem = open(f"/proc/{c.pid}/mem", "rb", 0)
    for line in open(f"/proc/{c.pid}/maps"):
        m = re.match(r"([0-9a-f]+)-([0-9a-f]+) r", line)
        if not m or "[v" in line:
            continue
        a, b = (int(x, 16) for x in m.groups())
        try:
            mem.seek(a)
            data = mem.read(b - a)
        except OSError:
            continue
        looked += len(data)
        # What the child masked to look at it: masked needles, unmasked again. Only of whole answers, so none.
        hits += [f"{n} in {line.strip()}" for n in found(data, needles)]
    own = os.environ["API_KEY"].encode()
    print(json.dumps({"name": "memory", "bytes": looked, "found": hits, "saw": "placeholder " + str(len(own))}), flush=True)
    c.stdin.close()
    c.wait()


child() if "child" in sys.argv else parent()
