def run(frame):
    state.cell = frame['id']
    for key, value in frame['env'].items():
        modules['os'].environ[key] = value
    mend_streams()
    main.__dict__['__builtins__'] = builtins
    modules['__main__'] = main
    state.shown, state.charts = [], frame.get('charts', False)
    done = {'op': 'done', 'id': state.cell, 'value': None, 'error': None, 'exit': None}
    name = name_of(frame)
    if 'tools' in frame:
        calls.open = True
        offer(frame['tools'])
    value, e = guarded(execute, frame['code'], name)
    if e is None and value is not None:
        done['value'], e = guarded(bundle, value)
        builtins._ = value
    del value
    pyplot = modules.get('matplotlib.pyplot')
    if pyplot is not None and posix.getpid() == PID:
        _, fault = guarded(figures, pyplot)
        if e is None:
            e = fault
    if posix.getpid() != PID:
        leave_child(e)
    end_calls()
    if isinstance(e, SystemExit):
        done['exit'] = status(e)
    elif e is not None:
        done['error'] = failure(e)
        e = None  # frees the objects in its frames
    # These changes of the cell would keep later cells, or the idle driver, from being interrupted.
    _signal.signal(_signal.SIGINT, on_interrupt)
    _signal.pthread_sigmask(_signal.SIG_UNBLOCK, (_signal.SIGINT,))
    guarded(flush)
    state.cell = 0
    mark = b'\0' + frame['mark'].encode() + b'\0'
    for fd in marks:
        try:
            write_all(fd, mark)
        except OSError:
            pass
    return done


def name_of(frame):
    """Names the cell's file. Each needs a name of its own, for the lines in tracebacks."""
    name = frame['name'] or 'cell %d' % frame['id']
    if name in state.sources:
        name = '%s (%d)' % (name, frame['id'])
    state.sources[name] = frame['code']
    linecache = modules.get('linecache')
    if linecache is not None and hasattr(linecache, 'cache'):
        know_source(linecache, name, frame['code'])
    return name


def execute(code, name):
    """Runs a cell and returns the value of its last expression."""
    code, last = units(code, name, state.future | TOP_AWAIT)
    space = main.__dict__
    if code:
        state.future |= code[0].co_flags & FUTURES
    if any(unit.co_flags & COROUTINE for unit in code):
        value = finish(together(code, space))
    else:
        value = None
        settrace(state.trace)
        setprofile(state.profile)
        for unit in code:
            value = eval(unit, space)
    if last and type(value) is Coroutine:
        value = finish(value)
    return value


async def together(units, space):
    """Runs a cell that awaits, all of it in the running loop, as create_task requires."""
    value = None
    settrace(state.trace)
    setprofile(state.profile)
    for unit in units:
        value = eval(unit, space)
        if unit.co_flags & COROUTINE:
            value = await value
    return value


async def nothing():
    pass

nothing = nothing()
Coroutine = type(nothing)
nothing.close()  # otherwise Python warns that it was never awaited


def finish(coroutine):
    """Waits for a coroutine. The event loop lives on, but runs only while a cell waits: background tasks
    pause between such cells.
    """
    asyncio = bring('asyncio')
    if state.loop is None or state.loop.is_closed():
        state.loop = asyncio.new_event_loop()
    asyncio.set_event_loop(state.loop)
    task = state.loop.create_task(coroutine)
    state.task, state.interrupted = task, False
    try:
        return state.loop.run_until_complete(task)
    except asyncio.CancelledError as e:
        if not state.interrupted:
            raise
        raise KeyboardInterrupt().with_traceback(e.__traceback__) from None
    except BaseError:
        if not task.done():
            task.cancel()
            state.interrupted = True  # next time, it raises
            try:
                state.loop.run_until_complete(task)
            except BaseError:
                pass
        elif not task.cancelled():
            task.exception()  # otherwise asyncio complains that nobody retrieved it
        raise
    finally:
        state.task = None


def status(e):
    """Returns the exit status of a SystemExit."""
    code = e.code
    if code is None:
        return 0
    if isinstance(code, int):
        return int(code) & 0xff
    try:
        sys.stderr.write('%s\n' % (code,))
    except Exception:
        pass
    return 1


def leave_child(e):
    """Ends a process that a cell forked and that reached the end of the cell."""
    code = 0
    if isinstance(e, SystemExit):
        code = status(e)
    elif e is not None:
        code = 1
        try:
            e.__traceback__ = ours(e.__traceback__)
            sys.excepthook(type(e), e, e.__traceback__)
        except BaseError:
            pass
    try:
        flush()
    finally:
        posix._exit(code)


def forget():
    """Runs in each forked child, which must not use the protocol."""
    for fd in (channel,) + marks:
        try:
            posix.close(fd)
        except OSError:
            pass
