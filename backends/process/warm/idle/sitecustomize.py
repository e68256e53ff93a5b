# An idle interpreter stops here: site imports this file when everything is set up except the program itself.
# Afterwards, the interpreter's state must equal that of a Python without it.
import posix
import sys

_here = sys.path.pop(0)  # PYTHONPATH's first entry
sys.path_importer_cache.pop(_here, None)
posix.unlink(_here + "/sitecustomize.pyc")
posix.rmdir(_here)
posix.write(3, b"r")
_assignment = b""
while _part := posix.read(3, 1 << 16):
    _assignment += _part
posix.close(3)
if not _assignment:
    posix._exit(126)  # the sender is gone
_count, *_fields = _assignment.split(b"\0")[:-1]
_args = [a.decode(sys.getfilesystemencoding(), sys.getfilesystemencodeerrors()) for a in _fields[:int(_count)]]
sys.argv[1:] = _args
sys.orig_argv[2:] = _args
# os.environ reads this very dictionary; the rest is libc's own environment.
for _name in posix.environ:
    posix.unsetenv(_name)
posix.environ.clear()
posix.environ.update(v.split(b"=", 1) for v in _fields[int(_count):])
for _pair in posix.environ.items():
    posix.putenv(*_pair)
# The host may have such a file, too. If not, this fails like the import that found this file.
del sys.modules["sitecustomize"]
import sitecustomize
