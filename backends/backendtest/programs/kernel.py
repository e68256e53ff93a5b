"""The kernel's surface: calls that a contained program does not need."""
import ctypes
import errno
import fcntl
import mmap
import os
import resource
import signal
import socket
import struct
import subprocess
import time

from attack import BARE, JAIL, X86, add, attack, main, syscall


CLONE = {"time": 0x80, "mnt": 0x20000, "cgroup": 0x2000000, "uts": 0x4000000, "ipc": 0x8000000,
         "user": 0x10000000, "pid": 0x20000000, "net": 0x40000000}


# --- namespaces and mounts

def _reaches(name, *args):
    """A permitted call fails with EINVAL here, since it has no object to work on."""
    try:
        syscall(name, *args)
    except OSError as e:
        if e.errno != errno.EINVAL:
            raise
        return name + " looked at its arguments"
    return name + " worked"


def _unshare(flag):
    def f():
        syscall("unshare", flag)
        return "unshare(%#x) worked" % flag
    return f


def _clone(flag):
    def f():
        pid = syscall("clone", flag | signal.SIGCHLD, 0, 0, 0, 0)
        if pid == 0:
            os._exit(0)
        os.waitpid(pid, 0)
        return "clone(%#x) made process %d" % (flag, pid)
    return f


for name, flag in CLONE.items():
    add("unshare_" + name, _unshare(flag), root=name != "user")
    if name != "time":  # for clone that bit belongs to the exit signal
        add("clone_" + name, _clone(flag), root=name != "user")
add("unshare_user_and_all", _unshare(0x7e020000))
add("clone_high_bits", _clone(0x1_0000_0000 | CLONE["user"]))


@attack
def clone3_new_user():
    # struct clone_args: flags, pidfd, child_tid, parent_tid, exit_signal, ...
    args = struct.pack("11Q", CLONE["user"], 0, 0, 0, signal.SIGCHLD, 0, 0, 0, 0, 0, 0)
    pid = syscall("clone3", ctypes.c_char_p(args), len(args))
    if pid == 0:
        os._exit(0)
    return "clone3 made process %d" % pid


@attack
def clone3_is_not_enosys():
    """A filter can't read clone3's arguments; and libc falls back only on ENOSYS."""
    try:
        syscall("clone3", None, 0)
    except OSError as e:
        if e.errno == errno.ENOSYS:
            return None
        return "clone3: %s" % e
    return "clone3 worked"


def _setns(kind):
    def f():
        fd = os.open("/proc/1/ns/" + kind, os.O_RDONLY)
        return _reaches("setns", fd, 0)
    return f


def _setns_self(kind):
    def f():
        fd = os.open("/proc/self/ns/" + kind, os.O_RDONLY)
        syscall("setns", fd, 0)
        return "setns to the own %s namespace is let through" % kind
    return f


for kind in ("mnt", "net", "user", "pid", "ipc", "uts", "cgroup"):
    add("setns_init_" + kind, _setns(kind), jail=True)
add("setns_self_net", _setns_self("net"), root=True)


def _mount(source, kind, flags=0):
    def f():
        os.makedirs("m", exist_ok=True)
        return _reaches("mount", source, b"m", kind, flags, None)
    return f


for kind in (b"tmpfs", b"proc", b"sysfs", b"devpts", b"cgroup", b"cgroup2", b"debugfs", b"tracefs",
             b"securityfs", b"overlay", b"bpf", b"fuse", b"mqueue", b"binfmt_misc"):
    add("mount_" + kind.decode(), _mount(b"none", kind), jail=True, root=kind == b"cgroup")
add("mount_bind", _mount(b"/", None, 4096), jail=True)
add("mount_remount_rw", lambda: _remount(b"/proc"), jail=True)


def _remount(path):
    syscall("mount", b"none", path, None, 32 | 4096, None)  # MS_REMOUNT | MS_BIND
    return "remounted %s" % path


@attack(jail=True)
def umount_proc():
    syscall("umount2", b"/proc", 2)
    return "unmounted /proc"


@attack(jail=True)
def umount_root():
    return _reaches("umount2", b"/", 2)


@attack(jail=True)
def pivot_root():
    os.makedirs("new/old", exist_ok=True)
    return _reaches("pivot_root", b"new", b"new/old")


@attack(root=True)
def chroot():
    os.makedirs("jail", exist_ok=True)
    syscall("chroot", b"jail")
    return "chroot worked"


