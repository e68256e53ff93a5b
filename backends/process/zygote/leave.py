# leave: how a program's process ends.
import os


class thing(_ctypes._SimpleCData):
    _type_ = "O"


def untrack(*things):
    """Takes things off the collector's lists, which programs can read."""
    untrack = function(_ctypes.dlsym(libc, "PyObject_GC_UnTrack"))
    untrack.argtypes = (thing,)
    for one in things:
        untrack(one)


def plain_of(cell=None):
    """A function with a cell."""
    return lambda: cell


def spare():
    """Spares a program's end the work that nobody sees.

    At its end Python calls what was registered for that, takes all modules apart, and then itself. To take
    apart what the zygote loaded, each page of it would have to be copied first: most of the time that a
    short program takes. So those modules are hidden from it, once all that the program registered has been
    called; and where the program has ended well, so that the exit code is known, the process exits when
    only the interpreter is left: its files are flushed, its objects gone.
    """
    import atexit

    names = {name: module for name, module in sys.modules.items() if name not in ("__main__", "builtins", "sys", "atexit")}
    leave = function(_ctypes.dlsym(libc, "exit"))  # flushes C's files, and calls what was registered there
    leave.argtypes = (word,)

    def gone(event, args, leave=leave):
        if event == "cpython.PyInterpreterState_Clear":
            leave(0)

    def finished(modules, sys, library):
        main = modules["__main__"].__dict__
        # After a script that came to its end Python takes these back; after sys.exit it does not. An archive has a __spec__.
        if "__file__" in main or "__cached__" in main or main["__name__"] != "__main__" or main["__spec__"] is not None:
            return False
        if type(main["__loader__"]).__name__ != "SourceFileLoader" or hasattr(sys, "last_type") or hasattr(sys, "last_exc"):
            return False
        # Foreign code may have told Python what to call at the very end.
        files = [module.__dict__.get("__file__") for module in modules.values()]
        return all(type(f) is not str or not f.endswith(".so") or f.startswith(library) for f in files)

    # Nothing of these is told of its end, or does anything then.
    plain = {type(x) for x in (plain_of, [], (), {}, set(), gc, type, len, property(), [].append, posix.__spec__, frozenset())}
    plain |= {type(plain_of.__code__), type(plain_of()), type(plain_of().__closure__[0])}

    def collected(stats=gc.get_stats):
        return [g["collections"] for g in stats()[1:]]

    def quiet(young=gc.get_objects, before=collected(), collected=collected, plain=plain):
        # Where the collector has moved nothing to its oldest objects, all that is the program's is among the others.
        return collected() == before and all(type(x) in plain for n in (0, 1) for x in young(generation=n))

    def end(modules=sys.modules, names=names, gone=gone, finished=finished, quiet=quiet, freeze=gc.freeze, sys=sys, library=os.path.dirname(os.__file__) + "/lib-dynload/"):
        for name, module in names.items():
            if modules.get(name) is module:
                del modules[name]
        try:
            if finished(modules, sys, library):
                sys.addaudithook(gone)
                if quiet():
                    freeze()  # so that nothing that the zygote loaded is looked at, where nothing could be found
        except BaseException:
            pass  # whatever the program put there

    hold = function(_ctypes.dlsym(libc, "Py_IncRef"))
    hold.argtypes = (thing,)
    for kept in names, end, leave:
        hold(kept)
    atexit.register(end)
    untrack(atexit, atexit.__dict__)
    if "atexit" not in known:
        del sys.modules["atexit"]
