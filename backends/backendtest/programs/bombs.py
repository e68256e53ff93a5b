"""bombs.py KIND BOUND: takes more and more of a resource, up to BOUND, and reports how much it has.
KIND_and_stay then waits to be killed.
"""
import ctypes
import errno
import json
import mmap
import os
import socket
import struct
import sys
import threading
import time

kind, stay, bound = sys.argv[1].removesuffix("_and_stay"), sys.argv[1].endswith("_and_stay"), int(sys.argv[2])
STEP = 4 << 20
block = os.urandom(STEP)  # not zeroes, and no page twice
made = 0
keep = []


def say(error=""):
    os.write(1, (json.dumps({"made": made, "error": error}) + "\n").encode())


def take(n=STEP):
    global made
    made += n
    say()


def touch(memory):
    for i in range(0, len(memory), len(block)):
        memory[i:i + len(block)] = block[:len(memory) - i]


def anonymous():
    while made < bound:
        m = mmap.mmap(-1, STEP, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        touch(m)
        keep.append(m)
        take()


def children():
    """No single process has much, but all of them together do."""
    each = 24 << 20
    while made < bound:
        r, w = os.pipe()
        if os.fork() == 0:
            m = mmap.mmap(-1, each, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
            touch(m)
            os.write(w, b"x")
            time.sleep(1000)
        os.close(w)
        if os.read(r, 1) != b"x":
            raise MemoryError("a child died")
        os.close(r)
        take(each)


def huge_child_of_small():
    """The child is killed, and the parent exits normally: the limit was reached nevertheless."""
    pid = os.fork()
    if pid == 0:
        anonymous()
        os._exit(0)
    _, status = os.waitpid(pid, 0)
    sys.exit(3 if status else 0)


def shared():
    while made < bound:
        m = mmap.mmap(-1, STEP)
        touch(m)
        keep.append(m)
        take()


def leaderless():
    """The kernel reports no memory under the PID of a process whose first thread has ended."""
    threading.Thread(target=anonymous_and_end).start()
    ctypes.CDLL(None).syscall(60 if os.uname().machine == "x86_64" else 93, 0)  # exit of this thread only


def anonymous_and_end():
    anonymous()
    os._exit(0)


def memfd():
    while made < bound:
        fd = os.memfd_create("bomb")
        os.write(fd, block)
        keep.append(fd)
        take()


def memfd_in_flight():
    """A file that was sent over a socket and closed is in no process's descriptor table."""
    a, b = socket.socketpair()
    while made < bound:
        fd = os.memfd_create("bomb")
        os.write(fd, block)
        try:
            a.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack("i", fd))], socket.MSG_DONTWAIT)
        except BlockingIOError:
            keep.append((a, b))
            a, b = socket.socketpair()
            continue
        os.close(fd)
        take()


def socket_buffers():
    """The kernel's own memory: bytes waiting in sockets that nobody reads."""
    while True:
        while made < bound:
            try:
                a, b = socket.socketpair()
            except OSError as e:
                if e.errno != errno.EMFILE:
                    raise
                break
            keep.append((a, b))
            for s in a, b:
                s.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 << 20)
                n = 0
                try:
                    while True:
                        n += s.send(block[:1 << 16], socket.MSG_DONTWAIT)
                except BlockingIOError:
                    take(n)
        if made >= bound or os.fork():
            break
        # The child has the same sockets, and no room for more until it closes them; they live on in the parent.
        for pair in keep:
            for s in pair:
                s.close()
        keep.clear()
    time.sleep(60)


