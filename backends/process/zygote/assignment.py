# assignment: how a waiting process receives its arguments and environment, and applies them.


def wait(fd, base):
    """Reports that it is ready, and reads an assignment from a descriptor to the end of the stream. An
    empty one ends the process. base are the arguments that are already known.
    """
    posix.write(fd, b"r")
    parts = []
    while True:
        part = posix.read(fd, 65536)
        if not part:
            break
        parts.append(part)
    posix.close(fd)
    frame = b"".join(parts)
    if not frame:
        posix._exit(0)
    count, *strings = frame[:-1].split(b"\0")
    return base + strings[: int(count)], strings[int(count) :]


class Layout:
    """The kernel's record of the arguments' and environment's addresses: struct prctl_mm_map."""

    def __init__(self):
        with open("/proc/self/stat", "rb", 0) as f:
            fields = f.read().rpartition(b") ")[2].split()
        code, code_end, stack = fields[23:26]
        data, data_end, brk = fields[42:45]
        self.map = [int(n) for n in (code, code_end, data, data_end, brk, 0, stack, 0, 0, 0, 0)]

    def set(self, args, args_end, env, env_end):
        self.map[5] = system(SYS_BRK, 0)
        self.map[7:] = args, args_end, env, env_end
        m = Memory(104)
        for i, n in enumerate(self.map):
            m.words[i] = n
        m.halves[25] = -1  # the same program file
        return system(SYS_PRCTL, PR_SET_MM, PR_SET_MM_MAP, m.at, 104, 0) == 0


def apply(layout, args, env):
    """Sets args and env as this process's, for Python, the C library and the kernel."""
    sys.argv[1:] = decoded = [os.fsdecode(a) for a in args[2:]]
    if hasattr(sys, "orig_argv"):
        sys.orig_argv[2:] = decoded
    pairs = [e.partition(b"=")[::2] for e in env]
    for names in posix.environ, os.environ._data:
        names.clear()
        names.update(pairs)
    strings = b"".join(s + b"\0" for s in args + env)
    arrays = len(strings) + 7 & ~7
    at = system(SYS_MMAP, 0, arrays + 8 * (len(env) + 1), 3, 0x22, -1, 0)  # private and anonymous, to read and write
    pointers, next = [], at + sum(len(a) + 1 for a in args)
    first = next
    for e in env:
        pointers.append(next)
        next += len(e) + 1
    whole = strings.ljust(arrays, b"\0") + b"".join(p.to_bytes(8, "little") for p in pointers + [0])
    copy(at, whole, len(whole))
    copy(_ctypes.dlsym(libc, "environ"), (at + arrays).to_bytes(8, "little"), 8)
    layout.set(at, first, first, next)


# Variables that the interpreter, the C library or the loader read when the zygote started.
PREFIXES = b"PYTHON", b"LD_", b"LC_", b"LANG", b"GLIBC_", b"MALLOC_", b"TZ=", b"HOME="


def early(env):
    """The variables that have an effect only when a process starts, and can't be changed in a running one."""
    return sorted(e for e in env if e.startswith(PREFIXES))
