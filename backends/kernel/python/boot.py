import posix
try:
    from _json import scanstring
except ImportError:
    from json.decoder import scanstring
def read(size):
    data = b''
    while len(data) < size:
        more = posix.read(3, size - len(data))
        if not more:
            posix._exit(1)
        data += more
    return data
space = {'__name__': 'driver', '__builtins__': dict(vars(__builtins__))}
# Part by part, because the compiler keeps most of the memory that the largest part took.
for part in scanstring(read(int.from_bytes(read(4), 'big')).decode(), len('{"driver":"'))[0].split('\f'):
    exec(compile(part, '<driver>', 'exec'), space)
