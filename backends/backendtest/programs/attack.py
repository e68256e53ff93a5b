"""Runs attacks, each in a process of its own, and reports each success. An attack returns a text, its
evidence, if it reached something forbidden; otherwise it returns None or raises.

TARGET describes its targets.
"""
import ctypes
import errno
import json
import os
import platform
import select
import signal
import sys

TARGET = json.loads(sys.argv[1]) if len(sys.argv) > 1 else {}
BARE = TARGET.get("bare", False)  # not contained: skip the attacks marked so
JAIL = TARGET.get("jail", False)  # root in our own namespaces: only the attacks marked so
X86 = platform.machine() == "x86_64"
# Descriptors that were open at the start, apart from that of the listing itself.
DESCRIPTORS = {}
for _name in os.listdir("/proc/self/fd"):
    try:
        DESCRIPTORS[int(_name)] = os.readlink("/proc/self/fd/" + _name)
    except OSError:
        pass
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
_attacks = []

# By name: the number on x86_64 and on aarch64 (-1: missing).
NUMBERS = {
    "acct": (163, 89), "add_key": (248, 217), "bpf": (321, 280), "chroot": (161, 51),
    "clock_adjtime": (305, 266), "clone": (56, 220), "clone3": (435, 435),
    "delete_module": (176, 106), "fanotify_init": (300, 262), "finit_module": (313, 273),
    "fsconfig": (431, 431), "fsopen": (430, 430), "fspick": (433, 433), "getpid": (39, 172),
    "init_module": (175, 105), "ioctl": (16, 29), "io_uring_setup": (425, 425),
    "ioperm": (173, -1), "iopl": (172, -1), "kcmp": (312, 272), "kexec_load": (246, 104),
    "kexec_file_load": (320, 294), "keyctl": (250, 219), "mknodat": (259, 33),
    "mount": (165, 40), "mount_setattr": (442, 442), "move_mount": (429, 429),
    "mq_open": (240, 180), "mq_receive": (243, 183), "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265), "open_tree": (428, 428), "perf_event_open": (298, 241),
    "pidfd_getfd": (438, 438), "pidfd_open": (434, 434), "pidfd_send_signal": (424, 424),
    "pivot_root": (155, 41), "process_madvise": (440, 440), "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271), "ptrace": (101, 117), "quotactl": (179, 60),
    "reboot": (169, 142), "request_key": (249, 218), "setdomainname": (171, 162),
    "sethostname": (170, 161), "setns": (308, 268), "settimeofday": (164, 170),
    "shmat": (30, 196), "shmctl": (31, 195), "shmget": (29, 194), "semget": (64, 190),
    "msgget": (68, 186), "socket": (41, 198), "swapon": (167, 224), "syslog": (103, 116),
    "tgkill": (234, 131), "umount2": (166, 39), "unshare": (272, 97), "userfaultfd": (323, 282),
    "vhangup": (153, 58), "rt_sigqueueinfo": (129, 138), "prlimit64": (302, 261),
    "sched_setaffinity": (203, 122), "setpriority": (141, 140), "getpgid": (121, 155),
    "getsid": (124, 156),
}


def syscall(name, *args):
    """Makes a system call without libc's wrappers, with 64-bit arguments; raises OSError."""
    number = NUMBERS[name][0 if X86 else 1] if isinstance(name, str) else name
    if number < 0:
        raise OSError(errno.ENOSYS, "not on this machine")
    args = [ctypes.c_long(a) if isinstance(a, int) else a for a in args]
    ctypes.set_errno(0)
    r = libc.syscall(ctypes.c_long(number), *args)
    if r == -1:
        e = ctypes.get_errno()
        raise OSError(e, os.strerror(e))
    return r


def attack(f=None, *, bare=True, jail=False, root=False):
    """Registers an attack. bare=False: never run it without containment. jail=True: run it in namespaces of
    its own, where it succeeds for their root. root=True: without containment, it succeeds for root only.
    """
    if f is None:
        return lambda f: attack(f, bare=bare, jail=jail, root=root)
    add(f.__name__, f, bare, jail, root)
    return f


def add(name, f, bare=True, jail=False, root=False):
    _attacks.append((name, f, bare and not jail, jail, root))


# Errors of a kernel that was built without the feature.
ABSENT = (errno.ENOSYS, errno.EAFNOSUPPORT, errno.EPROTONOSUPPORT, errno.ESOCKTNOSUPPORT,
          errno.ENODEV, errno.EOPNOTSUPP)


def _child(f, out):
    os.setpgid(0, 0)
    signal.alarm(120)  # some hang when refused; none is slow when it succeeds
    if JAIL:  # one attack's mounts must not affect the next
        libc.unshare(0x20000)
    result = {"state": "shut", "detail": "nothing came of it", "errno": 0}
    try:
        evidence = f()
        if evidence is not None:
            result = {"state": "open", "detail": str(evidence)[:500], "errno": 0}
    except OSError as e:
        e.errno = e.errno or 0
        state = "absent" if e.errno in ABSENT else "shut"
        result = {"state": state, "detail": str(e), "errno": e.errno}
    except Exception as e:
        result["detail"] = "%s: %s" % (type(e).__name__, e)
    os.write(out, json.dumps(result).encode())
    os._exit(0)


def _run(f):
    r, w = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(r)
        _child(f, w)
    os.close(w)
    # One read: a process left by the attack may hold the other end.
    ready, _, _ = select.select([r], [], [], 150)
    text = os.read(r, 65536) if ready else b""
    os.close(r)
    if not ready:
        os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    try:
        os.killpg(pid, signal.SIGKILL)
    except OSError:
        pass
    if os.WIFSIGNALED(status):
        return {"state": "shut", "detail": "killed by " + signal.Signals(os.WTERMSIG(status)).name, "errno": 0}
    if not text:
        return {"state": "shut", "detail": "ended with %d" % status, "errno": 0}
    return json.loads(text)


def main():
    for name, f, bare, jail, root in _attacks:
        if BARE and not bare or JAIL and not jail:
            result = {"state": "skip", "detail": "never without containment", "errno": 0}
        else:
            result = _run(f)
        result.update(name=name, root=root)
        print("ATTACK " + json.dumps(result), flush=True)
    print("ALL DONE", flush=True)
