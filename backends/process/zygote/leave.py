# leave: how a program's process ends.


class thing(_ctypes._SimpleCData):
    _type_ = "O"


untrack, hold = (function(_ctypes.dlsym(libc, name)) for name in ("PyObject_GC_UnTrack", "Py_IncRef"))
untrack.argtypes = hold.argtypes = (thing,)
library = os.path.dirname(os.__file__) + "/lib-dynload/"


def inertness(library=library):
    """Returns a function that reports of an object, and of classes by their ids as far as they are known,
    whether its end notifies nobody and has no visible effect.
    """
    mro, attributes = type.__dict__["__mro__"].__get__, type.__dict__["__dict__"].__get__
    module, reference, builtin = type(gc), _weakref.ref, type(len)
    # Python's own modules that only compute.
    calculate = {"_bisect", "_csv", "_datetime", "_decimal", "_hashlib", "_heapq", "_json", "_random", "_statistics", "_struct", "math"}

    def finalises(cls):
        for base in mro(cls):
            if "__del__" in attributes(base):
                return True
        return False

    def inert(x, classes):
        cls = type(x)
        verdict = classes.get(id(cls))
        if verdict is not None:
            return verdict
        if cls is module:  # foreign code may have registered a function for the very end
            file = x.__dict__.get("__file__")
            return type(file) is not str or not file.endswith(".so") or file.startswith(library) and x.__name__ in calculate
        above = mro(cls)
        if reference in above:
            callback = x.__callback__
            # The subclasses of abstract classes are removed from a set.
            return callback is None or type(callback) is builtin and callback.__name__ == "_destroy"
        if type in above:  # its instances may be unknown to the collector
            return not finalises(x) and not finalises(cls)
        verdict = classes[id(cls)] = not finalises(cls)
        return verdict

    return inert


def quietness():
    """Returns two functions: one reports whether the standard streams are the original ones, the other
    whether nobody would notice that Python dismantles the program's leftovers.
    """
    import _thread
    import _warnings

    inert = inertness()
    # Components of minimal programs, whose classes need no inspection; and functions that are called at the end.
    classes = {id(type(x)): True for x in ([], (), {}, set(), len, inert, inert.__code__, inert.__closure__[0])}
    classes[id(memoryview)] = classes[id(_weakref.ProxyType)] = classes[id(_weakref.CallableProxyType)] = False

    def streams(sys=sys):
        # By their ids: the registry must not keep them alive.
        layers = [one for text in (sys.stdout, sys.stderr) for one in (text, text.buffer, getattr(text.buffer, "raw", text))]
        return [(id(one), one.__dict__.copy()) for one in layers]

    attached = streams()
    filters, warned = _warnings.filters, list(_warnings.filters)

    def collected(stats=gc.get_stats):
        return [g["collections"] for g in stats()[1:]]

    before = collected()

    def same():
        return streams() == attached

    def quiet(gc=gc, sys=sys):
        # If the collector has moved nothing to its oldest objects, all the program's objects are among the others.
        if collected() != before or gc.get_freeze_count() or gc.callbacks or gc.garbage or gc.get_debug():
            return False
        if _thread._count() or sys.getprofile() or sys.gettrace() or filters != warned:
            return False
        known = classes.copy()
        for generation in 0, 1:
            for x in gc.get_objects(generation=generation):
                if not inert(x, known):
                    return False
        return True

    return same, quiet


def depths():
    """Returns a function that returns the depth of the C stack where it is called, or None if that is
    unknown. After a script that reached its end, with or without an exception, Python ends at the top of
    its stack. If SystemExit ends it, that is far below, in the code that prints exceptions: nothing else
    reliably distinguishes the two.
    """
    offset = {"x86_64": 160, "aarch64": 432}.get(posix.uname().machine)  # offset of the stack pointer in a ucontext_t
    try:
        record = function(_ctypes.dlsym(libc, "getcontext"))
    except OSError:
        return None
    if offset is None:
        return None
    record.argtypes = (word,)
    context = Memory(8192)  # larger than each of these
    words, at = context.words, context.at

    def depth():
        return words[offset // 8] if record(at) == 0 else None

    return depth


def spare():
    """Skips work at a program's end that nobody would notice. At its end Python calls registered functions,
    and dismantles all modules and then itself. To dismantle the objects that the zygote loaded, each of
    their pages would have to be copied first: most of the time that a short program takes. So if the
    program has ended well, so that the exit code is known, and left nothing that could notice, the process
    exits once all registered functions have been called. Otherwise the zygote's modules are hidden from
    Python, and the process exits when only the interpreter is left.
    """
    import atexit

    names = {name: module for name, module in sys.modules.items() if name not in ("__main__", "builtins", "sys", "atexit")}
    leave = function(_ctypes.dlsym(libc, "exit"))  # flushes C's files, and calls functions registered there
    leave.argtypes = (word,)

    # Python calls this audit hook when it prints an uncaught exception, before the program can intervene, and when
    # it can't flush a stream. A C function records the calls without Python code of ours, since there are many
    # other events, and each call would slow programs down.
    unsaid = {"sys.excepthook": None, "sys.unraisablehook": None}
    sys.addaudithook(unsaid.pop)

    def gone(event, args, leave=leave, unsaid=unsaid):
        if event == "cpython.PyInterpreterState_Clear" and "sys.unraisablehook" in unsaid:
            leave(0)

    depth = depths()
    usual = [id(x) for x in (sys.modules["__main__"], sys.excepthook)]

    def finished(modules, sys, unsaid=unsaid, depth=depth, deepest=deepest, rehearsal=rehearsal, usual=usual):
        if depth is None or "sys.excepthook" not in unsaid or [id(x) for x in (modules["__main__"], sys.excepthook)] != usual:
            return False
        if rehearsal:
            deepest[:] = [depth()]
        elif deepest != [depth()]:
            return False
        main = modules["__main__"].__dict__
        # After a script that reached its end Python resets these; after sys.exit it does not. An archive has a
        # __spec__.
        if "__file__" in main or "__cached__" in main or main["__name__"] != "__main__" or main["__spec__"] is not None:
            return False
        return type(main["__loader__"]).__name__ == "SourceFileLoader" and not hasattr(sys, "last_type") and not hasattr(sys, "last_exc")

    def ours(modules, library):
        # Foreign code may have registered a function for the very end.
        files = [module.__dict__.get("__file__") for module in modules.values()]
        return all(type(f) is not str or not f.endswith(".so") or f.startswith(library) for f in files)

    same, quiet = quietness()

    def end(modules=sys.modules, names=names, gone=gone, finished=finished, ours=ours, same=same, quiet=quiet, leave=leave, report_rehearsal=report_rehearsal, sys=sys, library=library):
        well = False
        try:
            if finished(modules, sys) and same():
                sys.stdout.flush()  # if that fails, Python reports it, and exits with 120
                sys.stderr.flush()
                well = True
            if well and quiet():
                report_rehearsal()
                leave(0)
        except BaseException:
            pass  # the program may have replaced it
        for name, module in names.items():
            if modules.get(name) is module:
                del modules[name]
        try:
            if well and ours(modules, library):
                sys.addaudithook(gone)
        except BaseException:
            pass

    atexit.register(end)
    if "atexit" not in known:  # code that runs at Python's start may have imported it
        for one in atexit, atexit.__dict__:
            untrack(one)
        del sys.modules["atexit"]
