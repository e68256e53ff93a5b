# leave: how a program's process ends.


class thing(_ctypes._SimpleCData):
    _type_ = "O"


untrack, hold = (function(_ctypes.dlsym(libc, name)) for name in ("PyObject_GC_UnTrack", "Py_IncRef"))
untrack.argtypes = hold.argtypes = (thing,)
library = os.path.dirname(os.__file__) + "/lib-dynload/"


def inertness(library=library):
    """Returns what says of an object, and of classes by their numbers as far as that is known, whether nothing is
    told of its end, or would do anything then that anybody sees."""
    mro, attributes = type.__dict__["__mro__"].__get__, type.__dict__["__dict__"].__get__
    module, reference, builtin = type(gc), _weakref.ref, type(len)
    # Python's own that only calculate.
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
        if cls is module:  # foreign code may have told Python what to call at the very end
            file = x.__dict__.get("__file__")
            return type(file) is not str or not file.endswith(".so") or file.startswith(library) and x.__name__ in calculate
        above = mro(cls)
        if reference in above:
            callback = x.__callback__
            # Abstract classes have their subclasses dropped from a set.
            return callback is None or type(callback) is builtin and callback.__name__ == "_destroy"
        if type in above:  # its instances may be ones that the collector does not know
            return not finalises(x) and not finalises(cls)
        verdict = classes[id(cls)] = not finalises(cls)
        return verdict

    return inert


def quietness():
    """Returns what says whether the standard streams are those that there were, and what says whether nobody would
    see that Python takes apart what the program left."""
    import _thread
    import _warnings

    inert = inertness()
    # What the least of programs are made of, so that no class is looked into for them; and what calls others at its end.
    classes = {id(type(x)): True for x in ([], (), {}, set(), len, inert, inert.__code__, inert.__closure__[0])}
    classes[id(memoryview)] = classes[id(_weakref.ProxyType)] = classes[id(_weakref.CallableProxyType)] = False

    def streams(sys=sys):
        # By their numbers: they must not be kept from their end.
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
        # Where the collector has moved nothing to its oldest objects, all that is the program's is among the others.
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
    """Returns what tells how deep the C stack is where that is asked, or None where it can't be told.

    After a script that came to its end, with or without an exception, Python ends at the top of its stack. Where
    SystemExit ends it, that is far below, in what prints exceptions: nothing else is sure to tell the two apart.
    """
    offset = {"x86_64": 160, "aarch64": 432}.get(posix.uname().machine)  # of the stack's pointer in a ucontext_t
    try:
        record = function(_ctypes.dlsym(libc, "getcontext"))
    except OSError:
        return None
    if offset is None:
        return None
    record.argtypes = (word,)
    context = Memory(8192)  # more than it fills on any of these
    words, at = context.words, context.at

    def depth():
        return words[offset // 8] if record(at) == 0 else None

    return depth


def spare():
    """Spares a program's end the work that nobody sees.

    At its end Python calls what was registered for that, takes all modules apart, and then itself. To take
    apart what the zygote loaded, each page of it would have to be copied first: most of the time that a
    short program takes. So where the program has ended well, so that the exit code is known, and left nothing
    that could tell, the process exits once all that was registered has been called. Else the zygote's modules
    are hidden from Python, and the process exits when only the interpreter is left.
    """
    import atexit

    names = {name: module for name, module in sys.modules.items() if name not in ("__main__", "builtins", "sys", "atexit")}
    leave = function(_ctypes.dlsym(libc, "exit"))  # flushes C's files, and calls what was registered there
    leave.argtypes = (word,)

    # Python says when it prints an exception that nobody caught, before the program can have a say in that, and when
    # it can't flush a stream. What it has said it takes from this itself, without Python code of ours, since it
    # says much else, and whom it calls each time slows programs down.
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
        # After a script that came to its end Python takes these back; after sys.exit it does not. An archive has a __spec__.
        if "__file__" in main or "__cached__" in main or main["__name__"] != "__main__" or main["__spec__"] is not None:
            return False
        return type(main["__loader__"]).__name__ == "SourceFileLoader" and not hasattr(sys, "last_type") and not hasattr(sys, "last_exc")

    def ours(modules, library):
        # Foreign code may have told Python what to call at the very end.
        files = [module.__dict__.get("__file__") for module in modules.values()]
        return all(type(f) is not str or not f.endswith(".so") or f.startswith(library) for f in files)

    same, quiet = quietness()

    def end(modules=sys.modules, names=names, gone=gone, finished=finished, ours=ours, same=same, quiet=quiet, leave=leave, report_rehearsal=report_rehearsal, sys=sys, library=library):
        well = False
        try:
            if finished(modules, sys) and same():
                sys.stdout.flush()  # if that fails, Python shall say so, and exit with 120
                sys.stderr.flush()
                well = True
            if well and quiet():
                report_rehearsal()
                leave(0)
        except BaseException:
            pass  # whatever the program put there
        for name, module in names.items():
            if modules.get(name) is module:
                del modules[name]
        try:
            if well and ours(modules, library):
                sys.addaudithook(gone)
        except BaseException:
            pass

    atexit.register(end)
    if "atexit" not in known:  # what runs when Python starts may have imported it
        for one in atexit, atexit.__dict__:
            untrack(one)
        del sys.modules["atexit"]
