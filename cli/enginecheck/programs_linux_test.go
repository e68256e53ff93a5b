package enginecheck_test

import "encoding/json"

// processes exceeds the process limit, and then starts as many as allowed again.
const processes = `
import os, time
children, refused = [], False
for _ in range(50):
    try:
        pid = os.fork()
    except OSError as e:
        refused = True
        break
    if pid == 0:
        time.sleep(30)
        os._exit(0)
    children.append(pid)
print("refused", refused)
time.sleep(0.1) # where no cgroup counts, who looks every 10 ms must see it
for c in children: os.kill(c, 9)
for c in children: os.waitpid(c, 0)
`

// disk exceeds the disk limit.
const disk = `
import errno, os
n = 0
try:
    with open("/workspace/big", "wb", buffering=0) as f:
        while n < 100:
            f.write(b"x" * (1 << 20))
            n += 1
except OSError as e:
    print(errno.errorcode[e.errno])
os.remove("/workspace/big")
print(n <= 16, n >= 12)
`

// surroundings prints a program's environment, a line for each fact. It omits facts that no program depends on and that
// engines handle differently: /dev/mqueue, the primary group among the supplementary ones, the number of our processes,
// noexec on /dev/shm, and RLIMIT_NPROC, which a cgroup replaces.
const surroundings = `
import grp, locale, os, pwd, resource, socket, stat, sys, time
def say(name, f):
    try: print(name, f())
    except Exception as e: print(name, type(e).__name__, e)
say("dir", os.getcwd)
say("files", lambda: sorted(os.listdir(".")))
say("tmp", lambda: sorted(os.listdir("/tmp")))
say("shm", lambda: sorted(os.listdir("/dev/shm")))
say("dev", lambda: sorted(set(os.listdir("/dev")) - {"mqueue"}))
say("pts", lambda: os.listdir("/dev/pts"))
say("umask", lambda: oct(os.umask(0o22)))
say("root", lambda: os.getuid() == 0 or os.getgid() == 0 or 0 in os.getgroups())
say("same ids", lambda: (os.getuid() == os.geteuid() == os.stat(".").st_uid, os.getgid() == os.getegid()))
say("groups", lambda: set(os.getgroups()) <= {os.getgid()})
say("host", socket.gethostname)
say("lo", lambda: socket.gethostbyname("localhost"))
say("interfaces", socket.if_nameindex)
say("home", lambda: (os.path.expanduser("~"), os.access(os.path.expanduser("~"), os.W_OK)))
say("name", lambda: pwd.getpwuid(os.getuid())[0])
say("group", lambda: grp.getgrgid(os.getgid())[0])
say("tty", lambda: [os.isatty(i) for i in range(3)])
say("descriptors", lambda: sorted(os.listdir("/proc/self/fd"))[:3] + [len(os.listdir("/proc/self/fd"))])
say("kinds", lambda: [stat.S_IFMT(os.fstat(i).st_mode) for i in range(3)])
say("encoding", lambda: (sys.getfilesystemencoding(), sys.stdout.encoding, locale.setlocale(locale.LC_ALL, "")))
say("zone", lambda: (time.tzname, time.localtime(0).tm_hour))
say("flags", lambda: (sys.flags, sys.argv))
say("nice", lambda: os.nice(0))
say("cpus", lambda: len(os.sched_getaffinity(0)) == os.cpu_count())
say("session", lambda: (os.getpgrp() == os.getpid(), os.getsid(0) == os.getpid()))
say("processes", lambda: len([p for p in os.listdir("/proc") if p.isdigit()]) <= 4)
say("writable", lambda: [d for d in ("/", "/etc", "/usr", "/run", "/var", "/workspace", "/tmp", "/dev", "/dev/shm", "/proc/sys", "/sys", "/home", "/root") if os.access(d, os.W_OK)])
say("exec", lambda: [os.statvfs(d).f_flag & (os.ST_NOEXEC | os.ST_NOSUID | os.ST_NODEV) for d in ("/workspace", "/tmp")])
say("size", lambda: [os.statvfs(d).f_blocks * os.statvfs(d).f_frsize >> 20 for d in ("/workspace", "/tmp", "/dev/shm")])
say("modes", lambda: [oct(os.stat(d).st_mode) for d in ("/tmp", "/dev/shm")])
for name in sorted(n for n in dir(resource) if n.startswith("RLIMIT_") and n != "RLIMIT_NPROC"):
    say(name, lambda: resource.getrlimit(getattr(resource, name)))
for line in open("/proc/self/status"):
    if line.split(":")[0] in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp", "SigIgn", "SigBlk"):
        print(line.strip())
`

