"""Makes descendants that hide in every known way, then stays or exits. All of them have the first argument,
a word, among theirs.
"""
import os
import signal
import sys
import time

ready_r, ready_w = os.pipe()


def descend(f):
    if os.fork() == 0:
        try:
            f()
            os.write(ready_w, b"x")
            time.sleep(1000)
        finally:
            os._exit(0)


def nothing():
    pass


def daemon():
    os.setsid()
    if os.fork():
        os._exit(0)
    os.setsid() if os.getpid() != os.getsid(0) else None
    os.chdir("/")


def deaf():
    for number in range(1, 65):
        try:
            signal.signal(number, signal.SIG_IGN)
        except (OSError, ValueError):
            pass


def silent():
    for fd in range(3):
        os.close(fd)


def stopped():
    os.write(ready_w, b"x")
    os.kill(os.getpid(), signal.SIGSTOP)


def restless():
    """Changes its PID all the time, so that a list of PIDs is always outdated."""
    os.write(ready_w, b"x")
    while True:
        if os.fork():
            os._exit(0)
        time.sleep(0.005)


def group():
    os.setpgid(0, 0)


kinds = [nothing, os.setsid, daemon, deaf, silent, stopped, restless, group]
for kind in kinds:
    descend(kind)
seen = 0
while seen < len(kinds):
    seen += len(os.read(ready_r, 64))
print("descendants ready", flush=True)
if sys.argv[2] == "stay":
    time.sleep(1000)
os._exit(0)
