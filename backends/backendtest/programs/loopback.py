"""A server and its client in one sandbox: TCP, UDP, IPv6 if the kernel has it, and HTTP."""
import http.server
import os
import socket
import threading
import urllib.request


def echo(family, address):
    with socket.create_server((address, 0), family=family) as server:
        def serve():
            c, _ = server.accept()
            with c:
                c.sendall(c.recv(16))
        threading.Thread(target=serve, daemon=True).start()
        with socket.create_connection(server.getsockname()[:2]) as c:
            c.sendall(b"hello")
            assert c.recv(16) == b"hello"


echo(socket.AF_INET, "127.0.0.1")
echo(socket.AF_INET, "0.0.0.0")
if os.path.exists("/proc/net/if_inet6") and open("/proc/net/if_inet6").read():
    echo(socket.AF_INET6, "::1")
a, b = socket.socket(socket.AF_INET, socket.SOCK_DGRAM), socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
a.bind(("127.0.0.1", 0))
b.sendto(b"hello", a.getsockname())
assert a.recv(16) == b"hello"
server = http.server.ThreadingHTTPServer(("localhost", 8000), http.server.SimpleHTTPRequestHandler)
threading.Thread(target=server.serve_forever, daemon=True).start()
assert b"loopback.py" in urllib.request.urlopen("http://localhost:8000/").read()
assert [name for _, name in socket.if_nameindex()][0] == "lo"
