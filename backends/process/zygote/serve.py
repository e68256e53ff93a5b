# serve: the zygote itself, from the moment at which Python imports sitecustomize. Its forks continue where it
# stops.


def constants(code):
    """Removes a program's code and all its parts from the collector's lists."""
    for one in code.co_consts + (code.co_consts, code.co_names):
        if type(one) is tuple:
            untrack(one)
        elif type(one) is type(code):
            constants(one)


def hide():
    """Removes our objects from the collector's lists, which programs can read, and keeps them: freeing them
    would copy their pages, for nothing.
    """
    frame = type(sys._getframe())
    for one in gc.get_objects():
        if type(one) is not frame:
            hold(one)
            untrack(one)
    for one in known, classes, forget, listing, globals():
        hold(one)
        untrack(one)
    constants(sys._getframe(1).f_code)
    for one in gc, gc.__dict__, _ctypes, _ctypes.__dict__:
        untrack(one)


def unfit():
    """Returns why forks of this interpreter would differ from a cold start; "" if they would not."""
    if "t" in getattr(sys, "abiflags", ""):
        return "Python without its lock is not forked"
    if len(posix.listdir("/proc/self/task")) > 1:
        return "a .pth file starts a thread"
    return ""


def serve():
    """Forks for each request of the server. It returns only in a program's process."""
    scratch.bytes[ACTION : ACTION + 32] = bytes(32)
    scratch.words[ACTION // 8] = 1  # SIG_IGN: the kernel reaps our forks
    call(SYS_RT_SIGACTION, SIGCHLD, scratch.at + ACTION, 0, 8, 0, 0)
    block = Memory(16)
    block.words[0] = -1
    call(SYS_RT_SIGPROCMASK, 0, block.at, 0, 8, 0, 0)
    args = Memory(96)
    reason = unfit()
    if reason:
        posix.write(2, reason.encode())
        posix._exit(1)
    spans = rehearse()
    if spans is None:
        return run_program(None, None, ())
    report(SOCK, READY)
    while True:
        size, files = take(SOCK)
        if size != 8 or not files:
            posix._exit(0)
        args.words[0] = message.words[BODY // 8] | CLONE_PIDFD | (CLONE_INTO_CGROUP if len(files) > 1 else 0)
        args.words[1] = args.at + 88
        args.words[4] = SIGCHLD
        args.words[10] = files[1] if len(files) > 1 else 0
        pid = call(SYS_CLONE3, args.at, 88, 0, 0, 0, 0)
        if pid == 0:
            return run_init(files, spans)
        failed = errno() if pid < 0 else 0
        fd = args.halves[22] if pid > 0 else -1
        for f in files:
            posix.close(f)
        message.words[BODY // 8] = failed
        tell(SOCK, 8, fd)
        if fd >= 0:
            posix.close(fd)


def run_init(files, spans):
    """Runs PID 1. It returns in the process of a program that has its assignment."""
    for fd in [SOCK] + files[1:]:
        posix.close(fd)
    scratch.words[ACTION // 8] = 0  # SIGCHLD must be waited for here
    call(SYS_RT_SIGACTION, SIGCHLD, scratch.at + ACTION, 0, 8, 0, 0)
    init = Init(files[0])
    plan = init.live()
    call(SYS_CLOSE_RANGE, PRIVATE + 1, 0xFFFFFFFF, 0, 0, 0, 0)  # as execve would
    run_program(plan, init, spans)


def run_program(plan, init, spans):
    """Waits for an assignment, and returns in a process that looks as if it had been started with that."""
    gc.unfreeze()
    copy_ahead(spans)
    args, env = wait(PRIVATE, base)
    if early(env) != seen or os.path.isdir(sys.modules["site"].USER_SITE or ""):
        start(plan.last(init.slots)[0], args, env)
    apply(layout, args, env)


def start(program, args, env):
    """Starts the interpreter again: it would have read something else at its start than the zygote did."""
    strings = [Memory(len(s) + 1) for s in args + env]
    for memory, s in zip(strings, args + env):
        memory.bytes[: len(s)] = s
    arrays = Memory(8 * (len(strings) + 2))
    for i, memory in enumerate(strings):
        arrays.words[i + (i >= len(args))] = memory.at
    defaults()  # ignored signals would stay ignored
    call(SYS_EXECVE, program, arrays.at, arrays.at + 8 * (len(args) + 1), 0, 0, 0)
    posix._exit(126)


spare()
layout = Layout()
with open("/proc/self/cmdline", "rb") as f:
    base = f.read()[:-1].split(b"\0")
seen = early(b"%b=%b" % pair for pair in os.environ._data.items())
for one in Memory, Plan, Init, Layout:
    del subclasses[id(one)]
hide()
serve()
gc.enable()
# The host's own sitecustomize is imported, and its absence reported as usual.
__import__("sitecustomize")
