def on_interrupt(number, frame):
    if posix.getpid() != PID:
        raise KeyboardInterrupt
    if not state.armed:
        return
    if state.sending:
        state.pending = True
        return
    if state.task is not None and waiting(frame):
        # Raised in the loop's own code, KeyboardInterrupt would lose the next steps of other tasks.
        state.interrupted = True
        state.task.cancel()
        state.loop.call_soon_threadsafe(int)
        return
    raise KeyboardInterrupt


def waiting(frame):
    name = frame.f_globals.get('__name__')
    return isinstance(name, str) and name.partition('.')[0] in ('asyncio', 'selectors')


def guarded(function, *args):
    """Calls foreign code. Returns its value and its exception; only in here, SIGINT raises."""
    try:
        try:
            state.armed = True
            value = function(*args)
            state.armed = False
            return value, None
        except BaseError as e:
            state.armed = False
            return None, e
        finally:
            if function is execute:
                state.trace, state.profile = gettrace(), getprofile()
                if sys.getrecursionlimit() < 500:
                    sys.setrecursionlimit(500)  # we need some of it
            settrace(None)
            setprofile(None)
    except BaseError as e:  # interrupted between the lines above
        state.armed = False
        return None, e
