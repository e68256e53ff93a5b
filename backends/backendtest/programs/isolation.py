"""Other processes and shared objects: the host's must be invisible and unreachable.

TARGET: pid, a host process with word in its arguments and environment; shm, sem and msg, keys of its System
V objects; mq and posix, names of its message queue and file in /dev/shm; hostname, machine, boot.
"""
import ctypes
import errno
import glob
import os
import signal
import struct
import time

from attack import JAIL, TARGET, add, attack, main, syscall

PID = TARGET["pid"]
WORD = TARGET["word"]


def _reach(name, f):
    """An attack on the canary process. It should fail because its PID does not exist here."""
    add(name, f)


# SIGCONT does not harm the canary, and needs the same permission as SIGKILL.
_reach("kill", lambda: "kill: %s" % os.kill(PID, signal.SIGCONT))
_reach("kill_0", lambda: "kill: %s" % os.kill(PID, 0))
_reach("kill_group", lambda: "killpg: %s" % os.killpg(TARGET["group"], signal.SIGCONT))
_reach("tgkill", lambda: "tgkill: %s" % syscall("tgkill", PID, PID, int(signal.SIGCONT)))
_reach("pidfd_open", lambda: "pidfd %s" % syscall("pidfd_open", PID, 0))
_reach("getpgid", lambda: "group %s" % os.getpgid(PID))
_reach("getsid", lambda: "session %s" % os.getsid(PID))
_reach("sched_getaffinity", lambda: "cores %s" % os.sched_getaffinity(PID))
_reach("sched_setaffinity", lambda: "cores: %s" % os.sched_setaffinity(PID, os.sched_getaffinity(0)))
_reach("setpriority", lambda: "nice: %s" % os.setpriority(os.PRIO_PROCESS, PID, 0))
_reach("prlimit", lambda: "limits: %s" % (__import__("resource").prlimit(PID, 7),))
_reach("see_proc_entry", lambda: "/proc/%d: %s" % (PID, os.listdir("/proc/%d" % PID)[:3]))


@attack
def process_vm_readv():
    out = ctypes.create_string_buffer(64)
    local = struct.pack("QQ", ctypes.addressof(out), 64)
    for line in open("/proc/%d/maps" % PID):
        start = int(line.split("-")[0], 16)
        remote = struct.pack("QQ", start, 64)
        n = syscall("process_vm_readv", PID, ctypes.c_char_p(local), 1, ctypes.c_char_p(remote), 1, 0)
        return "read %d bytes of another process's memory" % n


@attack
def ptrace_seize():
    syscall("ptrace", 0x4206, PID, 0, 0)
    return "traced process %d" % PID


@attack
def sigqueue():
    info = struct.pack("iiiiii", int(signal.SIGCONT), 0, -1, 0, os.getpid(), os.getuid()) + bytes(104)
    syscall("rt_sigqueueinfo", PID, int(signal.SIGCONT), ctypes.c_char_p(info))
    return "queued a signal"


@attack
def search_processes():
    """The canary's word in any file of /proc about any process, including threads."""
    for path in glob.glob("/proc/[0-9]*/cmdline") + glob.glob("/proc/[0-9]*/environ") + glob.glob("/proc/[0-9]*/comm"):
        if path.startswith("/proc/%d/" % os.getpid()) or path.startswith("/proc/%d/" % os.getppid()):
            continue
        try:
            with open(path, "rb") as f:
                if WORD.encode() in f.read(1 << 16):
                    return "found in " + path
        except OSError:
            pass


@attack
def many_processes():
    pids = [int(n) for n in os.listdir("/proc") if n.isdigit()]
    return "%d processes" % len(pids) if len(pids) > 8 or max(pids) > 2000 else None


@attack(jail=True)
def kill_everything():
    """kill(-1) reaches all processes that the caller may signal. The test checks that the host's live on."""
    if os.readlink("/proc/self/ns/pid") == TARGET["ns"].get("pid"):
        return "same process namespace as the host: not tried"
    os.kill(-1, signal.SIGCONT)
    return "the jail has others" if JAIL else None


