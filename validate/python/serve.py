# Answers requests on descriptor 3, each in a child of its own: a source may overflow the parser's
# stack, or make it take all memory, and that ends the child only.
import base64
import builtins
import json
import os
import re
import resource
import signal
import struct
import time
import tokenize
import warnings

WALL = 10  # seconds for one request
MEMORY = 1 << 30  # bytes, of address space
NESTED = 'it is nested too deeply, or takes too much memory to parse'
LONGEST = 8 << 20  # bytes of an answer


def analyse(request):
    source = base64.b64decode(request['source'])
    out = {'version': '%d.%d.%d' % sys.version_info[:3], 'problems': [], 'notes': [], 'missing': [], 'calls': [], 'unread': ''}
    flags = getattr(ast, 'PyCF_ALLOW_TOP_LEVEL_AWAIT', 0) if request.get('cell') else 0
    begins = [3 if source.startswith(b'\xef\xbb\xbf') else 0] + [m.end() for m in re.finditer(b'\r\n?|\n', source)]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter('always')
        try:
            # compile finds what the parser alone does not, such as a return outside of functions.
            text = decoded(source)
            text = notebook(text, flags) if request.get('notebook') else text
            compile(text, '<script>', 'exec', flags, True)
            tree = compile(text, '<script>', 'exec', flags | ast.PyCF_ONLY_AST, True)
        except (SyntaxError, ValueError) as e:
            at = -1
            if getattr(e, 'lineno', None):  # its offset counts characters
                at = begins[min(e.lineno, len(begins)) - 1]
                at += len(source[at:].decode('utf-8', 'replace')[:max(e.offset or 1, 1) - 1].encode('utf-8'))
            out['problems'].append({'at': at, 'text': str(getattr(e, 'msg', e))})
            return out
        except (RecursionError, MemoryError):
            out['unread'] = NESTED
            return out
    said = ['line %d: %s' % (w.lineno, w.message) for w in caught if issubclass(w.category, (SyntaxWarning, DeprecationWarning))]
    out['notes'] = list(dict.fromkeys(said))[:20]
    try:
        inspect(text, tree, request, out, begins)
    except (RecursionError, MemoryError):
        out['unread'] = NESTED
    return out


def notebook(text, flags):
    """Returns code that is no Python as what the drivers of sessions and runs make of it. Commands are those of a shell."""
    try:
        compile(text, '<script>', 'exec', flags, True)
    except SyntaxError:
        if isinstance(text, str):
            return translate(text, command) or text
    return text


def command(what, args, body=''):
    shell = {'!': args, '!!': args, '%sx': args, '%system': args, '%%bash': body, '%%sh': body, '%%script': body}.get(what)
    return 'None' if shell is None else '__import__("os").system(%r)' % shell


def inspect(text, tree, request, out, begins):
    def at(line, column):
        return begins[min(line, len(begins)) - 1] + column
    used, bound, local = symbols(text)
    for node, call in Calls(tree, local).wanted(set(request.get('calls') or ())):
        out['calls'].append(dict(call, at=at(node.lineno, node.col_offset)))
    if len(out['calls']) >= MAX_CALLS or sys.version_info < (3, 8):
        out['unread'] = 'there is too much in it, or this version of Python is older than 3.8'
    for name, statement, node in lacking(tree, used, bound | set(dir(builtins))):
        out['missing'].append({'at': at(node.lineno, node.col_offset), 'name': name, 'statement': statement})
    if out['missing']:
        out['insert'] = at(*gap(tree.body))


def gap(body):
    """Returns the line and the column where imports go: below the docstring and what must come before, above the rest."""
    first = next((n for i, n in enumerate(body) if not heads(i, n)), body[-1])
    return min([first.lineno] + [d.lineno for d in getattr(first, 'decorator_list', [])]), first.col_offset


def heads(i, node):
    doc = i == 0 and isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    return doc or isinstance(node, ast.ImportFrom) and node.module == '__future__'


def decoded(source):
    """Returns a source as text, since columns are then counted in characters by all versions; or as it
    is when its encoding is wrong, which the parser says best."""
    rest = iter([line + b'\n' for line in source.split(b'\n', 2)[:2]])
    try:
        return source.decode(tokenize.detect_encoding(lambda: next(rest, b''))[0])
    except Exception:
        return source


def child(request, to):
    signal.alarm(WALL)
    try:
        for fd in (1, 2):
            os.dup2(os.open(os.devnull, os.O_WRONLY), fd)
        for what, limit in ((resource.RLIMIT_AS, MEMORY), (resource.RLIMIT_CORE, 0)):
            hard = resource.getrlimit(what)[1]
            resource.setrlimit(what, (limit if hard == resource.RLIM_INFINITY else min(limit, hard), hard))
    except Exception:
        pass  # the alarm remains
    with open(to, 'wb') as f:
        f.write(json.dumps(analyse(json.loads(request.decode('utf-8')))).encode())


def apart(request):
    """Returns the answer of a child, or one that says what became of it. The child can't answer for later requests."""
    r, w = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(3)
            child(request, w)
        finally:
            os._exit(0)
    os.close(w)
    with open(r, 'rb') as f:
        whole = f.read(LONGEST)
    os.kill(pid, signal.SIGKILL)
    status = os.waitpid(pid, 0)[1]
    try:
        json.loads(whole.decode())
        return whole
    except ValueError:
        return json.dumps({'unread': 'it takes too much time to parse' if status == signal.SIGALRM else NESTED}).encode()


def serve():
    sys.dont_write_bytecode = True
    requests = open(3, 'rb', closefd=False)
    while True:
        head = requests.read(4)
        if len(head) < 4:
            return
        answer = apart(requests.read(struct.unpack('>I', head)[0]))
        with open(3, 'wb', closefd=False) as f:
            f.write(struct.pack('>I', len(answer)) + answer)


serve()
