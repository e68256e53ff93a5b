# The Python driver: it runs cells in module __main__ and answers on a private descriptor.
#
# An empty session is to be small, so nothing is imported that most cells don't need: no json, ast,
# traceback, linecache or asyncio. What the driver calls, it takes now: cells may redefine anything.
# Its own builtins are a copy for the same reason.

import builtins
import posix
import sys
import _ast
import _io
import _signal
import _thread


def own(module):
    """Copies a module: cells may replace functions in theirs."""
    copy = type(sys)(module.__name__)
    copy.__dict__.update(module.__dict__)
    return copy


posix, _signal, _io = own(posix), own(_signal), own(_io)
settrace, setprofile, gettrace, getprofile = sys.settrace, sys.setprofile, sys.gettrace, sys.getprofile
PID = posix.getpid()
DRIVER = '<driver>'
TEXT_MAX = 256 << 10      # characters of a text/plain
BINARY_MAX = 16 << 20     # bytes of any other type
BUNDLE_MAX = 48 << 20     # bytes of all of them together
VARIABLES_MAX = 5000
TRACEBACK_MAX = 32 << 10  # characters
MESSAGE_MAX = 16 << 10    # characters
JSON_MAX = 60 << 20       # characters: a frame may have 64 MiB
AST_ONLY, TOP_AWAIT, COROUTINE, FUTURES = 0x400, 0x2000, 0x80, 0x1fe0000  # of CPython's code.h and compile.h

main = sys.modules['__main__']
stdlib = [p for p in sys.path if p not in ('', posix.getcwd())]
modules = sys.modules
BaseError = BaseException


def high(fd):
    """Moves a private descriptor out of the way of code that closes or counts descriptors."""
    for number in (1000, 500, 250, 100):
        try:
            return posix.dup2(fd, number + fd, inheritable=False)
        except OSError:
            pass
    return posix.dup(fd)


channel, marks = high(3), (high(1), high(2))
posix.close(3)


class state:
    """What changes from cell to cell."""
    settled = False     # site has run
    cell = 0            # the running cell's id, 0 when none runs
    armed = False       # SIGINT may raise KeyboardInterrupt
    sending = False     # a frame is half written: SIGINT has to wait
    pending = False     # it did
    task = None         # of the cell, when it awaits
    interrupted = False  # the task was cancelled by SIGINT
    loop = None
    future = 0          # flags of the __future__ imports so far
    sources = {}        # text of each cell, by its name in tracebacks
    trace = profile = None
    shown = []          # figures that the cell has shown, which it need not at its end
    mine = frozenset()  # names in __main__ that no cell made
