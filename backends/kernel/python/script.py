# The driver of a program that runs once. It replaces the program's file until Python opens that: it puts the
# program back, and runs it in module __main__ as Python would. So all that Python does before and after a program
# is Python's own. Known gap: the two frames below the program's are visible to code that walks the stack; the
# traceback of a fatal exception omits them.
#
# Functions that most programs need are here; the others are compiled for a display or an error: see late.py.

import builtins
import sys
import _ast

posix, modules, main = type(sys)('posix'), sys.modules, sys.modules['__main__']
posix.__dict__.update(modules['posix'].__dict__)  # programs may replace functions in theirs
BaseError, DRIVER, PID = BaseException, '<driver>', posix.getpid()
where = posix.getcwd() + '/' + NAME  # contains the program first, and its displays later
outer = sys._getframe(1).f_code
stdlib = sys.path[1:]
space = globals()


def program():
    """Restores the program's file, and returns its content."""
    fd, parts = posix.open(where, posix.O_RDONLY), []
    while True:
        part = posix.read(fd, 1 << 20)
        if not part:
            break
        parts.append(part)
    posix.close(fd)
    posix.rename(where, main.__file__)
    return b''.join(parts)


def late(name):
    """Returns a function of the driver's other parts."""
    def stub(*args, **named):
        if space[name] is stub:
            exec(compile(LATE, DRIVER, 'exec'), space)
        return space[name](*args, **named)
    return stub


def finish(value):
    """Displays the value of the last expression, and figures that are still open."""
    if (value is not None or 'matplotlib.pyplot' in modules) and posix.getpid() == PID:
        leave(value)


display, leave, figures, hide = late('display'), late('leave'), late('figures'), late('hide')
builtins.display = display
value = None
try:
    code, last = program(), False
    if b'import' in code or b'%run' in code:
        exec(compile(MODULES, DRIVER, 'exec'), space)
    code, last = units(code, main.__file__, 0)
    for unit in code:
        value = eval(unit, main.__dict__)
    finish(value if last else None)
except BaseError as e:
    if not isinstance(e, SystemExit):
        hide()
    finish(None)
    raise