@attack(root=True)
def fsopen():
    return "fsopen gave descriptor %d" % syscall("fsopen", b"tmpfs", 0)


@attack(root=True)
def fspick():
    return "fspick gave descriptor %d" % syscall("fspick", -100, b"/", 0)


@attack(root=True)
def open_tree_clone():
    return "open_tree gave descriptor %d" % syscall("open_tree", -100, b"/", 1)


@attack(jail=True)
def move_mount():
    fd = os.open("/tmp", os.O_PATH)
    return _reaches("move_mount", fd, b"", -100, b"m", 4)


@attack(jail=True)
def mount_setattr():
    attr = struct.pack("4Q", 0, 1, 0, 0)  # clear MOUNT_ATTR_RDONLY
    return _reaches("mount_setattr", -100, b"/usr", 0, ctypes.c_char_p(attr), len(attr))


# --- calls with past vulnerabilities

@attack
def io_uring():
    params = ctypes.create_string_buffer(120)
    return "io_uring_setup gave descriptor %d" % syscall("io_uring_setup", 4, params)


@attack
def add_key():
    return "key %d" % syscall("add_key", b"user", b"canary", b"x", 1, -3)


@attack
def keyctl_join():
    return "session keyring %d" % syscall("keyctl", 1, None, 0, 0, 0)


@attack
def keyctl_read_user():
    return "user keyring %d" % syscall("keyctl", 0, -4, 1, 0, 0)


@attack
def request_key():
    try:
        syscall("request_key", b"user", b"canary", None, -3)
    except OSError as e:
        if e.errno in (126, 127, 128, 129):  # ENOKEY and related: the kernel searched
            return "request_key searched: %s" % e
        raise
    return "request_key found something"


@attack
def bpf_map():
    attr = struct.pack("4I", 2, 4, 8, 1) + bytes(112)  # BPF_MAP_TYPE_ARRAY
    return "bpf map %d" % syscall("bpf", 0, ctypes.c_char_p(attr), len(attr))


@attack
def bpf_program():
    code = struct.pack("<BBhiBBhi", 0xb7, 0, 0, 0, 0x95, 0, 0, 0)
    buf, lic = ctypes.create_string_buffer(code), ctypes.create_string_buffer(b"GPL")
    attr = struct.pack("<IIQQ", 1, 2, ctypes.addressof(buf), ctypes.addressof(lic)) + bytes(96)
    return "bpf program %d" % syscall("bpf", 5, ctypes.c_char_p(attr), len(attr))


@attack
def perf_event_open():
    attr = bytearray(128)
    struct.pack_into("<IIQ", attr, 0, 1, 128, 0)  # software, cpu clock
    attr[40] = 0x60  # exclude kernel and hypervisor
    return "perf descriptor %d" % syscall("perf_event_open", ctypes.c_char_p(bytes(attr)), 0, -1, -1, 0)


@attack
def userfaultfd():
    return "userfaultfd %d" % syscall("userfaultfd", 1)  # user mode only


@attack(root=True)
def open_by_handle_at():
    """Shocker: open an inode by number, from any directory of the same file system."""
    handle = ctypes.create_string_buffer(struct.pack("Ii", 8, 1) + struct.pack("II", 2, 0), 136)
    mount = os.open(".", os.O_RDONLY)
    try:
        fd = syscall("open_by_handle_at", mount, handle, 0)
    except OSError as e:
        if e.errno in (errno.ESTALE, errno.EINVAL):
            return "open_by_handle_at looked: %s" % e
        raise
    return "descriptor %d" % fd


@attack(root=True)
def fanotify():
    return "fanotify %d" % syscall("fanotify_init", 0, 0)


@attack
def ptrace_child():
    pid = os.fork()
    if pid == 0:
        time.sleep(10)
        os._exit(0)
    try:
        syscall("ptrace", 0x4206, pid, 0, 0)  # PTRACE_SEIZE
        return "traced process %d" % pid
    finally:
        os.kill(pid, signal.SIGKILL)


@attack
def ptrace_traceme():
    syscall("ptrace", 0, 0, 0, 0)
    return "PTRACE_TRACEME worked"


@attack
def process_vm_readv():
    secret = ctypes.create_string_buffer(b"secret")
    out = ctypes.create_string_buffer(6)
    local = struct.pack("QQ", ctypes.addressof(out), 6)
    remote = struct.pack("QQ", ctypes.addressof(secret), 6)
    syscall("process_vm_readv", os.getppid(), ctypes.c_char_p(local), 1, ctypes.c_char_p(remote), 1, 0)
    return "read the parent's memory"


