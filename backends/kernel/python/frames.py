class format_:
    strict, object_hook, object_pairs_hook = False, None, None
    parse_float, parse_int, memo = float, int, {}
    parse_constant = {'NaN': float('nan'), 'Infinity': float('inf'), '-Infinity': -float('inf')}.get


def unknown(value):
    raise TypeError('%s has no JSON form' % type(value).__name__)


try:
    from _json import make_scanner, make_encoder, encode_basestring_ascii
    scan = make_scanner(format_)
    encoder = make_encoder(None, unknown, encode_basestring_ascii, None, ':', ',', False, False, False)

    def decode(text):
        return scan(text, 0)[0]

    def encode(value):
        return ''.join(encoder(value, 0))
except (ImportError, TypeError):  # another Python, or a newer one
    import json
    decode, encode = json.loads, lambda value: json.dumps(value, separators=(',', ':'), allow_nan=False)

lock = _thread.allocate_lock()


def receive(size):
    parts = []
    while size:
        part = posix.read(channel, min(size, 1 << 20))
        if not part:
            return None
        parts.append(part)
        size -= len(part)
    return b''.join(parts)


def send(frame):
    data = encode(frame).encode()
    data = len(data).to_bytes(4, 'big') + data
    with lock:
        if posix.getpid() != PID:
            return
        state.sending = True
        try:
            write_all(channel, data)
        finally:
            state.sending = False
    if state.pending:
        state.pending = False
        if state.armed and _thread.get_ident() == thread:
            raise KeyboardInterrupt


def write_all(fd, data):
    data = memoryview(data)
    while data:
        try:
            data = data[posix.write(fd, data):]
        except BlockingIOError:  # a child has made the pipe so for all who have it
            posix.set_blocking(fd, True)


thread = _thread.get_ident()
