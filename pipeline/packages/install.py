# Arguments: where to install, where that will be seen, then pip's.
import compileall
import py_compile

target, seen = sys.argv[1:3]
code = pip(sys.argv[3:])
if code or "--dry-run" in sys.argv:
    sys.exit(code)
# Layers are read-only, so no run could keep what it compiles; and their files get new times, so
# the usual check by time would find everything compiled out of date.
compileall.compile_dir(
    target, ddir=seen, quiet=2, force=True, maxlevels=50,
    invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