@attack
def process_vm_writev():
    # Nothing is written: zero segments. A permitted call returns 0.
    syscall("process_vm_writev", os.getppid(), None, 0, None, 0, 0)
    return "process_vm_writev is let through"


@attack
def pidfd_getfd():
    fd = syscall("pidfd_open", os.getppid(), 0)
    return "took descriptor %d of the parent" % syscall("pidfd_getfd", fd, 1, 0)


@attack
def kcmp():
    return "kcmp said %d" % syscall("kcmp", os.getpid(), os.getppid(), 1, 0, 0)


# --- terminals

def _tiocsti(command):
    def f():
        # A terminal of our own, as the controlling one: inserted input would reach the next reader, also outside if
        # the terminal were the user's.
        primary, secondary = os.openpty()
        pid = os.fork()
        if pid == 0:  # only a process that does not lead a group can start a session
            try:
                os.setsid()
                fcntl.ioctl(secondary, 0x540E, 0)  # TIOCSCTTY
                syscall("ioctl", secondary, command, ctypes.c_char_p(b"x"))
            except OSError as e:
                os._exit(e.errno)
            os._exit(0)
        code = os.WEXITSTATUS(os.waitpid(pid, 0)[1])
        if code > 0:
            raise OSError(code, os.strerror(code))
        return "inserted a character" if code == 0 else None
    return f


# Without containment, dev.tty.legacy_tiocsti=0 refuses it without CAP_SYS_ADMIN.
add("tiocsti", _tiocsti(0x5412), root=True)
# The kernel ignores the high half of the command; a filter that compares 64 bits misses it (CVE-2019-10063).
add("tiocsti_high_bits", _tiocsti(0x1_0000_5412), root=True)


@attack
def tioclinux():
    primary, secondary = os.openpty()
    try:
        syscall("ioctl", secondary, 0x541C, ctypes.c_char_p(b"\x06"))
    except OSError as e:
        if e.errno != errno.ENOTTY:
            raise
        return "TIOCLINUX reached the terminal's driver: %s" % e
    return "TIOCLINUX worked"


@attack
def line_discipline():
    primary, secondary = os.openpty()
    syscall("ioctl", secondary, 0x5423, ctypes.byref(ctypes.c_int(27)))  # TIOCSETD, N_NULL
    return "another line discipline is behind the terminal"


# --- other ways to make system calls

def _code(hexa, argument):
    page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(bytes.fromhex(hexa))
    address = ctypes.addressof(ctypes.c_char.from_buffer(page))
    return ctypes.CFUNCTYPE(ctypes.c_long, ctypes.c_long)(address)(argument)


def _runs_32_bit():
    """Fails on a kernel that runs no 32-bit code at all: int 0x80 is a segmentation fault there."""
    code = bytes.fromhex("b801000000bb2a000000cd80")  # _exit(42)
    head = struct.pack("<16sHHIIIIIHHHHHH", b"\x7fELF\1\1\1", 2, 3, 1, 0x8048054, 52, 0, 0, 52, 32, 1, 0, 0, 0)
    load = struct.pack("<8I", 1, 0, 0x8048000, 0x8048000, 84 + len(code), 84 + len(code), 5, 4096)
    with open("elf32", "wb") as f:
        f.write(head + load + code)
    os.chmod("elf32", 0o755)
    try:
        return subprocess.call(["./elf32"]) == 42
    except OSError as e:
        if e.errno == errno.ENOEXEC or os.statvfs(".").f_flag & os.ST_NOEXEC:
            raise OSError(errno.ENOSYS, "no 32-bit programs here")
        raise


if X86:
    @attack
    def int80_getpid():
        BARE and _runs_32_bit()
        # mov eax, edi; int 0x80; ret: system call 20 of i386 is getpid
        r = _code("89f8cd80c3", 20)
        r = ctypes.c_int(r).value
        if r == -errno.ENOSYS:
            raise OSError(errno.ENOSYS, "no 32-bit calls in this kernel")
        return "int 0x80 said %d" % r if r > 0 else None

    @attack
    def int80_unshare():
        BARE and _runs_32_bit()
        # push rbx; mov eax, 310; mov ebx, edi; int 0x80; pop rbx; ret
        r = ctypes.c_int(_code("53b83601000089fbcd805bc3", CLONE["user"])).value
        if r == -errno.ENOSYS:
            raise OSError(errno.ENOSYS, "no 32-bit calls in this kernel")
        return "unshare through int 0x80" if r == 0 else None

    @attack
    def x32_getpid():
        return "x32 getpid said %d" % syscall(0x40000000 | 39)

    @attack
    def x32_socket():
        return "x32 socket %d" % syscall(0x40000000 | 41, 40, 1, 0)

    @attack
    def elf32():
        """A 32-bit program makes system calls of another architecture."""
        return "a 32-bit program ran" if _runs_32_bit() else None


