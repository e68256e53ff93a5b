"""What Python programs do with the web, with no word about a proxy or a sandbox."""
import asyncio, base64, http.client, json, os, socket, ssl, subprocess, sys, threading, time, urllib.request


def urllib_https():
    for name in ("example.test", "v6.test", "both.test", "alias.test", "EXAMPLE.test", "example.test."):
        got = json.load(urllib.request.urlopen(f"https://{name.rstrip('.') if name.endswith('.') else name}/echo", timeout=10))
        assert got["host"].lower().rstrip(".") == name.lower().rstrip("."), got


def urllib_http():
    got = json.load(urllib.request.urlopen("http://example.test/echo", data=b"x" * 100000, timeout=10))
    assert got["body"] == 100000, got


def http_client():
    c = http.client.HTTPSConnection("example.test", timeout=10)
    for _ in range(5):  # over one connection
        c.request("POST", "/echo", body=b"y" * 1000)
        assert json.load(c.getresponse())["body"] == 1000
    plain = http.client.HTTPConnection("example.test", timeout=10)
    for body in (b"z" * 10, iter([b"chunk"] * 20)):
        plain.request("POST", "/echo", body=body, encode_chunked=False, headers={})
        assert json.load(plain.getresponse())["body"] in (10, 100)


def requests_of_pip():
    from pip._vendor import requests

    s = requests.Session()
    for scheme in ("http", "https"):
        got = s.get(scheme + "://example.test/redirect?to=https://front.test/echo", timeout=10, verify="/etc/ssl/certs/ca-certificates.crt")
        assert got.json()["host"] == "front.test", got.text


def asyncio_tls():
    async def one():
        r, w = await asyncio.open_connection("example.test", 443, ssl=ssl.create_default_context())
        w.write(b"GET /echo HTTP/1.1\r\nHost: example.test\r\nConnection: close\r\n\r\n")
        text = await asyncio.wait_for(r.read(), 10)
        assert b'"host":"example.test"' in text, text
        w.close()

    async def many():
        await asyncio.gather(*(one() for _ in range(20)))

    asyncio.run(many())


def events():
    for scheme in ("http", "https"):
        came = 0
        for line in urllib.request.urlopen(scheme + "://example.test/events", timeout=10):
            if line.startswith(b"data"):
                came += 1
                urllib.request.urlopen(scheme + "://example.test/more", timeout=10).read()  # the next one is sent upon this
        assert came == 3, came


def web_socket():
    for tls in (False, True):
        c = socket.create_connection(("example.test", 443 if tls else 80), timeout=10)
        if tls:
            c = ssl.create_default_context().wrap_socket(c, server_hostname="example.test")
        key = base64.b64encode(os.urandom(16))
        c.sendall(b"GET /ws HTTP/1.1\r\nHost: example.test\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: " + key + b"\r\nSec-WebSocket-Version: 13\r\n\r\n")
        f = c.makefile("rb")
        assert b"101" in f.readline()
        while f.readline().strip():
            pass
        for text in (b"hello", b"again"):
            mask = os.urandom(4)
            c.sendall(bytes([0x81, 0x80 | len(text)]) + mask + bytes(b ^ mask[i % 4] for i, b in enumerate(text)))
            assert f.read(2 + len(text)) == bytes([0x81, len(text)]) + text


def big():
    for scheme in ("http", "https"):
        n = 0
        with urllib.request.urlopen(scheme + "://example.test/big?n=50000000", timeout=10) as r:
            while chunk := r.read(1 << 20):
                n += len(chunk)
        assert n == 50_000_000, n


def raw_half_close():
    first = {  # of protocols in which the client begins
        "bytes": bytes(range(256)) * 10_000, "one byte": b"e", "redis": b"*1\r\n$4\r\nPING\r\n", "redis inline": b"PING\r\n",
        "memcached": b"get key\r\n", "irc": b"NICK joe\r\nUSER joe 0 * :Joe\r\n", "whois": b"example.test\r\n", "gopher": b"/path with words\r\n",
        "mqtt": b"\x10\x0c\0\4MQTT\4\2\0\x3c\0\0", "amqp": b"AMQP\0\0\x09\1", "json": b'{"id":1}\n', "bittorrent": b"\x13BitTorrent protocol",
    }
    for name, text in first.items():
        c = socket.create_connection(("echo.test", 7000), timeout=5)
        sender = threading.Thread(target=lambda: (c.sendall(text), c.shutdown(socket.SHUT_WR)))
        sender.start()
        got = b""
        try:
            while chunk := c.recv(1 << 16):
                got += chunk
        except OSError as e:
            got += str(e).encode()
        sender.join()
        assert got == text, (name, len(got), got[:200])


def raw_talk():  # without an end: the first bytes must not be held back for more
    for text in (b"\x01\x02", b"PING\r\n", b"get key\r\n"):
        c = socket.create_connection(("echo.test", 7000), timeout=3)
        c.sendall(text)
        assert c.recv(100) == text, text


def own_server():
    p = subprocess.Popen([sys.executable, "-m", "http.server", "8000"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for at in ("127.0.0.1", "localhost"):
            for _ in range(100):
                try:
                    assert b"Directory listing" in urllib.request.urlopen(f"http://{at}:8000/", timeout=5).read()
                    break
                except urllib.error.URLError:
                    time.sleep(0.05)
            else:
                raise AssertionError("no answer from " + at)
    finally:
        p.kill()
        p.wait()


failed = False
for f in (urllib_https, urllib_http, http_client, requests_of_pip, asyncio_tls, events, web_socket, big, raw_half_close, raw_talk, own_server):
    try:
        start = time.time()
        f()
        print(f"{f.__name__}: ok")
        print(f"{f.__name__}: {time.time() - start:.2f}s", file=sys.stderr)
    except Exception as e:
        failed = True
        print(f"{f.__name__}: {type(e).__name__}: {e}")
sys.exit(failed)
