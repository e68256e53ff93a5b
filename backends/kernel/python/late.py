class state:
    cell = 1     # displayed values have a reader
    charts = False  # no data of figures is wanted
    shown = []   # displayed figures, which are not displayed again at the end


lock = modules['_thread'].allocate_lock()


def send(frame):
    """Adds a frame to the file that the host reads at the end."""
    data = encode(frame).encode()
    data = len(data).to_bytes(4, 'big') + data
    try:
        with lock:
            fd = posix.open(where, posix.O_WRONLY | posix.O_APPEND | posix.O_CREAT | posix.O_NOFOLLOW | posix.O_NONBLOCK | posix.O_CLOEXEC, 0o600)
            size = posix.lseek(fd, 0, 2)
            try:
                while data:
                    data = data[posix.write(fd, data):]
            except OSError:
                posix.ftruncate(fd, size)
                raise
            finally:
                posix.close(fd)
    except OSError as e:
        sys.stderr.write('what was displayed can not be shown: %s\n' % short(e))


def leave(value):
    try:
        if value is not None:
            send({'op': 'done', 'id': 1, 'value': bundle(value)})
        if 'matplotlib.pyplot' in modules:
            figures(modules['matplotlib.pyplot'])
    except BaseError as e:  # of the program's own code that Python calls
        sys.stderr.write('what the program leaves to be shown can not be: %s: %s\n' % (type(e).__name__, e))


def hide():
    """Has the exception that ends the program printed without our frames."""
    usual = getattr(sys, 'excepthook', sys.__excepthook__)

    def hook(kind, e, trace):
        sys.excepthook = usual
        while trace is not None and (trace.tb_frame.f_code is outer or trace.tb_frame.f_code.co_filename == DRIVER):
            trace = trace.tb_next
        usual(kind, e.with_traceback(trace), trace)
    sys.excepthook = hook
