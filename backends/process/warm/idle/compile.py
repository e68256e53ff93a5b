# Compiles its input to bytecode. Importing source would leave a trace: the compiler's own types.
import importlib.util
import marshal
import sys

code = compile(sys.stdin.read(), "<frozen sitecustomize>", "exec", dont_inherit=True)
sys.stdout.buffer.write(importlib.util.MAGIC_NUMBER + bytes(12) + marshal.dumps(code))
