"""The environment that every script may rely on."""
import getpass
import locale
import os
import pathlib
import pwd
import socket
import sys
import tempfile

assert os.getcwd() == "/workspace", os.getcwd()
assert os.environ["HOME"] == "/workspace", os.environ["HOME"]
assert pathlib.Path.home() == pathlib.Path("/workspace")
assert os.path.abspath(__file__) == "/workspace/surroundings.py", __file__
assert __name__ == "__main__"
assert sys.stdout.encoding.lower().replace("-", "") == "utf8", sys.stdout.encoding
assert sys.getfilesystemencoding() == "utf-8"
assert "utf" in locale.getpreferredencoding(False).lower(), locale.getpreferredencoding(False)
assert sys.stdin.read() == ""
assert os.path.isabs(sys.executable) and os.access(sys.executable, os.X_OK), sys.executable
assert pwd.getpwuid(os.getuid()).pw_dir, "no entry for user %d" % os.getuid()
assert getpass.getuser()
assert os.path.expanduser("~") == "/workspace"
assert socket.gethostname()
assert socket.gethostbyname("localhost") == "127.0.0.1"
assert os.cpu_count() >= 1
assert os.umask(0o22) in (0o22, 0o77, 0o02)
for directory in ("/workspace", "/tmp", "/dev/shm"):
    path = os.path.join(directory, "here")
    with open(path, "w") as f:
        f.write("x")
    assert os.stat(path).st_uid == os.getuid(), (path, os.stat(path))
    os.unlink(path)
with tempfile.NamedTemporaryFile() as f:
    f.write(b"x")
assert os.stat("/tmp").st_mode & 0o7777 in (0o1777, 0o777, 0o700), oct(os.stat("/tmp").st_mode)
with open("/dev/null", "w") as f:
    f.write("x")
assert len(open("/dev/urandom", "rb").read(8)) == 8
assert open("/dev/zero", "rb").read(2) == b"\0\0"
assert os.getpid() > 1, "process 1 has rules of its own about signals"
assert os.isatty(0) is False
import ctypes, hashlib, lzma, sqlite3, ssl, zlib  # compiled modules find their libraries
assert not os.path.exists("/etc/shadow")
