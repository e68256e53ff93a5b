"""Everyday operations of Python programs. Each check runs in a process of its own."""
import asyncio
import concurrent.futures
import ctypes
import errno
import faulthandler
import fcntl
import importlib
import json
import mmap
import multiprocessing
import os
import pty
import select
import signal
import socket
import sqlite3
import struct
import subprocess
import sys
import tempfile
import threading
import time

checks = []
libc = ctypes.CDLL(None, use_errno=True)
TMP = os.environ.get("TMPDIR", "/tmp")


def check(f):
    checks.append((f.__name__, f))
    return f


class Missing(Exception):
    pass


@check
def options_of_sockets():
    try:
        socket.socket().close()
    except OSError:
        raise Missing("sockets of the internet")
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.create_connection(listener.getsockname()) as s:
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 30)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 1))
        s.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, 16)


@check
def threads():
    out = []
    ts = [threading.Thread(target=out.append, args=(i,)) for i in range(20)]
    for t in ts:
        t.start()
    for t in ts:
        t.join()
    assert sorted(out) == list(range(20))


@check
def thread_pool():
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(abs, range(-100, 0))) == 5050


def square(x):
    return x * x


def _pool(method):
    with multiprocessing.get_context(method).Pool(3) as pool:
        assert pool.map(square, range(50)) == [x * x for x in range(50)]


@check
def multiprocessing_fork():
    _pool("fork")


@check
def multiprocessing_spawn():
    _pool("spawn")


@check
def multiprocessing_forkserver():
    _pool("forkserver")


def _enqueue(q, e, lock, value):
    with lock:
        value.value += 1
    e.wait(5)
    q.put(os.getpid())


@check
def multiprocessing_primitives():
    c = multiprocessing.get_context("fork")
    q, e, lock, value = c.Queue(), c.Event(), c.Lock(), c.Value("i", 0)
    ps = [c.Process(target=_enqueue, args=(q, e, lock, value)) for _ in range(3)]
    for p in ps:
        p.start()
    e.set()
    assert len({q.get() for _ in ps}) == 3 and value.value == 3
    for p in ps:
        p.join(5)


@check
def multiprocessing_shared_memory():
    from multiprocessing import shared_memory
    m = shared_memory.SharedMemory(create=True, size=1 << 20)
    other = shared_memory.SharedMemory(m.name)
    m.buf[:5] = b"hello"
    assert bytes(other.buf[:5]) == b"hello"
    other.close()
    m.close()
    m.unlink()


@check
def multiprocessing_manager():
    with multiprocessing.get_context("fork").Manager() as manager:
        d = manager.dict(a=1)
        d["b"] = 2
        assert dict(d) == {"a": 1, "b": 2}


@check
def process_pool():
    with concurrent.futures.ProcessPoolExecutor(2) as pool:
        assert list(pool.map(square, [1, 2, 3])) == [1, 4, 9]


@check
def subprocesses():
    assert subprocess.run(["echo", "hi"], capture_output=True, text=True).stdout == "hi\n"
    assert subprocess.run("cat | tr a-z A-Z", shell=True, input="abc", capture_output=True, text=True).stdout == "ABC"
    assert subprocess.run([sys.executable, "-c", "print(1)"], capture_output=True).stdout == b"1\n"
    assert subprocess.run(["python3", "-c", "import sys; print(sys.prefix)"], capture_output=True, text=True).stdout.strip() == sys.prefix
    try:
        subprocess.run(["sleep", "100"], timeout=0.2)
    except subprocess.TimeoutExpired:
        pass
    p = subprocess.Popen(["sleep", "100"], start_new_session=True)
    os.killpg(p.pid, signal.SIGTERM)
    assert p.wait(5) == -signal.SIGTERM
    os.posix_spawnp("true", ["true"], os.environ)
    os.wait()


@check
def async_io():
    async def main():
        async def serve(r, w):
            w.write(await r.readline())
            await w.drain()
            w.close()
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        r, w = await asyncio.open_connection(*server.sockets[0].getsockname())
        w.write(b"hello\n")
        assert await r.readline() == b"hello\n"
        p = await asyncio.create_subprocess_exec("echo", "x", stdout=subprocess.PIPE)
        assert (await p.communicate())[0] == b"x\n"
        assert await asyncio.to_thread(square, 3) == 9
        await asyncio.gather(*(asyncio.sleep(0.01) for _ in range(100)))
        server.close()
    asyncio.run(main())


