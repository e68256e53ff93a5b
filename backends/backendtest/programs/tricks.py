"""Leaves entries of all kinds in the workspace that could mislead its collector. The argument is a host
file.
"""
import os
import socket
import sys

canary = sys.argv[1]


def mine(name):
    with open(name, "wb") as f:
        f.write(b"mine")


made = []


def make(name, f):
    try:
        f()
        made.append(name)
    except OSError as e:
        made.append("%s: not made (%s)" % (name, e.strerror))


for name in (b"plain", b"new\nline", b"\xff\xfe", b"quote'\"", b"-rf", b"a b", b"..dots", b"\x1b[31mred", "cafe\u0301".encode(), b"n" * 255):
    mine(name)
for i, target in enumerate(["/etc/passwd", canary, "../../../../../../.." + canary, "/proc/self/root" + canary, "/proc/1/environ", "link-self", "/dev/zero",
                            "/dev/tty", "/workspace", "/", "."]):
    name = "link-%d" % i if target != "link-self" else "link-self"
    make(name, lambda: os.symlink(target, name))
make("loop", lambda: os.symlink("loop", "loop"))
make("fifo", lambda: os.mkfifo("fifo"))
make("socket", lambda: socket.socket(socket.AF_UNIX).bind("socket"))
make("hard", lambda: os.link("plain", "hard"))
make("hard-canary", lambda: os.link(canary, "hard-canary"))
make("hard-passwd", lambda: os.link("/etc/passwd", "hard-passwd"))
make("device", lambda: os.mknod("device", 0o20666, os.makedev(1, 5)))
mine("sealed")
os.chmod("sealed", 0)
os.mkdir("sealed-directory")
mine("sealed-directory/inside")
os.chmod("sealed-directory", 0)
os.mkdir("no-search")
mine("no-search/inside")
os.chmod("no-search", 0o444)
os.mkdir("empty-directory")
with open("sparse", "wb") as f:
    make("sparse", lambda: f.truncate(1 << 40))
os.makedirs(".git/hooks")
mine(".git/hooks/post-checkout")
try:
    os.chmod("plain", 0o4755)
except PermissionError:  # if the file is the host's
    os.chmod("plain", 0o755)
print(made)
