"""Writes random bytes to both streams at once, and the hash of stderr's at the end of stdout."""
import hashlib
import os
import sys
import threading

total = int(sys.argv[1])
h = hashlib.sha256()


def write(fd, block):
    while block:
        n = os.write(fd, block)
        block = block[n:]


def fill(fd, note):
    left = total
    while left:
        block = os.urandom(min(left, 1 << 16))
        note(block)
        write(fd, block)
        left -= len(block)


t = threading.Thread(target=fill, args=(2, h.update))
t.start()
fill(1, lambda block: None)
t.join()
write(1, h.hexdigest().encode())