@attack(root=True)
def unknown_call():
    """Unknown call numbers must fail, and not reach a kernel that is newer than the filter."""
    try:
        syscall(1000)
    except OSError as e:
        if e.errno in (errno.ENOSYS, errno.EPERM):
            raise
        return "system call 1000: %s" % e
    return "system call 1000 worked"


# --- tables that all processes of the host share: one call each shows whether a flood would be permitted

# return 0, as a program of classic BPF
_PROGRAM = ctypes.create_string_buffer(struct.pack("HBBI", 6, 0, 0, 0))
_FPROG = struct.pack("HxxxxxxP", 1, ctypes.addressof(_PROGRAM))


def _socket_option(option, value):
    def f():
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as s:
            s.setsockopt(socket.SOL_SOCKET, option, value)
        return "setsockopt %d is let through" % option
    return f


def _reuseport_filter():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        s.setsockopt(socket.SOL_SOCKET, 51, _FPROG)
    return "a group of sockets has a filter"


add("socket_filter", _socket_option(26, _FPROG))
add("socket_filter_lock", _socket_option(44, struct.pack("i", 1)))
add("socket_ebpf", _socket_option(50, struct.pack("i", 0)), bare=False)
add("reuseport_filter", _reuseport_filter)


def _in_child(f):
    """A child performs the irreversible calls."""
    def attack():
        pid = os.fork()
        if pid == 0:
            try:
                os._exit(f() & 0xff)
            except OSError as e:
                os._exit(e.errno)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        if code:
            raise OSError(code, os.strerror(code))
        return "it is let through"
    return attack


_ALLOW = ctypes.create_string_buffer(struct.pack("HBBI", 6, 0, 0, 0x7fff0000))
_OWN = struct.pack("HxxxxxxP", 1, ctypes.addressof(_ALLOW))


def _nested(call):
    def f():
        ctypes.CDLL(None).prctl(38, 1, 0, 0, 0)  # PR_SET_NO_NEW_PRIVS
        call()
        return 0
    return f


add("nested_filter", _in_child(_nested(lambda: syscall(317 if X86 else 277, 1, 0, ctypes.c_char_p(_OWN)))))
add("nested_filter_by_prctl", _in_child(_nested(lambda: syscall(157 if X86 else 167, 22, 2, ctypes.c_char_p(_OWN)))))


def _larger(family, option):
    """Buffers keep their size, whatever a program requests: their contents are bounded for the whole host."""
    def f():
        with socket.socket(family, socket.SOCK_STREAM) as s:
            before = s.getsockopt(socket.SOL_SOCKET, option)
            s.setsockopt(socket.SOL_SOCKET, option, 1 << 20)
            after = s.getsockopt(socket.SOL_SOCKET, option)
        return "a buffer of %d bytes became one of %d" % (before, after) if after > before else None
    return f


for _family in socket.AF_UNIX, socket.AF_INET:
    add("send_buffer_" + _family.name, _larger(_family, socket.SO_SNDBUF))
    add("receive_buffer_" + _family.name, _larger(_family, socket.SO_RCVBUF))


def _setting(path, field, most):
    """A table of our own namespace is smaller than the kernel's default."""
    def f():
        with open("/proc/sys/" + path) as file:
            value = int(file.read().split()[field])
        return "%s is %d, more than %d" % (path, value, most) if value > most else None
    return f


add("tcp_receive_memory", _setting("net/ipv4/tcp_rmem", 2, 128 << 10))
add("tcp_send_memory", _setting("net/ipv4/tcp_wmem", 2, 128 << 10))


def _rlimit(name, most):
    def f():
        hard = resource.getrlimit(getattr(resource, "RLIMIT_" + name))[1]
        return "the limit %s is %d, more than %d" % (name, hard, most) if hard < 0 or hard > most else None
    return f


for _name, _most in {"NOFILE": 4096, "SIGPENDING": 1024, "MSGQUEUE": 819200, "MEMLOCK": 64 << 10, "RTPRIO": 0}.items():
    add("rlimit_" + _name, _rlimit(_name, _most), bare=False)


