"""The kernel's surface: calls that a contained program has no business with."""
import ctypes
import errno
import fcntl
import glob
import mmap
import os
import resource
import signal
import stat
import struct
import subprocess
import sys
import time

from attack import DESCRIPTORS, JAIL, X86, add, attack, main, syscall

CLONE = {"time": 0x80, "mnt": 0x20000, "cgroup": 0x2000000, "uts": 0x4000000, "ipc": 0x8000000,
         "user": 0x10000000, "pid": 0x20000000, "net": 0x40000000}


# --- namespaces and mounts

def _reaches(name, *args):
    """A call that is let through, but has nothing to work on here, says EINVAL."""
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
    if name != "time":  # that bit is the exit signal's in clone
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
    """A filter can't see what clone3 is asked for; and libc falls back only on ENOSYS."""
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


# --- calls with a history

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
        if e.errno in (126, 127, 128, 129):  # ENOKEY and its kin: the kernel searched
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
    """Shocker: an inode by number, from any folder of the same file system."""
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
    # Nothing is written: zero segments. A call that is let in says 0.
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
        # A terminal of our own, as the controlling one: what is inserted would reach whoever
        # reads next, outside too if the terminal were the user's.
        primary, secondary = os.openpty()
        pid = os.fork()
        if pid == 0:  # only a process that leads no group can start a session
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


# Bare, dev.tty.legacy_tiocsti=0 refuses it to those without CAP_SYS_ADMIN.
add("tiocsti", _tiocsti(0x5412), root=True)
# The kernel drops the high half of the command; a filter that compares 64 bits misses it
# (CVE-2019-10063).
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


# --- other doors to system calls

def _code(hexa, argument):
    page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(bytes.fromhex(hexa))
    address = ctypes.addressof(ctypes.c_char.from_buffer(page))
    return ctypes.CFUNCTYPE(ctypes.c_long, ctypes.c_long)(address)(argument)


if X86:
    @attack
    def int80_getpid():
        # mov eax, edi; int 0x80; ret: system call 20 of i386 is getpid
        r = _code("89f8cd80c3", 20)
        r = ctypes.c_int(r).value
        if r == -errno.ENOSYS:
            raise OSError(errno.ENOSYS, "no 32-bit calls in this kernel")
        return "int 0x80 said %d" % r if r > 0 else None

    @attack
    def int80_unshare():
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
        """A 32-bit program is another architecture's door."""
        code = bytes.fromhex("b801000000bb2a000000cd80")  # _exit(42)
        head = struct.pack("<16sHHIIIIIHHHHHH", b"\x7fELF\1\1\1", 2, 3, 1, 0x8048054, 52, 0, 0, 52, 32, 1, 0, 0, 0)
        load = struct.pack("<8I", 1, 0, 0x8048000, 0x8048000, 84 + len(code), 84 + len(code), 5, 4096)
        with open("elf32", "wb") as f:
            f.write(head + load + code)
        os.chmod("elf32", 0o755)
        status = subprocess.call(["./elf32"])
        return "a 32-bit program ran" if status == 42 else None


@attack(root=True)
def unknown_call():
    """Numbers that no kernel has must fail, not reach a kernel that is newer than the filter."""
    try:
        syscall(1000)
    except OSError as e:
        if e.errno in (errno.ENOSYS, errno.EPERM):
            raise
        return "system call 1000: %s" % e
    return "system call 1000 worked"


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


# --- /proc and /sys

@attack(root=True)
def writable_proc_sys():
    """Root that is only mapped owns /proc/sys, and core_pattern runs programs as real root."""
    found = []
    for top, _, files in os.walk("/proc/sys"):
        for name in files:
            path = os.path.join(top, name)
            try:
                os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))
                found.append(path)
            except OSError:
                pass
    return "%d can be written, as %s" % (len(found), found[:3]) if found else None


def _opens(path, flags):
    def f():
        fd = os.open(path, flags | os.O_NONBLOCK)
        return "opened %s as descriptor %d" % (path, fd)
    return f


for path in ("/proc/sys/kernel/core_pattern", "/proc/sys/kernel/modprobe", "/proc/sysrq-trigger",
             "/proc/sys/vm/panic_on_oom", "/proc/sys/kernel/ns_last_pid", "/proc/1/oom_score_adj",
             "/proc/1/mem", "/proc/1/comm", "/proc/1/clear_refs", "/proc/1/uid_map", "/sys/kernel/uevent_helper",
             "/sys/fs/cgroup/release_agent", "/sys/fs/cgroup/cgroup.procs", "/proc/irq/0/smp_affinity"):
    add("write_" + path[1:].replace("/", "_"), _opens(path, os.O_WRONLY), root=True)
