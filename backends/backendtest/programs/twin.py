import sys
seen = dict(flags=str(sys.flags), argv=list(sys.argv), orig=list(sys.orig_argv), path=list(sys.path), modules=list(sys.modules),
    meta=[getattr(m, "__name__", type(m).__name__) for m in sys.meta_path], hooks=len(sys.path_hooks),
    importers={k: type(v).__name__ for k, v in sys.path_importer_cache.items()}, importer_order=list(sys.path_importer_cache),
    main=sorted(globals()), names=[__name__, __file__, repr(__spec__), type(__loader__).__name__, __loader__.path, repr(__builtins__), __cached__, repr(__doc__)],
    frames=(sys._getframe().f_back is None, sys._getframe().f_code.co_filename, sys._getframe().f_lineno),
    xoptions=sys._xoptions, warn=sys.warnoptions, exe=sys.executable, prefix=(sys.prefix, sys.base_prefix, sys.exec_prefix),
    refs=sys.getrecursionlimit(), switch=sys.getswitchinterval(), hook=repr(sys.excepthook), exc=sys.exc_info(), platlibdir=sys.platlibdir,
    dont=(sys.dont_write_bytecode, sys.pycache_prefix), trace=(sys.gettrace(), sys.getprofile()), threads=list(map(str, sys._current_frames())).__len__(),
    subclasses=sorted(c.__module__ + "." + c.__qualname__ for c in object.__subclasses__()),
    sysnames=sorted(sys.__dict__))
import gc
seen["gc"] = (gc.isenabled(), gc.get_threshold(), len(gc.garbage), gc.get_freeze_count(),
    sorted(m.__name__ for m in gc.get_objects() if isinstance(m, type(sys))),
    sum(type(o).__name__ == "frame" for o in gc.get_objects()))
import posix, os, errno
def reading(name):
    try:
        with open(name, "rb") as f:
            return f.read().decode("latin-1")
    except OSError as e:
        return repr(e)
seen.update(environ=list(os.environ.items()), environb=list(os.environb.items()), posix=list(posix.environ.items()), keys=os.environ._data is posix.environ,
    cwd=os.getcwd(), ids=(os.getuid(), os.geteuid(), os.getgid(), os.getegid(), os.getgroups(), os.getresuid(), os.getresgid()),
    pids=(os.getpid(), os.getppid(), os.getpgrp(), os.getsid(0)), nice=os.nice(0), umask=oct(os.umask(0o22)),
    login=os.uname().nodename, affinity=len(os.sched_getaffinity(0)), policy=os.sched_getscheduler(0),
    fds=sorted((n, os.readlink("/proc/self/fd/" + n).split(":")[0]) for n in os.listdir("/proc/self/fd") if os.path.lexists("/proc/self/fd/" + n)),
    std=[(oct(os.fstat(i).st_mode), os.fstat(i).st_uid, os.isatty(i), os.get_blocking(i), os.get_inheritable(i)) for i in range(3)],
    streams=[(s.name, s.mode, s.encoding, s.errors, s.line_buffering, s.write_through, s.newlines, type(s.buffer).__name__) for s in (sys.stdin, sys.stdout, sys.stderr)],
    cmdline=reading("/proc/self/cmdline"), env=reading("/proc/self/environ"), comm=reading("/proc/self/comm"), exe_link=os.readlink("/proc/self/exe"),
    limits=reading("/proc/self/limits"), io_cgroup=len(reading("/proc/self/cgroup").splitlines()), mounts=[l.split(" - ")[0].split()[3:] for l in reading("/proc/self/mountinfo").splitlines()],
    oom=reading("/proc/self/oom_score_adj"), personality=reading("/proc/self/personality"), wchan=reading("/proc/self/wchan"), setgroups=reading("/proc/self/setgroups"),
    loginuid=reading("/proc/self/loginuid"), timerslack=reading("/proc/self/timerslack_ns"), coredump=reading("/proc/self/coredump_filter"), autogroup=os.path.exists("/proc/self/autogroup"),
    uidmap=reading("/proc/self/uid_map").split()[::2], tasks=len(os.listdir("/proc/self/task")), processes=sorted(n for n in os.listdir("/proc") if n.isdigit()),
    children=reading("/proc/self/task/2/children"))
stat = reading("/proc/self/stat").rsplit(")", 1)[1].split()
# proc_pid_stat(5), from the third field on: without page faults, CPU time, start time, sizes and addresses.
seen["stat"] = {n: stat[n - 3] for n in (4, 5, 6, 7, 8, 9, 18, 19, 20, 21, 31, 32, 33, 34, 38, 40, 41, 52)}
seen["stat"][9] = int(seen["stat"][9]) & ~0x40  # set if it was forked and has not executed a program since (PF_FORKNOEXEC)
seen["status"] = [l for l in reading("/proc/self/status").splitlines() if l.split(":")[0] in (
    "Umask", "Tgid", "Ngid", "Pid", "PPid", "TracerPid", "Uid", "Gid", "FDSize", "Groups", "NStgid", "NSpid", "NSpgid", "NSsid", "Threads", "SigQ", "SigPnd",
    "ShdPnd", "SigBlk", "SigIgn", "SigCgt", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp", "Seccomp_filters", "THP_enabled")]
seen["files"] = {top: sorted((os.path.join(d, n), oct(os.lstat(os.path.join(d, n)).st_mode), os.lstat(os.path.join(d, n)).st_uid, os.lstat(os.path.join(d, n)).st_nlink)
    for d, ds, fs in os.walk(top) for n in ds + fs) for top in ("/workspace", "/tmp", "/run", "/dev/shm", "/dev/pts", "/var", "/home", "/script") if os.path.exists(top)}
seen["dirs"] = [(d, os.stat(d).st_nlink, os.stat(d).st_size) for d in ("/workspace", "/tmp", "/dev/shm")]
seen["children_env"] = os.popen("env").read().splitlines()
import locale, signal, resource, site, time, ctypes
seen.update(locale=(locale.getlocale(), locale.getpreferredencoding(), locale.setlocale(locale.LC_ALL)), handlers={int(s): str(signal.getsignal(s)) for s in range(1, 65)},
    rlimits={n: resource.getrlimit(getattr(resource, n)) for n in dir(resource) if n.startswith("RLIMIT_")}, site=(site.ENABLE_USER_SITE, site.getusersitepackages(), site.PREFIXES),
    tz=(time.tzname, time.timezone), stdin=sys.stdin.read(), tracer=ctypes.CDLL(None).prctl(3, 0, 0, 0, 0))
libc = ctypes.CDLL(None)
environ = ctypes.POINTER(ctypes.c_char_p).in_dll(libc, "environ")
seen["libc"] = []
while environ[len(seen["libc"])] is not None:
    seen["libc"].append(environ[len(seen["libc"])])
libc.getenv.restype = ctypes.c_char_p
seen["getenv"] = [libc.getenv(n.encode()) for n in ("A", "PATH", "PYTHONPATH", "HOME", "USER")]
for k in sorted(seen):
    print(k, "=", ascii(seen[k]))
sys.stdout.flush()
import atexit
atexit.register(lambda: print("atexit"))
class Late:
    def __del__(self): print("del", sys is None)
late = Late()
def deep(n): return deep(n - 1) if n else 1 / 0
deep(2)
