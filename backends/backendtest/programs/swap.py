"""Runs in the background and keeps replacing a file and a directory by links to the host's."""
import os
import sys

host = sys.argv[1]
with open("file", "w") as f:
    f.write("mine")
with open("plain", "w") as f:
    f.write("mine")
os.mkdir("directory")
with open("directory/plain", "w") as f:
    f.write("mine")
os.symlink(os.path.join(host, "file"), "file.link")
os.symlink(host, "directory.link")
os.mkfifo("file.fifo")
print("swapping", flush=True)
if os.fork():
    os._exit(0)
os.setsid()
null = os.open("/dev/null", os.O_RDWR)
for fd in range(3):
    os.dup2(null, fd)


def swap(a, b):
    os.rename(a, "third")
    os.rename(b, a)
    os.rename("third", b)


while True:
    for other in ("file.link", "file.fifo"):
        swap("file", other)
        swap("file", other)
    swap("directory", "directory.link")
    swap("directory", "directory.link")