for path in ("/proc/kcore", "/proc/kmsg", "/proc/1/mem", "/proc/1/environ", "/proc/1/maps", "/proc/1/auxv",
             "/dev/mem", "/dev/kmem", "/dev/kmsg", "/dev/port", "/dev/kvm", "/dev/fuse", "/dev/loop-control",
             "/dev/loop0", "/dev/vda", "/dev/sda", "/dev/net/tun", "/dev/vhost-vsock", "/dev/vsock", "/dev/input/event0",
             "/dev/tty1", "/dev/console", "/dev/snapshot", "/dev/autofs", "/dev/userfaultfd", "/sys/kernel/debug",
             "/sys/kernel/security", "/sys/firmware/efi", "/proc/vmallocinfo", "/proc/slabinfo", "/proc/pagetypeinfo"):
    add("read_" + path[1:].replace("/", "_"), _opens(path, os.O_RDONLY), root=True)


@attack(root=True)
def kernel_addresses():
    with open("/proc/kallsyms") as f:
        address = f.readline().split()[0]
    return "kallsyms shows " + address if int(address, 16) else None


@attack(bare=False)
def raise_oom_score_of_others():
    with open("/proc/self/oom_score_adj", "r+") as f:
        now = int(f.read())
    with open("/proc/self/oom_score_adj", "w") as f:
        f.write(str(now - 1 if now > -1000 else now))
    return "lowered oom_score_adj below %d" % now


def _exe(path):
    """CVE-2019-5736: the program that started us, opened for writing through /proc. ETXTBSY says
    that nothing but its running stands in the way."""
    def f():
        try:
            handle = os.open(path, os.O_PATH)
            os.open("/proc/self/fd/%d" % handle, os.O_WRONLY)
        except OSError as e:
            if e.errno == errno.ETXTBSY:
                return "%s could be written once it does not run: %s" % (path, os.readlink(path))
            raise
        return "%s is writable: %s" % (path, os.readlink(path))
    return f


add("overwrite_own_exe", _exe("/proc/self/exe"), root=True)
add("overwrite_parent_exe", _exe("/proc/%d/exe" % os.getppid()), root=True)
add("overwrite_init_exe", _exe("/proc/1/exe"), root=True, bare=False)


# --- privileges

def status(key, pid="self"):
    with open("/proc/%s/status" % pid) as f:
        for line in f:
            if line.startswith(key + ":"):
                return line.split(":")[1].strip()


