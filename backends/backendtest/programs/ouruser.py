"""Operations of a user on all of its files and objects, without a permission to open them.

TARGET: closed, a host file that is not visible; shown, one in a visible, read-only directory; pid, a
process of the user; shm, sem and msg, ids of System V objects; mq, the name of a message queue.
"""
import ctypes
import errno
import fcntl
import os
import struct

from attack import TARGET, add, attack, main, syscall

CLOSED, SHOWN = TARGET["closed"], TARGET["shown"]
libc = ctypes.CDLL(None, use_errno=True)


def call(name, *args):
    """A call of libc."""
    if getattr(libc, name)(*args) < 0:
        raise OSError(ctypes.get_errno(), name)
    return "%s worked" % name


def _done(f):
    def attack():
        f()
        return "it was done"
    return attack


def link():
    if not os.path.islink("link"):
        os.symlink(CLOSED, "link")
    return "link"


def descriptor(path, flags=os.O_RDONLY):
    return os.open(path, flags)


for name, path in (("closed", CLOSED), ("shown", SHOWN)):
    directory, base = os.path.split(path)
    add("chmod_" + name, _done(lambda path=path: os.chmod(path, 0o600)))
    add("chmod_setuid_" + name, _done(lambda path=path: os.chmod(path, 0o4755)))
    add("chmod_at_" + name, _done(lambda directory=directory, base=base: os.chmod(base, 0o600, dir_fd=os.open(directory, os.O_PATH))))
    add("chmod_descriptor_%s" % name, _done(lambda path=path: os.chmod("/proc/self/fd/%d" % os.open(path, os.O_PATH), 0o600)))
    add("chmod_directory_" + name, _done(lambda directory=directory: os.chmod(directory, 0o700)))
    add("chmod_dots_" + name, _done(lambda path=path: os.chmod("../" * 30 + path[1:], 0o600)))
    add("utime_" + name, _done(lambda path=path: os.utime(path, (1, 1))))
    add("utime_now_" + name, _done(lambda path=path: os.utime(path)))
    add("utime_old_" + name, _done(lambda path=path: call("utimes", path.encode(), None)))
    add("chown_" + name, _done(lambda path=path: os.chown(path, -1, os.getgid())))
    add("lchown_" + name, _done(lambda path=path: os.lchown(path, os.getuid(), -1)))
    add("setxattr_" + name, _done(lambda path=path: os.setxattr(path, "user.canary", b"x")))
    add("getxattr_" + name, _done(lambda path=path: os.listxattr(path)))
    add("removexattr_" + name, _done(lambda path=path: (os.setxattr(path, "user.r", b"x"), os.removexattr(path, "user.r"))))
    add("inotify_" + name, _done(lambda directory=directory: call("inotify_add_watch", libc.inotify_init(), directory.encode(), 0xfff)))

add("chmod_link", _done(lambda: os.chmod(link(), 0o600)))
add("utime_link", _done(lambda: os.utime(link(), (1, 1))))
add("chmod_hard_link", _done(lambda: (os.link(SHOWN, "hard"), os.chmod("hard", 0o600))))
add("fchmod", _done(lambda: os.fchmod(descriptor(SHOWN), 0o600)))
add("fchmod_directory", _done(lambda: os.fchmod(descriptor(os.path.dirname(SHOWN)), 0o700)))
add("futimens", _done(lambda: os.utime(descriptor(SHOWN), (1, 1))))
add("fchown", _done(lambda: os.fchown(descriptor(SHOWN), -1, os.getgid())))
add("fsetxattr", _done(lambda: os.setxattr(descriptor(SHOWN), "user.canary", b"x")))


@attack
def set_flags():
    """chattr +d, which needs no write permission."""
    fd, flags = descriptor(SHOWN), ctypes.c_int()
    try:
        fcntl.ioctl(fd, 0x80086601, flags)
    except OSError as e:
        raise OSError(errno.EOPNOTSUPP, str(e))  # a file system without it
    flags.value ^= 0x40
    fcntl.ioctl(fd, 0x40086602, flags)
    return "flags are %#x" % flags.value


@attack
def setuid_of_our_own():
    """It would stay on the host until the sandbox is removed, and run as the user."""
    open("own", "w").close()
    os.chmod("own", 0o4755)
    return "mode %o" % os.stat("own").st_mode


add("shm_attach", _done(lambda: syscall("shmat", TARGET["shm"], 0, 0o10000)))
add("shm_stat", _done(lambda: syscall("shmctl", TARGET["shm"], 2, ctypes.create_string_buffer(256))))
add("sem_set", _done(lambda: call("semctl", TARGET["sem"], 0, 16, 1)))
add("sem_stat", _done(lambda: call("semctl", TARGET["sem"], 0, 2, ctypes.create_string_buffer(256))))
add("sem_operate", _done(lambda: call("semop", TARGET["sem"], ctypes.c_char_p(struct.pack("HhH", 0, 1, 0)), 1)))
add("msg_send", _done(lambda: call("msgsnd", TARGET["msg"], ctypes.c_char_p(struct.pack("lB", 1, 1)), 1, 0o4000)))
add("msg_receive", _done(lambda: call("msgrcv", TARGET["msg"], ctypes.create_string_buffer(64), 8, 0, 0o4000)))
add("msg_stat", _done(lambda: call("msgctl", TARGET["msg"], 2, ctypes.create_string_buffer(256))))
add("mq_open", _done(lambda: syscall("mq_open", TARGET["mq"].encode(), os.O_RDONLY, 0, None)))
add("mq_unlink", _done(lambda: syscall(241 if os.uname().machine == "x86_64" else 181, TARGET["mq"].encode())))
add("sched_setaffinity", _done(lambda: os.sched_setaffinity(TARGET["pid"], os.sched_getaffinity(TARGET["pid"]))))

if __name__ == "__main__":
    main()
