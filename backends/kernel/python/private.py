def high(fd):
    """Moves a private descriptor away from code that closes or counts descriptors."""
    for number in (1000, 500, 250, 100):
        try:
            return posix.dup2(fd, number + fd, inheritable=False)
        except OSError:
            pass
    return posix.dup(fd)


channel, marks = high(3), (high(1), high(2))
posix.close(3)


class state:
    """State of the running cell."""
    settled = False     # site has run
    cell = 0            # id of the running cell, 0 if none runs
    armed = False       # SIGINT may raise KeyboardInterrupt
    sending = False     # a frame is half written: SIGINT has to wait
    pending = False     # SIGINT came meanwhile
    task = None         # of an awaiting cell
    interrupted = False  # the task was cancelled by SIGINT
    loop = None
    future = 0          # flags of the __future__ imports so far
    sources = {}        # text of each cell, by its name in tracebacks
    trace = profile = None
    charts = False      # the data of figures and tables is wanted
    shown = []          # figures displayed by the cell, which are not displayed again at its end
    mine = frozenset()  # names in __main__ that no cell defined
