# Functions that a caller outside the sandbox performs. A call is sent over the private descriptor, and its answer
# comes back on it while the cell runs: from the first call of a cell to the next request, a thread reads all
# messages.

CALLS_MAX = 128           # at a time
ARGUMENTS_MAX = 256 << 10  # bytes


class ToolError(Exception):
    """A tool has failed, or its answer did not come."""


ToolError.__module__ = 'tools'


class calls:
    """The calls of the running cell."""
    number = 0      # of the last call
    waiting = {}    # number -> [a lock, the answer]
    open = False    # a cell is running
    guard = _thread.allocate_lock()
    reader = None   # a lock that is free when the thread has ended; None without one
    offered = module = None  # the tools, and the module that contains them
    request = None  # the thread's last message


def offer(tools):
    """Makes the module tools."""
    if tools == calls.offered:
        modules['tools'] = calls.module
        return
    calls.offered, calls.module = tools, module_of(tools)
    modules['tools'] = calls.module


def module_of(tools):
    module = type(sys)('tools', 'Functions outside of the sandbox. One that fails raises ToolError.')
    module.ToolError = ToolError
    for tool in tools:
        setattr(module, tool['name'], function_of(tool['name'], tool['about'], tool['params'] or []))
    return module


def function_of(name, about, params):
    def function(*args, **named):
        return call(name, params, args, named)
    function.__name__ = function.__qualname__ = name
    function.__module__ = 'tools'
    function.__doc__ = '%s(%s)\n\n%s' % (name, ', '.join(params), about)
    return function


def call(name, params, args, named):
    if len(args) > len(params):
        raise TypeError('%s() takes %d positional arguments but %d were given' % (name, len(params), len(args)))
    for key, value in zip(params, args):
        if key in named:
            raise TypeError("%s() got multiple values for argument '%s'" % (name, key))
        named[key] = value
    named = plain(named, 0)
    size = len(encode(named))
    if size > ARGUMENTS_MAX:
        raise ToolError('the arguments take %d bytes as JSON, more than %d' % (size, ARGUMENTS_MAX))
    entry = [_thread.allocate_lock(), None]
    entry[0].acquire()
    with calls.guard:
        if not calls.open or posix.getpid() != PID:
            raise ToolError('tools can be called while a cell runs, in the process of the session')
        if len(calls.waiting) >= CALLS_MAX:
            raise ToolError('%d calls at a time are the most' % CALLS_MAX)
        calls.number += 1
        number = calls.number
        calls.waiting[number] = entry
        if calls.reader is None:
            calls.reader = _thread.allocate_lock()
            calls.reader.acquire()
            _thread.start_new_thread(read_answers, ())
    try:
        send({'op': 'call', 'id': state.cell, 'call': number, 'name': name, 'args': named})
        while not entry[0].acquire(True, 1):  # a signal just before the wait does not end it
            pass
    finally:
        calls.waiting.pop(number, None)
    if 'error' in entry[1]:
        raise ToolError(entry[1]['error'])
    return entry[1]['value']


def read_answers():
    body = read_frame()
    while body and is_answer(body):
        number = int(body.partition(b'"call":')[2].partition(b',')[0])  # nothing before it can contain this text
        try:
            answer = decode(body.decode())
        except BaseError as e:  # such as no memory
            answer = {'error': short(e)}
        end_call(number, answer)
        body = answer = None
        body = read_frame()
    calls.request = body
    calls.reader.release()


def is_answer(body):
    return body.startswith(b'{"op":"answer"')


def end_call(number, answer):
    entry = calls.waiting.pop(number, None)
    if entry is not None:
        entry[1] = answer
        entry[0].release()


def end_calls():
    """Ends the calls in progress: none is performed after the cell's end."""
    with calls.guard:
        calls.open = False
    for number in list(calls.waiting):
        end_call(number, {'error': 'the cell has ended'})


def read_frame():
    head = receive(4)
    return head and receive(int.from_bytes(head, 'big'))


def next_request():
    while calls.reader is not None:
        try:
            calls.reader.acquire()
        except BaseError as e:
            strayed(e)
            continue
        calls.reader, body = None, calls.request
        calls.request = None
        return body
    while True:
        body = read_frame()
        if not body or not is_answer(body):
            return body
