"""What a script sees inside: run me with  sandboxmcp run cli/examples/hello.py"""

import os
import platform
import socket
import sys


def attempt(what, action):
    """Tries something that a script has no business doing on somebody's machine."""
    try:
        action()
    except OSError as error:
        print(f"  {what}: refused ({error.strerror or error})")
    else:
        print(f"  {what}: WAS REACHED, which it should not be")


print(f"Hello from Python {platform.python_version()}, process {os.getpid()}.")
print(f"I am in {os.getcwd()}, and all that lies here is {os.listdir()}.")

try:
    print(f"I see {sum(name.isdigit() for name in os.listdir('/proc'))} processes, none of them the host's.")
except OSError as error:  # the profile landlock shows no /proc
    print(f"I see no processes at all ({error.strerror}).")

print("What I must not do:")
attempt("read the host's passwords", lambda: open("/etc/shadow").read())
attempt("write to its system", lambda: open("/usr/hello", "w"))
attempt("reach the network", lambda: socket.create_connection(("192.0.2.1", 80), timeout=3))
attempt("look up a name", lambda: socket.getaddrinfo("example.com", 443))

with open("hello.txt", "w", encoding="utf-8") as file:
    file.write(f"written in a sandbox by Python {sys.version}\n")
print("I leave hello.txt behind. Keep it with --artifacts DIR, and see my record with: sandboxmcp audit")
