"""Host files that the sandbox must not see.

TARGET: canaries, paths of files whose content and name is word; writable, host directories in which
everybody may write; sealed, files that only root can read.
"""
import ctypes
import errno
import glob
import os
import subprocess

from attack import BARE, TARGET, add, attack, main, syscall

WORD = TARGET["word"].encode()


def read(path):
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        return os.read(fd, 4096)
    finally:
        os.close(fd)


def _reads(path):
    def f():
        return "read it" if WORD in read(path) else None
    return f


for i, path in enumerate(TARGET["canaries"]):
    add("read_%d" % i, _reads(path))
    add("read_dots_%d" % i, _reads("../" * 30 + path[1:]))
    add("read_own_root_%d" % i, _reads("/proc/self/root" + path))
    add("read_init_root_%d" % i, _reads("/proc/1/root" + path), root=True)
    add("read_init_cwd_%d" % i, _reads("/proc/1/cwd/" + "../" * 30 + path[1:]), bare=False)
    add("stat_%d" % i, lambda path=path: "is there: %s" % (os.stat(path),))


@attack
def read_by_any_process():
    for root in glob.glob("/proc/[0-9]*/root") + glob.glob("/proc/[0-9]*/task/*/root"):
        for path in TARGET["canaries"]:
            try:
                if WORD in read(root + path):
                    return "through " + root
            except OSError:
                pass


@attack
def read_by_any_descriptor():
    """Directories that another process holds open."""
    for fd in glob.glob("/proc/[0-9]*/fd/*"):
        for path in TARGET["canaries"]:
            try:
                if WORD in read(os.path.join(fd, "../" * 30 + path[1:])):
                    return "through " + fd
            except OSError:
                pass
    if BARE:
        here = os.open(".", os.O_RDONLY)
        return _reads("/proc/self/fd/%d/%s%s" % (here, "../" * 30, TARGET["canaries"][0][1:]))()


@attack
def read_by_other_programs():
    """Not Python's open: a rule by program name or call would miss it."""
    for path in TARGET["canaries"]:
        for args in (["cat", path], ["sh", "-c", "read x < %s; echo $x" % path], ["/lib64/ld-linux-x86-64.so.2", "/bin/cat", path],
                     ["find", path, "-exec", "cat", "{}", ";"], ["tar", "cf", "-", path], ["dd", "if=" + path]):
            try:
                out = subprocess.run(args, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=5).stdout
            except (OSError, subprocess.TimeoutExpired):
                continue
            if WORD in out:
                return "%s read it" % args[0]


@attack
def read_by_link():
    for i, path in enumerate(TARGET["canaries"]):
        os.symlink(path, "link-%d" % i)
        try:
            if WORD in read("link-%d" % i):
                return "a symbolic link leads to it"
        except OSError:
            pass


@attack
def hard_link():
    for i, path in enumerate(TARGET["canaries"]):
        for name in ("hard-%d" % i, path + ".hard"):
            try:
                os.link(path, name)
            except OSError:
                continue
            os.unlink(name)
            return "linked " + path


@attack(bare=False)
def search_everywhere():
    """No directory contains a file with the canary's name."""
    for top, dirs, files in os.walk("/"):
        if top == "/":
            dirs[:] = [d for d in dirs if d not in ("proc", "usr")]
        if TARGET["word"] in files:
            return "found in " + top


@attack(bare=False)
def directories_of_the_host():
    """Directories without files that a program needs must be missing or empty."""
    found = {}
    for path in ("/root", "/home", "/boot", "/mnt", "/media", "/srv", "/lost+found", "/var/log", "/var/lib/docker", "/run/systemd",
                 "/run/user", "/sys/fs/cgroup", "/sys/class/net", "/sys/block", "/etc/ssh", "/etc/sudoers.d", "/var/spool", "/host",
                 "/var/run/secrets", "/run/secrets", "/snap"):
        try:
            names = os.listdir(path)
        except OSError:
            continue
        # The path of an interpreter may contain a home directory; it must have no other entries.
        if names and not all(_leads_to_mount(os.path.join(path, n)) for n in names):
            found[path] = names[:4]
    return str(found) if found else None


@attack(root=True)
def descriptors_of_the_first_process():
    """Their targets. Only their numbers may be visible where an ordinary user's PID 1 is a fork of a
    Python.
    """
    for fd in range(64):
        try:
            return "descriptor %d is %s" % (fd, os.readlink("/proc/1/fd/%d" % fd))
        except FileNotFoundError:
            pass


def _leads_to_mount(path):
    if not os.path.isdir(path):
        return False
    with open("/proc/self/mountinfo") as f:
        points = [line.split()[4] for line in f]
    return any(p == path or p.startswith(path + "/") for p in points)


for path in TARGET["sealed"]:
    add("read_sealed" + path.replace("/", "_"), lambda path=path: "read %d bytes" % len(read(path)) if read(path) else None, root=True)


@attack(bare=False)
def password_file_of_the_host():
    """/etc/passwd lists the sandbox's users, not the host's."""
    with open("/etc/passwd") as f:
        users = [l.split(":")[0] for l in f]
    return "%d users: %s" % (len(users), users[:20]) if len(users) > 4 else None


# --- writing

def _writes(directory):
    def f():
        path = os.path.join(directory, TARGET["word"] + "-written")
        with open(path, "w") as f:
            f.write("owned")
        if os.path.isdir("/proc/self") and not BARE:
            # A directory of the sandbox's own may have that name; the test checks the host's.
            return None
        return "wrote " + path
    return f


for i, directory in enumerate(TARGET["writable"]):
    add("write_host_directory_%d" % i, _writes(directory))
for i, path in enumerate(TARGET["canaries"]):
    add("overwrite_%d" % i, lambda path=path: "opened for writing: %d" % os.open(path, os.O_WRONLY))
    add("delete_%d" % i, lambda path=path: "deleted: %s" % os.unlink(path))
    add("rename_over_%d" % i, lambda path=path: _rename_over(path))


def _rename_over(path):
    os.stat(path)  # a sandbox's own file in a directory of that name is harmless
    with open("mine", "w") as f:
        f.write("owned")
    import shutil
    shutil.move("mine", path)
    with open(path) as f:
        return "replaced it" if f.read() == "owned" and TARGET["word"] not in os.listdir(".") else None


@attack(bare=False)
def devices_of_mounts():
    """The block device of a mount, opened by its number, contains all files."""
    for name in ("vda", "sda", "nvme0n1", "dm-0", "root", "loop0", "xvda"):
        try:
            return "read %d bytes" % len(read("/dev/" + name))
        except OSError:
            pass


@attack(bare=False)
def names_of_the_host_in_mountinfo():
    """mountinfo shows no more of the host's directory names than the requested mounts."""
    with open("/proc/self/mountinfo") as f:
        text = f.read()
    return "mountinfo names %s" % TARGET["word"] if TARGET["word"] in text else None


@attack(bare=False)
def mounts_that_may_be_written():
    """Permissions and Landlock deny programs the system's files anyway; this is the layer behind them."""
    ours = {"/workspace", "/tmp", "/var/tmp", "/run/disk/all"} | set(TARGET.get("mounted") or ())
    with open("/proc/self/mountinfo") as f:
        mounts = [line.split() for line in f]
    over = {(m[1], m[4]) for m in mounts}  # parent and path: mounts that completely cover their parent
    found = {m[4] for m in mounts if "ro" not in m[5].split(",") and (m[0], m[4]) not in over} - ours
    found = [path for path in sorted(found) if path.split("/")[1] not in ("dev", "proc", "sys")]
    return str(found) if found else None


if __name__ == "__main__":
    main()
