# The Python driver: it runs cells in module __main__ and answers on a private descriptor.
#
# An empty session should be small, so modules that most cells don't need are not imported: no json, ast, traceback,
# linecache or asyncio. The driver keeps references to the functions that it calls: cells may redefine anything. Its
# builtins are a copy for the same reason.

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
VARIABLES_MAX = 5000
TRACEBACK_MAX = 32 << 10  # characters
MESSAGE_MAX = 16 << 10    # characters
JSON_MAX = 60 << 20       # characters: a frame may have 64 MiB
TOP_AWAIT, COROUTINE = 0x2000, 0x80  # from CPython's code.h and compile.h

main = sys.modules['__main__']
stdlib = [p for p in sys.path if p not in ('', posix.getcwd())]
modules = sys.modules
BaseError = BaseException
