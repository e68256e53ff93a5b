"""The additions of a container engine: its image, its sockets, and the first process, which is ours.

TARGET: sockets, paths of the host's engines; listens, a socket with a listener on the host.
"""
import glob
import os
import resource
import signal
import socket
import stat
import subprocess
import time

from attack import BARE, TARGET, add, attack, main


def read(path):
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        return os.read(fd, 1 << 16)
    finally:
        os.close(fd)


# --- visible files and sockets of ours or of an engine

HOME = "/.sandboxmcp"


@attack(bare=False)
def write_to_what_is_ours():
    """The program that is the first process, and the files beside it."""
    for top, _, files in os.walk(HOME):
        for name in files + [".", "new"]:
            path = os.path.join(top, name)
            for f in (lambda: os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK | (os.O_CREAT if name == "new" else 0))),
                      lambda: os.truncate(path, 0), lambda: os.utime(path), lambda: os.rename(path, path + "-moved"), lambda: os.unlink(path),
                      lambda: os.chmod(path, 0o777)):
                try:
                    f()
                    return "changed " + path
                except OSError:
                    pass
    os.rename(HOME, "/moved")
    return "moved it away"


def _sockets():
    """The known sockets, those in /proc/net/unix, and all in the file system."""
    yield from [TARGET["listens"], HOME + "/conn/socket"] + TARGET["sockets"]
    with open("/proc/net/unix") as f:
        for line in f.read().splitlines()[1:]:
            fields = line.split(None, 7)
            if len(fields) == 8:
                yield fields[7].replace("@", "\0", 1) if fields[7].startswith("@") else fields[7]
    for top, dirs, files in os.walk("/"):
        if top == "/":
            dirs[:] = [d for d in dirs if d not in ("proc", "sys", "usr")]
        for name in files:
            path = os.path.join(top, name)
            try:
                if stat.S_ISSOCK(os.lstat(path).st_mode):
                    yield path
            except OSError:
                pass


@attack
def sockets():
    for path in _sockets():
        for kind in (socket.SOCK_STREAM, socket.SOCK_SEQPACKET, socket.SOCK_DGRAM):
            with socket.socket(socket.AF_UNIX, kind) as s:
                s.settimeout(2)
                try:
                    s.connect(path)
                    return "connected to %r" % path
                except (OSError, ValueError):
                    pass


@attack
def sockets_of_engines():
    there = [path for path in TARGET["sockets"] if os.path.lexists(path)]
    if not there and BARE:
        raise FileNotFoundError("No such file")
    return str(there) if there else None


