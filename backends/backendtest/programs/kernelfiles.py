"""The kernel and the system as files: /proc, /sys, /dev, and programs to overwrite."""
import errno
import os
import stat
import sys

from attack import add, attack, main


@attack(root=True)
def writable_proc_sys():
    """Root of a user namespace owns /proc/sys, and core_pattern runs programs as real root."""
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


def _says(path):
    """They list the keys and the users of the host's kernel, whatever namespaces the reader has."""
    def f():
        with open(path) as file:
            text = file.read()
        return "%s says %r" % (path, text[:200]) if text else None
    return f


add("keys", _says("/proc/keys"), bare=False)
add("key_users", _says("/proc/key-users"), root=True)


@attack(bare=False)
def descriptors_of_init():
    return "process 1 has the descriptors %s" % os.listdir("/proc/1/fd")


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
    """CVE-2019-5736: the program that started us, opened for writing through /proc. ETXTBSY means that only
    its execution prevents that.
    """
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


if __name__ == "__main__":
    main()