// artifacts creates files of all types and with all kinds of names.
const artifacts = `
import os, socket
def put(name, data=b"x"):
    os.makedirs(os.path.dirname(name) or b".", exist_ok=True)
    with open(name, "wb") as f: f.write(data)
put(b"plain.txt", b"plain\n")
put(b"empty", b"")
put(b"run.sh", b"#!/bin/sh\n"); os.chmod("run.sh", 0o755)
put(b"setuid", b"x"); os.chmod("setuid", 0o4755)
put(b"closed", b"x"); os.chmod("closed", 0)
put(b"a/b/c/d/e/deep")
put(b".hidden/.file")
put(b"new\nline"); put(b"space name "); put(b"-dash"); put(b"quote'\"$(x)"); put(b"\xff\xfe not UTF-8"); put("ä€😀".encode()); put(b"\x1b[31mred"); put(b"long" * 60)
put(b"picture.png", b"\x89PNG\r\n\x1a\n" + b"\0" * 100); put(b"page.html", b"<html></html>"); put(b"data.json", b"{}"); put(b"big.bin", os.urandom(0) + bytes(range(256)) * 20000)
os.symlink("/etc/passwd", "link"); os.symlink("plain.txt", "inner"); os.symlink("nowhere", "dangling"); os.symlink("a", "dirlink"); os.symlink("loop", "loop")
os.link("plain.txt", "hard")
os.mkfifo("fifo")
s = socket.socket(socket.AF_UNIX); s.bind("socket")
os.mkdir("dark"); put(b"dark/file"); os.chmod("dark", 0)
with open("sparse", "wb") as f: f.truncate(10 << 20)
`

// leak prints a secret in many encodings.
const leak = `
import base64, os, sys, urllib.parse
k = os.environ["KEY"]
print(k)
print(k[:6], end="", flush=True); print(k[6:])
print(base64.b64encode(k.encode()).decode(), k.encode().hex(), urllib.parse.quote(k, safe=""))
sys.stderr.write(k + "\n")
open("out", "w").write("x" * 1000 + k)
open("clean", "w").write("x")
open(k.replace("/", "_"), "w").write("x")
open(k.split("/")[0], "w").write("x")
raise SystemExit(0)
`

// mounts reads and writes the mounted directories.
const mounts = `
import os
print(open("/data/one.txt").read(), open("/data/deep/er/two.txt").read(), open("/data/link").read(), open("/srv/one").read(), sorted(os.listdir("/data")))
for f in (lambda: open("/data/new", "w"), lambda: open("/data/one.txt", "a"), lambda: os.remove("/data/one.txt"), lambda: open("/srv/one", "a"), lambda: os.chmod("/data/one.txt", 0o777)):
    try: f(); print("done")
    except OSError as e: print(type(e).__name__, e.errno)
open("/write/new.txt", "w").write("new")
open("/write/given.txt", "a").write("more")
print(sorted(os.listdir("/write")), open("/write/given.txt").read().startswith("given"))
os.remove("/write/new.txt")
`

// ownServer connects to a server of its own: the loopback network is private.
const ownServer = `
import socket, threading
l = socket.create_server(("127.0.0.1", 8000))
threading.Thread(target=lambda: l.accept()[0].sendall(b"answer"), daemon=True).start()
print(socket.create_connection(("localhost", 8000), timeout=5).recv(10).decode())
for at in (("127.0.0.1", 8001), ("127.0.0.5", 80), ("10.0.0.1", 80), ("203.0.113.1", 80)):
    try: socket.create_connection(at, timeout=2); print("connected")
    except OSError as e: print(at, e.errno)
for family, kind in ((socket.AF_INET6, socket.SOCK_STREAM), (socket.AF_INET, socket.SOCK_RAW), (socket.AF_PACKET, socket.SOCK_RAW), (socket.AF_NETLINK, socket.SOCK_RAW), (socket.AF_VSOCK, socket.SOCK_STREAM), (socket.AF_UNIX, socket.SOCK_STREAM), (socket.AF_ALG, socket.SOCK_SEQPACKET)):
    try: socket.socket(family, kind); print(family.name, "made")
    except OSError as e: print(family.name, e.errno)
`

// fetchProgram returns a program that fetches pages and prints the results.
func fetchProgram(urls ...string) string {
	list, _ := json.Marshal(urls)
	return `
import urllib.request
for url in ` + string(list) + `:
    try: print(urllib.request.urlopen(url, timeout=20).read().decode())
    except Exception as e: print(getattr(e, "reason", e))  # a reset may come early or late
`
}