@attack(bare=False)
def be_the_first_process_again():
    """The first process's program, run by another process, finds no server."""
    for args in ([HOME + "/init", "python"], [HOME + "/init", "python", "-"]):
        try:
            p = subprocess.Popen(args, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        except OSError:
            continue
        time.sleep(0.5)
        alive = p.poll() is None
        p.kill()
        p.wait()
        if alive:
            return "%s waits for orders" % args


# --- the first process has our user's ID: that must not suffice

def _reads(path):
    def f():
        text = read(path)
        return "read %d bytes: %r" % (len(text), text[:60]) if text else None
    return f


for _name in ("environ", "auxv", "maps", "smaps", "stack", "syscall", "io", "pagemap", "personality"):
    add("init_" + _name, _reads("/proc/1/" + _name), root=True)
for _name in ("fd", "fdinfo", "map_files"):
    add("init_" + _name, lambda path="/proc/1/" + _name: str(os.listdir(path)), root=True)
for _name in ("cwd", "root", "exe", "ns/mnt", "ns/net"):
    add("init_" + _name.replace("/", "_"), lambda path="/proc/1/" + _name: "leads to " + os.readlink(path), root=True)


@attack(root=True)
def init_memory():
    return "opened as descriptor %d" % os.open("/proc/1/mem", os.O_RDONLY)


@attack(root=True)
def init_environment_by_threads():
    for path in glob.glob("/proc/1/task/*/environ"):
        return "read %d bytes" % len(read(path))


@attack(root=True)
def init_descriptors_one_by_one():
    for fd in range(64):
        try:
            return "descriptor %d is %s" % (fd, os.readlink("/proc/1/fd/%d" % fd))
        except FileNotFoundError:
            pass


@attack(bare=False)
def init_written():
    for name in ("mem", "oom_score_adj", "oom_adj", "comm", "clear_refs", "coredump_filter", "sched", "autogroup", "attr/current", "cgroup", "uid_map", "setgroups"):
        try:
            fd = os.open("/proc/1/" + name, os.O_WRONLY)
        except OSError:
            continue
        try:
            os.write(fd, b"0")
        except OSError:
            continue
        return "wrote to /proc/1/" + name


@attack(bare=False)
def init_limits():
    """With a limit of zero files, the first process can't do its work."""
    was = resource.prlimit(1, resource.RLIMIT_NOFILE)
    resource.prlimit(1, resource.RLIMIT_NOFILE, (0, was[1]))
    return "changed the limits of the first process: %s" % (was,)


@attack(bare=False)
def init_priority():
    os.setpriority(os.PRIO_PROCESS, 1, 19)
    return "slowed down the first process"


@attack(bare=False)
def init_affinity():
    os.sched_setaffinity(1, {0})
    return "pinned the first process"


@attack(bare=False)
def init_signals():
    """Whatever they do, the first process continues; the test checks that."""
    for number in sorted(signal.valid_signals()):
        for _ in range(3):
            try:
                os.kill(1, number)
            except OSError:
                pass
        time.sleep(0.01)


# --- the image's settings

@attack(bare=False)
def programs_in_volumes():
    """The image's files in its declared volumes are not copied, and nothing can be written there."""
    for path in ("/image/volume", "/var/volume with space", HOME + "/conn"):
        if os.path.isdir(path) and os.listdir(path) not in ([], ["socket"]):
            return "%s has %s" % (path, os.listdir(path))
        if os.access(path, os.W_OK):
            return "can write to " + path


@attack(bare=False)
def other_places_to_write():
    """No mount is writable except for the workspace and the like."""
    ours = ("/workspace", "/tmp", "/var/tmp", "/dev", "/proc")
    with open("/proc/self/mountinfo") as f:
        points = [line.split()[4].encode().decode("unicode_escape") for line in f]
    for path in points + ["/", "/etc", "/usr", "/var", "/run", "/home", "/root", "/srv", "/opt", "/var/tmp"]:
        if path.startswith(ours) and path != "/dev":
            continue
        name = os.path.join(path, "written")
        try:
            with open(name, "w") as f:
                f.write("x")
            os.unlink(name)
            return "wrote to " + path
        except OSError:
            pass


@attack(bare=os.getuid() == 0)
def user_is_root():
    status = open("/proc/self/status").read()
    numbers = [n for line in status.splitlines() if line.startswith(("Uid:", "Gid:", "Groups:")) for n in line.split()[1:]]
    return "numbers %s" % numbers if "0" in numbers else None


@attack(bare=False)
def raise_hard_limits():
    """They are lowered permanently."""
    for kind in (resource.RLIMIT_NOFILE, resource.RLIMIT_NPROC, resource.RLIMIT_CORE, resource.RLIMIT_FSIZE, resource.RLIMIT_DATA, resource.RLIMIT_MEMLOCK,
                 resource.RLIMIT_CPU, resource.RLIMIT_MSGQUEUE, resource.RLIMIT_RTPRIO, resource.RLIMIT_NICE):
        soft, hard = resource.getrlimit(kind)
        if hard == resource.RLIM_INFINITY:
            continue
        try:
            resource.setrlimit(kind, (soft, hard + 1))
            return "raised limit %d above %d" % (kind, hard)
        except (OSError, ValueError):
            pass


@attack(bare=False)
def no_hard_limits():
    """The limits that are in force without a cgroup."""
    found = [name for name in ("RLIMIT_NOFILE", "RLIMIT_NPROC", "RLIMIT_CORE") if resource.getrlimit(getattr(resource, name))[1] == resource.RLIM_INFINITY]
    if resource.getrlimit(resource.RLIMIT_NOFILE)[1] > 1 << 20:
        found.append("1048576 files")
    return str(found) if found else None


if __name__ == "__main__":
    main()