@attack(root=True)
def capabilities():
    sets = {k: status(k) for k in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")}
    return str(sets) if any(int(v, 16) for v in sets.values()) else None


@attack
def new_privileges_possible():
    return "NoNewPrivs is not set" if status("NoNewPrivs") != "1" else None


@attack
def no_filter():
    return "Seccomp: %s" % status("Seccomp") if status("Seccomp") != "2" else None


@attack
def threads_without_filter():
    """Each thread has a filter of its own: all of them, not the first alone."""
    import threading
    threading.Thread(target=time.sleep, args=(5,), daemon=True).start()
    for task in os.listdir("/proc/self/task"):
        if status("Seccomp", "self/task/" + task) != "2" or status("NoNewPrivs", "self/task/" + task) != "1":
            return "thread %s has no filter" % task


@attack(root=True)
def become_root():
    os.setresuid(0, 0, 0)
    return "setresuid(0) worked in uid map %r" % open("/proc/self/uid_map").read()


@attack(jail=True, root=True)
def become_another_user():
    for uid in (1, 1000, 65534, 100000):
        if uid == os.getuid():
            continue
        try:
            os.setresuid(uid, uid, uid)
            return "is user %d now" % uid
        except OSError:
            pass


@attack(root=True)
def drop_or_add_groups():
    os.setgroups([0, 6, 42])
    return "groups are %s" % os.getgroups()


@attack(bare=False)
def groups_of_the_host():
    extra = set(os.getgroups()) - {os.getgid(), 65534}
    return "is in groups %s" % sorted(extra) if extra else None


@attack(bare=os.getuid() != 0)
def setuid_programs():
    """A set-user-ID program is root's door; with no_new_privs it is an ordinary one."""
    tried = 0
    for path in glob.glob("/usr/bin/*") + glob.glob("/usr/lib/*/*") + glob.glob("/usr/sbin/*"):
        try:
            st = os.lstat(path)
        except OSError:
            continue
        if not (stat.S_ISREG(st.st_mode) and st.st_mode & stat.S_ISUID) or os.path.basename(path) not in ("su", "newgrp", "chsh", "chfn", "passwd", "sudo"):
            continue
        tried += 1
        p = subprocess.Popen([path], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(0.1)
        uids = (status("Uid", p.pid) or "").split()
        p.kill()
        p.wait()
        if len(uids) > 1 and uids[1] != str(os.geteuid()):
            return "%s ran as user %s" % (path, uids[1])


@attack(root=True)
def file_capabilities():
    with open("tool", "w") as f:
        f.write("x")
    os.setxattr("tool", "security.capability", struct.pack("<IIIII", 0x02000001, 0xffffffff, 0, 0xffffffff, 0))
    return "gave a file capabilities"


@attack(bare=False)
def own_setuid_root():
    with open("tool2", "w") as f:
        f.write("x")
    os.chown("tool2", 0, 0)
    os.chmod("tool2", 0o4755)
    st = os.stat("tool2")
    if st.st_uid == 0 and os.getuid() != 0 and st.st_mode & stat.S_ISUID:
        return "made a set-user-ID file of root's"


@attack(root=True)
def mknod_devices():
    made = []
    for name, kind, numbers in (("mem", stat.S_IFCHR, (1, 1)), ("null", stat.S_IFCHR, (1, 3)), ("kmsg", stat.S_IFCHR, (1, 11)),
                                ("fuse", stat.S_IFCHR, (10, 229)), ("disk", stat.S_IFBLK, (254, 0))):
        try:
            os.mknod("dev-" + name, kind | 0o666, os.makedev(*numbers))
            made.append(name)
        except OSError:
            pass
    return "made devices %s" % made if made else None


DEVICES = {"null", "zero", "full", "random", "urandom", "tty", "ptmx", "pts", "shm", "mqueue", "fd",
           "stdin", "stdout", "stderr", "core", "console"}


@attack
def devices():
    extra = set(os.listdir("/dev")) - DEVICES
    return "/dev holds %s" % sorted(extra)[:10] if extra else None


@attack
def device_nodes_anywhere():
    found = []
    for top in ("/", "/dev", "/dev/pts", "/tmp", "/workspace", "/run", "/var", "/etc", "/opt", "/mnt"):
        try:
            names = os.listdir(top)
        except OSError:
            continue
        for name in names:
            path = os.path.join(top, name)
            try:
                mode = os.lstat(path).st_mode
            except OSError:
                continue
            if stat.S_ISBLK(mode) or stat.S_ISCHR(mode) and top != "/dev" and not top.startswith("/dev/pts"):
                found.append(path)
    return "devices %s" % found if found else None


@attack(root=True)
def writable_system():
    """Files of the system that could be changed."""
    found = []
    for path in ("/", "/usr", "/usr/bin", "/usr/lib", "/usr/local/bin", "/etc", "/bin", "/lib", "/opt", "/root", "/proc", "/dev", "/var",
                 os.path.dirname(sys.executable), os.path.dirname(os.__file__)):
        name = os.path.join(path, "owned-%d" % os.getpid())
        try:
            fd = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        except OSError:
            continue
        os.close(fd)
        os.unlink(name)
        found.append(path)
    return "files can be made in %s" % found if found else None


@attack(root=True)
def writable_system_files():
    found = []
    for path in (os.path.realpath(sys.executable), os.__file__, "/etc/passwd", "/etc/ld.so.cache", "/etc/ld.so.preload",
                 "/usr/bin/env", "/etc/resolv.conf", "/etc/hosts"):
        try:
            os.close(os.open(path, os.O_WRONLY | os.O_APPEND))
            found.append(path)
        except OSError as e:
            if e.errno == errno.ETXTBSY:
                found.append(path)
    return "can write %s" % found if found else None


@attack(bare=False)
def inherited_descriptors():
    """Descriptors that were open before: a leaked one is a way out (CVE-2024-21626), and Landlock
    does not look at it."""
    extra = {fd: to for fd, to in DESCRIPTORS.items() if fd > 2}
    return "descriptors %s" % extra if extra else None


@attack(bare=False)
def standard_descriptors_are_files():
    """A regular file or folder of the host as standard stream can be opened again, for writing."""
    for fd in (0, 1, 2):
        mode = os.fstat(fd).st_mode
        to = os.readlink("/proc/self/fd/%d" % fd)
        if (stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISBLK(mode)):
            return "descriptor %d is %s" % (fd, to)
        if to.startswith("/dev/") and to != "/dev/null":
            return "descriptor %d is %s" % (fd, to)


@attack(bare=False)
def folder_of_the_first_process():
    """runc's CVE-2024-21626: /proc/self/cwd that is outside of the root."""
    for path in ("/proc/self/cwd", "/proc/1/cwd"):
        try:
            to = os.readlink(path)
        except OSError:
            continue
        if "unreachable" in to:
            return "%s leads to %s" % (path, to)
    for name in ("../../../../../../../../etc/shadow", "/proc/self/cwd/../../../../../../etc/shadow"):
        if os.path.exists(name):
            return "reaches " + name


@attack
def core_dump():
    soft, hard = resource.getrlimit(resource.RLIMIT_CORE)
    return "RLIMIT_CORE is %s" % ((soft, hard),) if hard != 0 else None


if __name__ == "__main__":
    main()
