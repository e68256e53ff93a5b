"""Ways to gain privileges: capabilities, users, set-user-ID programs, inherited descriptors."""
import glob
import os
import resource
import stat
import struct
import subprocess
import threading
import time

from attack import DESCRIPTORS, attack, main


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
    """Each thread has a filter of its own: check all of them, not only the first."""
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
    """A set-user-ID program gives root's privileges; with no_new_privs it is an ordinary one."""
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


@attack(bare=False)
def inherited_descriptors():
    """Descriptors that were open before: a leaked one is a way out (CVE-2024-21626), and Landlock
    does not look at it."""
    extra = {fd: to for fd, to in DESCRIPTORS.items() if fd > 2}
    return "descriptors %s" % extra if extra else None


@attack(bare=False)
def standard_descriptors_are_files():
    """A regular file or directory of the host as standard stream can be reopened for writing."""
    for fd in (0, 1, 2):
        mode = os.fstat(fd).st_mode
        to = os.readlink("/proc/self/fd/%d" % fd)
        if (stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISBLK(mode)):
            return "descriptor %d is %s" % (fd, to)
        if to.startswith("/dev/") and to != "/dev/null":
            return "descriptor %d is %s" % (fd, to)


@attack(bare=False)
def directory_of_the_first_process():
    """runc's CVE-2024-21626: a /proc/self/cwd outside of the root."""
    for path in ("/proc/self/cwd", "/proc/1/cwd"):
        try:
            to = os.readlink(path)
        except OSError:
            continue
        if "unreachable" in to:
            return "%s leads to %s" % (path, to)
    for name in ("../../../../../../../../etc/shadow", "/proc/self/cwd/../../../../../../etc/shadow"):
        if os.access(name, os.R_OK):
            return "reaches " + name


@attack
def core_dump():
    """With 0, a program of the host's root in core_pattern gets the memory nevertheless; with 1, none does."""
    soft, hard = resource.getrlimit(resource.RLIMIT_CORE)
    return "RLIMIT_CORE is %s" % ((soft, hard),) if (soft, hard) != (1, 1) else None


if __name__ == "__main__":
    main()