@check
def databases():
    for path in (":memory:", "db.sqlite", TMP + "/db.sqlite"):
        db = sqlite3.connect(path)
        db.execute("pragma journal_mode=wal")
        db.execute("create table t (a)")
        db.executemany("insert into t values (?)", [(i,) for i in range(1000)])
        db.commit()
        assert db.execute("select sum(a) from t").fetchone() == (499500,)
        db.close()
    import dbm
    with dbm.open(TMP + "/dbm", "c") as d:
        d["a"] = "b"


@check
def terminals():
    primary, secondary = pty.openpty()
    os.write(secondary, b"hello\n")
    assert b"hello" in os.read(primary, 100)
    assert os.isatty(secondary) and os.ttyname(secondary).startswith("/dev/pts/")
    fcntl.ioctl(secondary, 0x5414, struct.pack("HHHH", 24, 80, 0, 0))  # TIOCSWINSZ
    assert os.get_terminal_size(secondary).columns == 80
    pid, fd = pty.fork()
    if pid == 0:
        os.execvp("sh", ["sh", "-c", "test -t 0 && echo a terminal; stty -a >/dev/null && echo stty"])
    out = b""
    try:
        while True:
            part = os.read(fd, 1000)
            if not part:
                break
            out += part
    except OSError:
        pass
    os.waitpid(pid, 0)
    assert b"a terminal" in out and b"stty" in out, out


@check
def script_command():
    try:
        out = subprocess.run(["script", "-qec", "tty", "/dev/null"], capture_output=True, stdin=subprocess.DEVNULL)
    except FileNotFoundError:
        raise Missing("script")
    assert b"/dev/pts/" in out.stdout, out


@check
def shared_memory_files():
    with open("/dev/shm/x", "wb") as f:
        f.write(b"x" * (1 << 20))
    with open("/dev/shm/x", "r+b") as f:
        m = mmap.mmap(f.fileno(), 0)
        m[:3] = b"abc"
    os.unlink("/dev/shm/x")


@check
def temporary_files():
    with tempfile.TemporaryDirectory() as d:
        assert d.startswith(TMP + "/"), d
    with tempfile.TemporaryFile() as f:
        f.write(b"x")
    fd = os.open(TMP, os.O_TMPFILE | os.O_RDWR)
    os.write(fd, b"x")
    with tempfile.NamedTemporaryFile(dir=".") as f:
        assert os.stat(f.name).st_nlink == 1


@check
def file_operations():
    with open("f", "w") as f:
        f.write("x")
        fcntl.flock(f, fcntl.LOCK_EX)
        fcntl.lockf(f, fcntl.LOCK_UN)
        os.fsync(f.fileno())
        os.posix_fallocate(f.fileno(), 0, 4096)
    os.link("f", "g")
    os.symlink("f", "h")
    os.rename("g", "i")
    os.makedirs("d/e")
    os.rename("i", "d/e/i")
    os.replace("d/e/i", "f2")
    os.chmod("f2", 0o600)
    os.utime("f2", (1, 2))
    os.chown("f2", os.getuid(), os.getgid())
    os.truncate("f2", 1)
    os.copy_file_range(os.open("f", os.O_RDONLY), os.open("f3", os.O_WRONLY | os.O_CREAT), 1)
    os.sendfile(os.open("f4", os.O_WRONLY | os.O_CREAT), os.open("f", os.O_RDONLY), 0, 1)
    os.statvfs(".")
    os.mkfifo("fifo")
    import shutil
    shutil.copytree("d", "d2")
    shutil.move("f4", TMP + "/f4")  # from one file system to another
    shutil.rmtree("d2")
    assert shutil.disk_usage(".").total > 0


