"""Process 1 must reap ended orphans, or they fill the process limit."""
import os
import time

for i in range(100):
    pid = os.fork()
    if pid == 0:
        if os.fork() == 0:
            os._exit(0)  # our parent has ended or is ending: process 1 must reap us
        os._exit(0)
    os.waitpid(pid, 0)


def zombies():
    found = []
    for name in os.listdir("/proc"):
        try:
            with open("/proc/%s/stat" % name) as f:
                if f.read().rsplit(")", 1)[1].split()[0] == "Z":
                    found.append(name)
        except (OSError, IndexError):
            pass
    return found


while zombies():
    time.sleep(0.01)