@attack
def environment():
    """No variable of our starter's environment is in ours or in process 1's."""
    for k, v in os.environ.items():
        if "canary-of-the-host" in k + v:
            return "%s=%s" % (k, v)


@attack
def environment_is_small():
    known = {"PATH", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "PWD", "OLDPWD", "SHLVL", "_", "TMPDIR", "USER", "LOGNAME", "TERM",
             "SHELL", "HOSTNAME", "container", "VIRTUAL_ENV", "TZ", "ASAN_OPTIONS", "LSAN_OPTIONS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE", "PYTHONIOENCODING",
             "PYTHONUTF8", "NPM_CONFIG_PREFIX", "npm_config_cache", "npm_config_update_notifier", "NO_COLOR", "MPLCONFIGDIR", "GOMAXPROCS", "GOMEMLIMIT",
             "DOTNET_PROCESSOR_COUNT", "DOTNET_GCHeapHardLimit", "R_MAX_VSIZE", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR", "NODE_PATH"}
    extra = {k: v for k, v in os.environ.items() if k not in known}
    return str(extra)[:400] if extra else None


def _ns(kind):
    def f():
        mine = os.readlink("/proc/self/ns/" + kind)
        return "the host's: " + mine if mine == TARGET["ns"].get(kind) else None
    return f


for kind in TARGET["ns"]:
    if kind in TARGET["promised"]:
        add("namespace_" + kind, _ns(kind))


@attack
def hostname():
    name = os.uname().nodename
    with open("/proc/sys/kernel/hostname") as f:
        other = f.read().strip()
    return name if TARGET["hostname"] in (name, other) else None


@attack
def machine_identity():
    found = []
    for path in ("/etc/machine-id", "/var/lib/dbus/machine-id", "/etc/hostname", "/sys/class/dmi/id/product_uuid"):
        try:
            with open(path) as f:
                text = f.read().strip()
        except OSError:
            continue
        if text and text in TARGET["identity"]:
            found.append(path)
    return str(found) if found else None


# --- System V and POSIX objects of the host

@attack
def sysv_shm():
    shmat = ctypes.CDLL(None).shmat
    shmat.restype = ctypes.c_void_p
    ident = syscall("shmget", TARGET["shm"], 0, 0)
    address = shmat(ctypes.c_int(ident), None, 0)
    if address in (None, ctypes.c_void_p(-1).value):
        return "segment %d is there" % ident
    return "segment holds %r" % ctypes.string_at(address, 16)


@attack
def sysv_shm_by_listing():
    with open("/proc/sysvipc/shm") as f:
        keys = [line.split()[0] for line in f.readlines()[1:]]
    return "segments %s" % keys[:5] if str(TARGET["shm"]) in keys else None


@attack
def sysv_semaphores():
    return "semaphore %d" % syscall("semget", TARGET["sem"], 0, 0)


@attack
def sysv_messages():
    return "queue %d" % syscall("msgget", TARGET["msg"], 0)


@attack
def posix_queue():
    return "queue %d" % syscall("mq_open", TARGET["mq"].encode(), os.O_RDONLY, 0, None)


@attack
def posix_shm():
    with open(TARGET["posix"], "rb") as f:
        return "read %r" % f.read(32)


# --- cgroups and clocks

@attack(bare=False)
def cgroup_paths():
    with open("/proc/self/cgroup") as f:
        lines = f.read().split()
    longer = [l for l in lines if not l.endswith(":/")]
    return "cgroups %s" % longer if longer and "cgroup" in TARGET["promised"] else None


@attack(bare=False)
def timerslack_of_init():
    fd = os.open("/proc/1/timerslack_ns", os.O_WRONLY)
    os.write(fd, b"1")
    return "changed the first process"


@attack(bare=False)
def kill_first_process():
    """Process 1 is the process that cleans up after us."""
    os.kill(1, signal.SIGKILL)
    time.sleep(0.2)
    os.kill(1, signal.SIGSTOP)
    os.kill(1, signal.SIGTERM)
    time.sleep(0.2)


if __name__ == "__main__":
    main()