@attack
def aio_context():
    context = ctypes.c_ulong(0)
    syscall(206 if X86 else 0, 1, ctypes.byref(context))
    return "a context of asynchronous I/O"


# Errors of calls that were let through to their arguments, which are invalid on purpose.
REACHED = (errno.EINVAL, errno.EFAULT, errno.ENODEV, errno.ENOTTY, errno.ENOTCONN, errno.EOPNOTSUPP)


def _looked(what, call):
    def f():
        try:
            call()
        except OSError as e:
            if e.errno in REACHED:
                return "%s looked at its arguments: %s" % (what, e)
            raise
        return what + " worked"
    return f


def _built_in(f):
    """A feature that the kernel may lack fails with EINVAL then, as from the filter."""
    def attack():
        try:
            return f()
        except OSError as e:
            if BARE and e.errno == errno.EINVAL:
                raise OSError(errno.ENOSYS, "not in this kernel")
            raise
    return attack


# Pages of 2^63 bytes, which no machine has: so the call takes no page from the pool.
_HUGE = 63 << 26


def _map(flags, fd=-1):
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    if libc.mmap(None, ctypes.c_size_t(2 << 20), 3, flags, fd, ctypes.c_long(0)) == ctypes.c_void_p(-1).value:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


add("huge_pages", _looked("mmap", lambda: _map(0x40022 | _HUGE)))
add("huge_pages_shared", _looked("mmap", lambda: _map(0x40021 | _HUGE)))
# No page is taken before such a file is mapped. The filter returns EINVAL, like a kernel without huge pages.
add("huge_pages_of_memory_file", _built_in(lambda: "memfd_create gave %d" % os.memfd_create("x", 4)))
add("huge_pages_of_memory_file_by_size", _built_in(lambda: "memfd_create gave %d" % os.memfd_create("x", 4 | 21 << 26)))
add("huge_pages_of_system_v", _looked("shmget", lambda: syscall("shmget", 0, 2 << 20, 0o4600 | _HUGE)))
add("secret_memory", lambda: "memfd_secret gave descriptor %d" % syscall(447, 0))


def _option(family, kind, level, option, value=b""):
    def call():
        with socket.socket(family, kind) as s:
            s.setsockopt(level, option, value)
    return _looked("setsockopt %d, %d" % (level, option), call)


_IN = socket.AF_INET, socket.AF_INET6
add("tls_of_the_kernel", _option(_IN[0], socket.SOCK_STREAM, 6, 31))
add("congestion_control", _option(_IN[0], socket.SOCK_STREAM, 6, 13))
add("tcp_md5", _option(_IN[0], socket.SOCK_STREAM, 6, 14, bytes(8)))
add("tcp_md5_extended", _option(_IN[1], socket.SOCK_STREAM, 6, 32, bytes(8)))
add("ipsec_in_udp", _option(_IN[0], socket.SOCK_DGRAM, 17, 100, struct.pack("i", 2)))
add("zero_copy", _option(_IN[0], socket.SOCK_STREAM, 1, 60, struct.pack("i", 1)))
add("reserved_memory_of_sockets", _option(_IN[0], socket.SOCK_STREAM, 1, 73, struct.pack("i", 1 << 20)), bare=False)
add("group_of_ipv4", _option(_IN[0], socket.SOCK_DGRAM, 0, 35, socket.inet_aton("239.1.2.3") + bytes(4) + struct.pack("i", 1)))
add("group_of_ipv6", _option(_IN[1], socket.SOCK_DGRAM, 41, 20, socket.inet_pton(_IN[1], "ff02::1:2345") + struct.pack("i", 1)))
add("group_by_number", _option(_IN[0], socket.SOCK_DGRAM, 0, 42))
add("flow_label", _option(_IN[1], socket.SOCK_DGRAM, 41, 32))
add("another_family", _option(_IN[1], socket.SOCK_STREAM, 41, 1, struct.pack("i", 2)))


def _pair(family, kind, protocol):
    """socketpair of a family without pairs makes the sockets and then discards them."""
    return _looked("socketpair", lambda: socket.socketpair(family, kind, protocol))


add("pair_of_netlink", _pair(socket.AF_NETLINK, socket.SOCK_RAW, 16))
add("pair_of_vsock", _pair(40, socket.SOCK_STREAM, 0))
add("pair_of_alg", _pair(38, socket.SOCK_SEQPACKET, 0))
add("pair_of_the_internet", _pair(socket.AF_INET, socket.SOCK_STREAM, 0))


