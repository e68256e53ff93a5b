def answer(frame):
    op = frame['op']
    settle()
    if op == 'run':
        return run(frame)
    done = {'op': 'done', 'id': frame['id']}
    e = None
    if op == 'get':
        done['json'], e = guarded(get, frame['key'])
    elif op == 'set':
        _, e = guarded(put, frame['key'], frame['value'])
    elif op == 'vars':
        done['vars'], e = guarded(variables)
        done['vars'] = done['vars'] or []
    else:
        e = ValueError('the driver knows no %s' % op)
    if e is not None:
        done['error'] = {'type': type(e).__name__, 'message': short(e).partition(': ')[2], 'traceback': ''}
    return done


def serve():
    send({'op': 'ready', 'version': sys.version.split()[0]})
    while True:
        body = next_request()
        if not body:
            return
        number = int(body.partition(b'"id":')[2].partition(b',')[0])  # op, before it, can't contain this text
        frame = None
        try:
            frame = decode(body.decode())
            del body
            done = answer(frame)
        except BaseError as e:  # such as no memory, too deep a value, or from a signal's handler
            done = {'op': 'done', 'id': number, 'error': {'type': type(e).__name__, 'message': short(e), 'traceback': ''}}
        state.cell = 0
        body = frame = None
        send(done)
        del done


for name in ('posix', 'scanstring', 'read', 'space', 'part'):
    main.__dict__.pop(name, None)
state.mine = frozenset(main.__dict__)
sys.argv[:] = ['']
builtins.display = display
builtins.input = refuse_input
sys.stdout = sys.__stdout__ = stream(1)
sys.stderr = sys.__stderr__ = stream(2)
posix.register_at_fork(before=flush, after_in_child=forget)
_signal.signal(_signal.SIGINT, on_interrupt)
try:
    serve()
except OSError:
    posix._exit(1)  # the host is gone
