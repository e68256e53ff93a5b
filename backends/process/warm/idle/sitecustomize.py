# An interpreter that stands ready stops here: site imports this file when all is set up but the
# program itself. What it leaves behind must be what Python without it would have.
import posix
import sys

_here = sys.path.pop(0)  # PYTHONPATH led here
sys.path_importer_cache.pop(_here, None)
posix.unlink(_here + "/sitecustomize.pyc")
posix.rmdir(_here)
posix.write(3, b"r")
_assignment = b""
while _part := posix.read(3, 1 << 16):
    _assignment += _part
posix.close(3)
if not _assignment:
    posix._exit(126)  # whoever would have sent it is gone
_count, *_fields = _assignment.split(b"\0")[:-1]
_args = [a.decode(sys.getfilesystemencoding(), sys.getfilesystemencodeerrors()) for a in _fields[:int(_count)]]
sys.argv[1:] = _args
sys.orig_argv[2:] = _args
# os.environ looks into this very dictionary; the rest is libc's own environment.
for _name in posix.environ:
    posix.unsetenv(_name)
posix.environ.clear()
posix.environ.update(v.split(b"=", 1) for v in _fields[int(_count):])
for _pair in posix.environ.items():
    posix.putenv(*_pair)
# The host may have such a file, too. If not, this fails as the import that led here would have.
del sys.modules["sitecustomize"]
import sitecustomize
