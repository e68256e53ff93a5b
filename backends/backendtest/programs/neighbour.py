"""serve WORD: leaves a process, files, sockets and shared memory behind. look WORD: searches for them."""
import ctypes
import glob
import os
import socket
import sys
import time

what, word = sys.argv[1:]
key = int.from_bytes(word.encode()[-3:], "big") | 0x51000000
libc = ctypes.CDLL(None, use_errno=True)
files = ["/tmp/" + word, "/dev/shm/" + word, "/workspace/" + word, "/var/tmp/" + word]

if what == "serve":
    r, w = os.pipe()
    if os.fork() == 0:
        os.setsid()
        for fd in range(3):
            os.dup2(os.open("/dev/null", os.O_RDWR), fd)
        abstract = socket.socket(socket.AF_UNIX)
        abstract.bind(b"\0" + word.encode())
        abstract.listen()
        try:
            tcp = socket.socket()
            tcp.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            tcp.bind(("127.0.0.1", 4711))
            tcp.listen()
        except OSError:  # programs without internet sockets
            pass
        libc.shmget(key, 4096, 0o1666)
        for path in files:
            try:
                with open(path, "w") as f:
                    f.write(word)
            except OSError:
                pass
        os.write(w, b"x")
        while True:
            time.sleep(1)
    os.read(r, 1)
    print("serving")
else:
    me = str(os.getpid())
    for path in glob.glob("/proc/[0-9]*/cmdline"):
        try:
            with open(path, "rb") as f:
                if word.encode() in f.read() and path.split("/")[2] != me:
                    print("found process", path)
        except OSError:
            pass
    for path in files:
        if os.path.exists(path):
            print("found file", path)
    for family, address in ((socket.AF_UNIX, b"\0" + word.encode()), (socket.AF_INET, ("127.0.0.1", 4711))):
        try:
            with socket.socket(family) as s:
                s.connect(address)
                print("found socket", address)
        except OSError:
            pass
    if libc.shmget(key, 0, 0) >= 0:
        print("found segment")