@check
def signals():
    got = []
    signal.signal(signal.SIGUSR1, lambda *a: got.append(1))
    os.kill(os.getpid(), signal.SIGUSR1)
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    signal.signal(signal.SIGALRM, lambda *a: got.append(2))
    signal.pause() if len(got) < 2 else None
    assert got == [1, 2], got
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR2])
    os.kill(os.getpid(), signal.SIGUSR2)
    assert signal.sigwait([signal.SIGUSR2]) == signal.SIGUSR2
    assert signal.sigtimedwait([signal.SIGUSR2], 0.01) is None


@check
def default_signals():
    """No signal is ignored or blocked that a program expects to end or wake it."""
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    with open("/proc/self/status") as f:
        masks = {l.split(":")[0]: int(l.split()[1], 16) for l in f if l.startswith("Sig")and "/" not in l}
    assert masks["SigBlk"] == 0, masks
    # Python itself ignores SIGPIPE (13) and SIGXFSZ (25).
    assert masks["SigIgn"] & ~(1 << 12 | 1 << 24) == 0, hex(masks["SigIgn"])


@check
def descriptors_of_all_kinds():
    a, b = socket.socketpair()
    a.sendall(b"x")
    assert b.recv(1) == b"x"
    e = select.epoll()
    e.register(b, select.EPOLLIN)
    a.sendall(b"y")
    assert e.poll(1)
    libc.eventfd.restype = ctypes.c_int
    fd = libc.eventfd(1, 0)
    assert fd >= 0 and os.read(fd, 8)
    fd = libc.timerfd_create(1, 0)
    assert fd >= 0
    assert libc.timerfd_settime(fd, 0, struct.pack("qqqq", 0, 0, 0, 1000000), None) == 0
    assert os.read(fd, 8)
    fd = libc.inotify_init()
    assert fd >= 0 and libc.inotify_add_watch(fd, b".", 0x100) > 0
    open("watched", "w").close()
    assert b"watched" in os.read(fd, 4096)
    fd = libc.signalfd(-1, ctypes.create_string_buffer(128), 0)
    assert fd >= 0, ctypes.get_errno()
    fd = os.memfd_create("x")
    os.write(fd, b"x")
    os.pipe2(os.O_CLOEXEC)
    os.set_blocking(a.fileno(), False)
    s = socket.socket(socket.AF_UNIX)
    s.bind(TMP + "/s")
    s.listen()
    c = socket.socket(socket.AF_UNIX)
    c.connect(TMP + "/s")
    peer, _ = s.accept()
    socket.send_fds(c, [b"x"], [0])
    assert len(socket.recv_fds(peer, 1, 1)[1]) == 1
    abstract = socket.socket(socket.AF_UNIX)
    abstract.bind("\0mine")
    abstract.listen()
    socket.socket(socket.AF_UNIX).connect("\0mine")


@check
def memory_maps():
    m = mmap.mmap(-1, 1 << 20)
    m[:5] = b"hello"
    m.madvise(mmap.MADV_DONTNEED) if hasattr(m, "madvise") else None
    # Just-in-time compilers need this.
    x = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    assert libc.mprotect(ctypes.c_void_p(ctypes.addressof(ctypes.c_char.from_buffer(x))), 4096, 5) == 0
    faulthandler.enable()
    faulthandler.dump_traceback()


@check
def system_facts():
    assert os.cpu_count() >= 1
    assert len(os.sched_getaffinity(0)) >= 1
    assert os.getloadavg()
    assert os.sysconf("SC_PAGE_SIZE") == 4096 or os.sysconf("SC_PAGE_SIZE") == 65536 or os.sysconf("SC_PAGE_SIZE") == 16384
    assert open("/proc/meminfo").read() and open("/proc/cpuinfo").read() and open("/proc/self/maps").read()
    assert open("/proc/uptime").read() and open("/proc/stat").read()
    import platform, resource, uuid
    platform.platform()
    resource.getrusage(resource.RUSAGE_CHILDREN)
    uuid.uuid1()
    os.getrandom(8)
    os.nice(1)
    os.getpgid(0)
    time.clock_gettime(time.CLOCK_MONOTONIC_RAW)
    assert abs(time.time() - os.stat(tempfile.mkstemp()[1]).st_mtime) < 60
    assert time.monotonic() > 0


@check
def time_zones():
    import datetime
    import zoneinfo
    datetime.datetime(2024, 7, 1, tzinfo=zoneinfo.ZoneInfo("Europe/Berlin")).utcoffset()
    os.environ["TZ"] = "UTC"
    time.tzset()
    assert time.tzname[0] == "UTC"


