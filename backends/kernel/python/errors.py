def failure(e):
    """Describes the exception of a cell."""
    name = type(e).__name__[:200]
    message, fault = guarded(message_of, e)
    if fault is not None:  # it was interrupted
        message = 'str() of it raised ' + type(fault).__name__
    text = None
    if fault is None:
        text, fault = guarded(trace_text, e)
    if fault is not None:
        text = simple_trace(e, name + ': ' + message)
    return {'type': name, 'message': message, 'traceback': text}


def simple_trace(e, last):
    """Reports where e was raised, if memory or functions broken by the cell permit no more."""
    lines, tb = [], ours(e.__traceback__)
    while tb is not None and len(lines) < 100:
        code = tb.tb_frame.f_code
        lines.append('  File "%s", line %s, in %s\n' % (code.co_filename, tb.tb_lineno, code.co_name))
        tb = tb.tb_next
    return 'Traceback (most recent call last):\n' + ''.join(lines) + last + '\n'


def message_of(e):
    try:
        if isinstance(e, SyntaxError) and isinstance(e.msg, str):
            return cut(e.msg + (' (line %d)' % e.lineno if isinstance(e.lineno, int) else ''), MESSAGE_MAX)
        return cut(str(e), MESSAGE_MAX)
    except Exception as fault:
        return '<str() of it raised %s>' % type(fault).__name__


def trace_text(e):
    bring('linecache')
    traceback = bring('traceback')
    e.__traceback__ = ours(e.__traceback__)
    more = {'compact': True} if sys.version_info >= (3, 10) else {}  # otherwise long chains take long
    t = traceback.TracebackException(type(e), e, e.__traceback__, **more)
    seen, todo = set(), [t]
    while todo:
        t1 = todo.pop()
        if t1 is None or id(t1) in seen:
            continue
        seen.add(id(t1))
        if t1.stack is not None:
            t1.stack[:] = [f for f in t1.stack if f.filename != DRIVER]
        todo += [t1.__cause__, t1.__context__] + list(getattr(t1, 'exceptions', None) or ())
    lines = list(t.format()) if t.stack or t.__cause__ or t.__context__ or getattr(t, 'exceptions', None) else list(t.format_exception_only())
    return bounded(''.join(lines))


def ours(tb):
    """Returns the traceback from the first frame of a cell on."""
    t = tb
    while t is not None and t.tb_frame.f_code.co_filename not in state.sources:
        t = t.tb_next
    if t is not None:
        return t
    while tb is not None and tb.tb_frame.f_code.co_filename == DRIVER:
        tb = tb.tb_next
    return tb


def bounded(text):
    """Cuts the middle out of a long traceback: the first frames and the message are at its ends."""
    if len(text) <= TRACEBACK_MAX:
        return text
    head, tail = text[:TRACEBACK_MAX // 4], text[-TRACEBACK_MAX * 3 // 4:]
    return '%s\n[%d characters are left out]\n%s' % (head, len(text) - len(head) - len(tail), tail)
