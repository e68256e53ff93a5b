# The zygote's Python. Package zygote joins these files, after the constants that they use (in capital letters),
# into one sitecustomize.py.
#
# calls: how Python makes system calls that none of its modules makes, and passes memory to them.
import gc
import os
import posix
import sys

gc.disable()  # without a collector no page is written to, so pages stay shared between forks
known = set(sys.modules)
classes = set(object.__subclasses__())
import _ctypes
import _weakref

for name in set(sys.modules) - known | {"gc"}:
    del sys.modules[name]


def forget(types):
    """Removes types from their bases' lists of subclasses, where a program would see them."""
    for one in types:
        for ref in _weakref.getweakrefs(one):
            for place in gc.get_referrers(ref):
                if type(place) is dict and place.get(id(one)) is ref:
                    del place[id(one)]


def listing():
    """Where object keeps its list."""

    class probe:
        pass

    (ref,) = _weakref.getweakrefs(probe)[:1]
    found = next(place for place in gc.get_referrers(ref) if type(place) is dict and place.get(id(probe)) is ref)
    del found[id(probe)]
    return found


forget(set(object.__subclasses__()) - classes)
subclasses = listing()
# Removes the evidence that this file was found on the path.
here = sys.path.pop(0)
sys.path_importer_cache.pop(here, None)
del sys.modules["sitecustomize"]
os.environ.pop("PYTHONPATH", None)
for finder in sys.meta_path:  # a cold start searches everywhere, too, and caches the results
    for name in "sitecustomize", "usercustomize":
        finder.find_spec(name, None)
# Objects made from here on are in the youngest generation: see hide.
gc.freeze()


class char(_ctypes._SimpleCData):
    _type_ = "c"


class word(_ctypes._SimpleCData):
    _type_ = "l"


class text(_ctypes._SimpleCData):
    _type_ = "z"


class function(_ctypes.CFuncPtr):
    # C calls that keep the interpreter's lock, and after which errno can be read.
    _flags_ = 1 | 4 | 8
    _restype_ = word


libc = _ctypes.dlopen(None, 2)
call = function(_ctypes.dlsym(libc, "syscall"))
call.argtypes = (word,) * 7
copy = function(_ctypes._memmove_addr)
copy.argtypes = (word, text, word)
errno = _ctypes.get_errno


def system(number, *args):
    """Makes a system call and returns its result, or -1."""
    return call(number, *(args + (0,) * (6 - len(args))))


class Memory:
    """Zeroed bytes at an address for system calls, seen as numbers of 64 and 32 bits."""

    def __init__(self, size):
        self.bytes = bytearray(size + 7 & ~7)
        self.words = memoryview(self.bytes).cast("q")
        self.halves = memoryview(self.bytes).cast("i")
        self.at = _ctypes.addressof(char.from_buffer(self.bytes))