@check
def certificates():
    import ssl
    context = ssl.create_default_context()
    assert context.get_ca_certs(), ssl.get_default_verify_paths()


@check
def locales():
    import locale
    locale.setlocale(locale.LC_ALL, "")
    assert locale.strxfrm("ü")


@check
def http_inside():
    import http.server
    import urllib.request
    s = http.server.ThreadingHTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler)
    threading.Thread(target=s.serve_forever, daemon=True).start()
    assert b"works.py" in urllib.request.urlopen("http://127.0.0.1:%d/" % s.server_port).read()


@check
def no_network_is_said_at_once():
    if "interfaces" in sys.argv:  # the network drops packets silently
        return
    for f in (lambda: socket.create_connection(("example.com", 80), timeout=60), lambda: socket.create_connection(("93.184.216.34", 80), timeout=60)):
        try:
            f()
            raise AssertionError("there is a network")
        except OSError as e:
            assert not isinstance(e, socket.timeout), "waited for nothing"


@check
def system_v():
    assert libc.shmget(0, 4096, 0o1600) >= 0
    # A sandbox without a cgroup may refuse these: they hold memory that belongs to no process.
    assert libc.semget(0, 1, 0o1600) >= 0 or ctypes.get_errno() == errno.EPERM
    assert libc.msgget(0, 0o1600) >= 0 or ctypes.get_errno() == errno.EPERM


@check
def keeps_away_from_the_limits():
    """A program may lower its own priority."""
    import resource
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert soft >= 1024, soft
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
    resource.setrlimit(resource.RLIMIT_STACK, resource.getrlimit(resource.RLIMIT_STACK))
    sys.setrecursionlimit(20000)


@check
def venv():
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", TMP + "/venv"], check=True, capture_output=True)
    out = subprocess.run([TMP + "/venv/bin/python", "-c", "import sys; print(sys.prefix)"], capture_output=True, text=True).stdout
    assert out == TMP + "/venv\n", out


@check
def compilers():
    import shutil
    if not shutil.which("cc"):
        raise Missing("cc")
    with open("x.c", "w") as f:
        f.write('#include <stdio.h>\nint main(void) { puts("hello"); return 0; }\n')
    subprocess.run(["cc", "-o", "x", "x.c"], check=True)
    assert subprocess.run(["./x"], capture_output=True).stdout == b"hello\n"


@check
def git():
    import shutil
    if not shutil.which("git"):
        raise Missing("git")
    run = lambda *a: subprocess.run(("git", "-c", "user.name=x", "-c", "user.email=x@x") + a, check=True, capture_output=True, cwd=TMP + "/repo")
    os.mkdir(TMP + "/repo")
    run("init")
    open(TMP + "/repo/a", "w").close()
    run("add", "a")
    run("commit", "-m", "x")
    assert b"x" in run("log").stdout


@check
def numpy():
    try:
        np = importlib.import_module("numpy")
    except ImportError:
        raise Missing("numpy")
    a = np.random.default_rng(1).random((200, 200))
    assert np.allclose(np.linalg.inv(np.linalg.inv(a)), a)
    np.save("a.npy", a)
    assert (np.load("a.npy", mmap_mode="r") == a).all()


def run(f):
    r, w = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(r)
        signal.alarm(40)
        state, detail = "ok", ""
        try:
            f()
        except Missing as e:
            state, detail = "missing", str(e)
        except BaseException as e:
            import traceback
            state, detail = "failed", traceback.format_exc()[-1500:]
        os.write(w, json.dumps({"state": state, "detail": detail}).encode())
        os._exit(0)
    os.close(w)
    ready, _, _ = select.select([r], [], [], 45)
    text = os.read(r, 1 << 16) if ready else b""
    os.close(r)
    if not ready:
        os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    return json.loads(text) if text else {"state": "failed", "detail": "ended with status %d, no word" % status}


if __name__ == "__main__":
    for name, f in checks:
        result = run(f)
        result["name"] = name
        print("CHECK " + json.dumps(result), flush=True)
    print("ALL DONE", flush=True)