def tcp_buffers():
    """Bytes waiting in connections over the loopback."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=1)
    while made < bound:
        a = socket.socket()
        a.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
        a.connect(listener.getsockname())
        keep.append((a, listener.accept()[0]))
        n = 0
        try:
            while True:
                n += a.send(block[:1 << 16], socket.MSG_DONTWAIT)
        except BlockingIOError:
            take(n)
    time.sleep(60)


def udp_buffers():
    a = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    while made < bound:
        b = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        b.bind(("127.0.0.1", 0))
        keep.append(b)
        for _ in range(2):
            take(a.sendto(block[:60000], b.getsockname()))
    time.sleep(60)


def tcp_unaccepted():
    """Connections that nobody has accepted, and whose other ends are closed."""
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
    listener.bind(("127.0.0.1", 0))
    listener.listen(4096)
    while made < bound:
        a = socket.create_connection(listener.getsockname())
        n = 0
        try:
            while n < 4 << 20:
                n += a.send(block[:1 << 16], socket.MSG_DONTWAIT)
        except BlockingIOError:
            pass
        a.close()
        take(n)
    time.sleep(60)


def sysv():
    libc = ctypes.CDLL(None, use_errno=True)
    libc.shmat.restype = ctypes.c_void_p
    while made < bound:
        ident = libc.shmget(0, STEP, 0o1600)
        if ident < 0:
            raise OSError(ctypes.get_errno(), "shmget")
        address = libc.shmat(ident, None, 0)
        ctypes.memmove(address, block, STEP)
        libc.shmdt(ctypes.c_void_p(address))  # no process maps it any more, but it stays
        take()


def stack():
    """A thread's stack is ordinary memory."""
    threading.stack_size(64 << 20)

    def fill():
        buffer = ctypes.create_string_buffer(1)
        for _ in range(12):
            m = mmap.mmap(-1, STEP, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | mmap.MAP_GROWSDOWN
                          if hasattr(mmap, "MAP_GROWSDOWN") else mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
            touch(m)
            keep.append((m, buffer))
            take()

    while made < bound:
        t = threading.Thread(target=fill)
        t.start()
        t.join()


def threads_arenas():
    while made < bound:
        keep.append(bytearray(block))
        take()


def reserve():
    """Address space without access rights, as runtimes reserve it before its use."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
    while made < bound:
        if libc.mmap(None, 1 << 30, 0, 0x4022, -1, 0) == ctypes.c_void_p(-1).value:
            raise OSError(ctypes.get_errno(), "mmap")
        take(1 << 30)


def processes():
    while made < bound:
        if os.fork() == 0:
            time.sleep(1000)
        take(1)


def double_forks():
    """Orphans have no parent that counts them."""
    while made < bound:
        r, w = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                if os.fork() == 0:
                    os.setsid()
                    os.write(w, b"x")
                    time.sleep(1000)
            except OSError as e:
                os._exit(e.errno)
            os._exit(0)
        status = os.waitpid(pid, 0)[1]
        if os.WEXITSTATUS(status):
            raise OSError(os.WEXITSTATUS(status), "second fork")
        os.close(w)
        os.read(r, 1)
        os.close(r)
        take(1)


def threads():
    threading.stack_size(256 << 10)
    while made < bound:
        try:
            threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()
        except RuntimeError:
            raise OSError(errno.EAGAIN, "no more threads")
        take(1)


def storm():
    """made is the largest number of processes seen at once."""
    global made
    me = os.getpid()
    for _ in range(bound):
        for _ in range(2):
            try:
                os.fork()
            except OSError:
                pass
    if os.getpid() != me:
        time.sleep(1)
        os._exit(0)
    made = len([n for n in os.listdir("/proc") if n.isdigit()])
    say()


def descriptors():
    while made < bound:
        keep.append(os.dup(0))
        if made % 1000 == 0:
            say()
        globals()["made"] += 1


def connections():
    """Sockets without descriptors: unaccepted connections of clients that have ended."""
    servers = [socket.create_server(("127.0.0.1", 0), backlog=4096) for _ in range(4)]
    while made < bound:
        with socket.create_connection(servers[made % 4].getsockname()) as client:
            client.send(b"x")
        globals()["made"] += 1
    time.sleep(30)  # an observer is too late by now
    say()


def cpu():
    """Four busy processes for bound seconds."""
    end = time.time() + bound
    for _ in range(3):
        if os.fork() == 0:
            break
    while time.time() < end:
        pass


def fill(directories):
    files = [open(os.path.join(f, "bomb"), "wb", buffering=0) for f in directories]
    full = set()
    small = block[:1 << 18]
    while made < bound and len(full) < len(files):
        for f in files:
            if f in full:
                continue
            try:
                n = f.write(small)
            except OSError as e:
                if e.errno != errno.ENOSPC:
                    raise
                full.add(f)
                continue
            take(n)
    if full:
        raise OSError(errno.ENOSPC, "full")


def disk_anywhere():
    directories = []
    for top, dirs, _ in os.walk("/"):
        if top.count("/") > 4 or top in ("/proc", "/sys"):
            dirs[:] = []
            continue
        path = os.path.join(top, "probe")
        try:
            os.close(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_EXCL))
        except OSError:
            continue
        os.unlink(path)
        directories.append(top)
    sys.stderr.write("writable: %s\n" % directories)
    fill(directories)


def inodes():
    files = os.statvfs(".").f_files
    if 0 < files < bound:  # the kernel enforces it, and noticing that takes seconds
        return take(files)
    for i in range(bound):
        if i % 10000 == 0:
            os.mkdir(str(i))
            directory = os.open(str(i), os.O_RDONLY)
            say()
        os.close(os.open("f%d" % i, os.O_CREAT | os.O_WRONLY, dir_fd=directory))
        globals()["made"] += 1


def sparse():
    with open("sparse", "wb") as f:
        f.truncate(bound)
        take(bound)


kinds = {f.__name__: f for f in (anonymous, children, leaderless, huge_child_of_small, shared, memfd, memfd_in_flight, socket_buffers, tcp_buffers, udp_buffers, tcp_unaccepted, sysv, stack, threads_arenas, reserve,
                                 processes, double_forks, threads, storm, descriptors, connections, cpu, inodes, sparse, disk_anywhere)}
kinds["disk_workspace"] = lambda: fill(["."])
kinds["disk_tmp"] = lambda: fill(["/tmp"])
kinds["disk_shm"] = lambda: fill(["/dev/shm"])
kinds["disk_all"] = lambda: fill([".", "/tmp", "/dev/shm"])
try:
    kinds[kind]()
    say()
except OSError as e:
    say(errno.errorcode.get(e.errno, str(e.errno)))
    if kind in ("anonymous", "children", "shared", "memfd", "sysv", "stack"):
        raise
if stay:
    time.sleep(60)
os._exit(0)
