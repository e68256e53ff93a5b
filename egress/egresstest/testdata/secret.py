"""What Python programs do with a key: secret.py WAY."""
import base64, http.client, os, socket, ssl, sys, urllib.request

KEY = os.environ["API_KEY"]
HOST = "exact.example"
HEADERS = {"Authorization": "Bearer " + KEY}


def by_urllib():
    for _ in range(3):
        assert b"ok known" in urllib.request.urlopen(urllib.request.Request(f"https://{HOST}/ok", headers=HEADERS), timeout=10).read()


def by_client():
    c = http.client.HTTPSConnection(HOST, timeout=10)
    for body in (None, b"x" * 100000, iter([b"chunk"] * 20)):
        c.request("POST", "/ok", body=body, headers=HEADERS)
        assert b"ok known" in c.getresponse().read()


def by_requests():
    from pip._vendor import requests

    s = requests.Session()
    for auth, headers in ((("me", KEY), None), (None, HEADERS)):
        r = s.get(f"https://{HOST}/ok", auth=auth, headers=headers, timeout=10)
        assert r.text == "ok known\n", r.text
    assert s.get(f"https://{HOST}/ok", params={"key": KEY}, timeout=10).text == "ok known\n"


def by_websocket():
    c = ssl.create_default_context().wrap_socket(socket.create_connection((HOST, 443), timeout=10), server_hostname=HOST)
    key = base64.b64encode(os.urandom(16)).decode()
    c.sendall(f"GET /ws HTTP/1.1\r\nHost: {HOST}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nAuthorization: Bearer {KEY}\r\nSec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n".encode())
    f = c.makefile("rb")
    first = f.readline()
    assert b"101" in first, first
    while f.readline().strip():
        pass
    for text in (b"hello", b"again"):
        mask = os.urandom(4)
        c.sendall(bytes([0x81, 0x80 | len(text)]) + mask + bytes(b ^ mask[i % 4] for i, b in enumerate(text)))
        assert f.read(2 + len(text)) == bytes([0x81, len(text)]) + text


globals()["by_" + sys.argv[1]]()