@attack
def lease():
    """A process that opens the file for writing waits until the lease is released."""
    with open("leased", "w"):
        pass
    fd = os.open("leased", os.O_RDONLY)
    fcntl.fcntl(fd, 1024, fcntl.F_RDLCK)
    return "a file is leased"


@attack
def watch_by_fcntl():
    fcntl.fcntl(os.open(".", os.O_RDONLY), 1026, 2)
    return "a directory is watched"


def _page():
    page = mmap.mmap(-1, 4096)
    return page, ctypes.addressof(ctypes.c_char.from_buffer(page))


def _merged_memory():
    page, at = _page()
    syscall(28 if X86 else 233, at, 4096, 12)
    return "pages are merged with those of others"


def _named_memory():
    page, at = _page()
    syscall(157 if X86 else 167, 0x53564d41, 0, at, 4096, ctypes.c_char_p(b"a name"))
    return "memory has a name"


def _core_scheduling():
    try:
        syscall(157 if X86 else 167, 62, 1, 0, 0, 0)
    except OSError as e:
        if e.errno != errno.ENODEV:
            raise
        return "the kernel looked for threads of a core"
    return "nobody else runs beside this"


add("merged_memory", _built_in(_merged_memory))
add("named_memory", _built_in(_named_memory))
add("core_scheduling", _built_in(_core_scheduling))

@attack
def key_of_a_file_system():
    try:
        syscall("ioctl", os.open("/usr", os.O_RDONLY), 0xc0506617, None)
    except OSError as e:
        # The filter of the profile landlock also returns ENOTTY.
        if e.errno in REACHED and (BARE or e.errno != errno.ENOTTY):
            return "ioctl looked at its arguments: %s" % e
        raise
    return "a file system has another key"


add("waiting_connections", _setting("net/ipv4/tcp_max_tw_buckets", 0, 8192))


# --- calls for administrators

def _call(name, *args):
    def f():
        return "%s said %s" % (name, syscall(name, *args))
    return f


add("init_module", _call("init_module", ctypes.c_char_p(bytes(64)), 64, b""), bare=False)
add("finit_module", _call("finit_module", 0, b"", 0), bare=False)
add("delete_module", _call("delete_module", b"no_such_module", 0), bare=False)
add("kexec_load", _call("kexec_load", 0, 0, None, 0), bare=False)
add("reboot", _call("reboot", 0xfee1dead, 672274793, 0, 0), bare=False)  # CAD_OFF
add("swapon", _call("swapon", b"/no/such/swap", 0), bare=False)
add("acct", _call("acct", None), bare=False)
add("sethostname", _call("sethostname", b"owned", 5), jail=True)
add("setdomainname", _call("setdomainname", b"owned", 5), jail=True)
add("settimeofday", _call("settimeofday", ctypes.c_char_p(struct.pack("qq", 1, 0)), None), bare=False)
add("dmesg", _call("syslog", 3, ctypes.create_string_buffer(4096), 4096), root=True)
add("vhangup", _call("vhangup"), bare=False)
add("quotactl", _call("quotactl", 0x800001 << 8, None, 0, None), bare=False)
if X86:
    add("iopl", _call("iopl", 3), root=True)
    add("ioperm", _call("ioperm", 0x80, 1, 1), root=True)


@attack(jail=True, root=True)
def raise_rlimits():
    up, said = [], None
    if JAIL:
        resource.setrlimit(resource.RLIMIT_NOFILE, (512, 512))
    for name in ("NPROC", "NOFILE", "CORE", "FSIZE", "DATA", "MEMLOCK", "MSGQUEUE"):
        which = getattr(resource, "RLIMIT_" + name)
        _, hard = resource.getrlimit(which)
        if hard == resource.RLIM_INFINITY:
            continue
        try:
            resource.setrlimit(which, (hard + 1, hard + 1))
            up.append(name)
        except (OSError, ValueError) as e:  # "not allowed to raise maximum limit"
            said = OSError(errno.EPERM, "Operation not permitted: %s" % e)
    if said and not up:
        raise said
    return "raised %s" % up if up else None


@attack(jail=True, root=True)
def realtime_priority():
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(50))
    return "realtime now"


@attack(jail=True, root=True)
def negative_nice():
    os.setpriority(os.PRIO_PROCESS, 0, -10)
    return "nice is now %d" % os.getpriority(os.PRIO_PROCESS, 0)


if __name__ == "__main__":
    main()
