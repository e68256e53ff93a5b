"""A program's view of its limits, and whether it can change that, as JSON."""
import json
import os
import sys
import time


def read(*names):
    for name in names:
        try:
            with open(name) as f:
                return f.read()
        except FileNotFoundError:
            pass
    return ""


def meminfo():
    return {l.split(":")[0]: int(l.split()[1]) << 10 for l in read("/proc/meminfo").splitlines()}


def quota():
    both = read("/sys/fs/cgroup/cpu.max") or read("/sys/fs/cgroup/cpu/cpu.cfs_quota_us") + read("/sys/fs/cgroup/cpu/cpu.cfs_period_us")
    numbers = both.split()
    return int(numbers[0]) / int(numbers[1]) if len(numbers) == 2 and numbers[0] not in ("max", "-1") else None


def changed(path):
    """How a file or directory could be changed, if it can."""
    for how, call in (
        ("written", lambda: os.close(os.open(path, os.O_WRONLY))), ("emptied", lambda: os.truncate(path, 0)), ("made writable", lambda: os.chmod(path, 0o777)),
        ("touched", lambda: os.utime(path)), ("removed", lambda: os.unlink(path)), ("moved", lambda: os.rename(path, path + "x")),
        ("filled", lambda: os.mkdir(path + "/x")),
    ):
        try:
            call()
            return path + " was " + how
        except OSError:
            pass


seen = {"memory": meminfo(), "processors": os.cpu_count(), "quota": quota()}
seen["stat"] = sum(l.startswith("cpu") and l[3].isdigit() for l in read("/proc/stat").splitlines())
seen["cpuinfo"] = sum(l.startswith("processor") for l in read("/proc/cpuinfo").splitlines())
seen["cgroup"] = int(read("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes").strip() or 0)
tree = [os.path.join(d, n) for d, ds, fs in os.walk("/sys/fs/cgroup") for n in ds + fs] + ["/sys", "/sys/fs/cgroup", "/sys/devices/system/cpu/online"]
seen["changed"] = [c for c in map(changed, tree + ["/proc/meminfo", "/proc/stat", "/proc/cpuinfo"]) if c]
controllers = {"cpu", "cpuacct", "cpu,cpuacct", "cpuset", "memory", "pids", "blkio", "devices", "freezer", "net_cls", "net_prio", "net_cls,net_prio", "perf_event",
    "hugetlb", "rdma", "misc", "systemd", "unified"}
below = [os.path.join(d, n) for d, ds, _ in os.walk("/sys/fs/cgroup") for n in ds if d != "/sys/fs/cgroup" or n not in controllers]
seen["others"] = below
mounts = read("/proc/self/mountinfo").splitlines()
seen["roots"] = sorted({l.split()[3] for l in mounts if l.split(" - ")[1].split()[0] in ("cgroup", "cgroup2")})
ours = ("/proc/meminfo", "/proc/stat", "/proc/cpuinfo") + (("/sys",) if len(sys.argv) > 1 else ())  # an engine has its own /sys
for l in mounts:  # not only by permissions and Landlock
    at, options = l.split()[4:6]
    if (at + "/").startswith(tuple(o + "/" for o in ours)) and "ro" not in options.split(","):
        seen["changed"].append(at + " may be written to")
if len(sys.argv) > 1:
    before = meminfo()["MemAvailable"]
    held = b"x" * int(sys.argv[1])
    while before - meminfo()["MemAvailable"] < len(held) // 2:  # otherwise the time limit ends it
        time.sleep(0.01)
    first = read("/proc/stat").splitlines()[0]
    while read("/proc/stat").splitlines()[0] == first:
        time.sleep(0.01)
print(json.dumps(seen))
