# Answers requests on descriptor 3, each in a child of its own: a source may overflow the parser's
# stack, or make it take all memory, and that ends the child only.
import base64
import json
import os
import resource
import select
import signal
import struct
import time
import tokenize
import warnings

WALL = 10  # seconds for one request
MEMORY = 1 << 30  # bytes, of address space
LONGEST = 8 << 20  # bytes of an answer


def analyse(request):
    source = base64.b64decode(request['source'])
    out = {'version': '%d.%d.%d' % sys.version_info[:3], 'problems': [], 'notes': [], 'missing': [],
           'dangers': [], 'commands': [], 'written': [], 'unread': ''}
    flags = getattr(ast, 'PyCF_ALLOW_TOP_LEVEL_AWAIT', 0) if request.get('cell') else 0
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter('always')
        try:
            # compile finds what the parser alone does not, such as a return outside of functions.
            text = decoded(source)
            text = notebook(text, flags) if request.get('notebook') else text
            compile(text, '<script>', 'exec', flags, True)
            tree = compile(text, '<script>', 'exec', flags | ast.PyCF_ONLY_AST, True)
        except SyntaxError as e:
            out['problems'].append({'line': e.lineno or 0, 'column': max(e.offset or 1, 1), 'text': str(e.msg)})
            return out
        except ValueError as e:
            out['problems'].append({'line': 0, 'column': 0, 'text': str(e)})
            return out
        except (RecursionError, MemoryError):
            out['unread'] = 'nested'
            return out
    seen = set()
    for w in caught:
        key = (w.lineno, str(w.message))
        if issubclass(w.category, (SyntaxWarning, DeprecationWarning)) and key not in seen and len(seen) < 20:
            seen.add(key)
            out['notes'].append({'line': w.lineno, 'text': str(w.message)})
    if sys.version_info < (3, 8):
        out['unread'] = 'old'
        return out
    lines = text.replace('\r\n', '\n').replace('\r', '\n').split('\n') if isinstance(text, str) else []
    try:
        inspect(tree, request, out, lines)
    except (RecursionError, MemoryError):
        out['unread'] = 'nested'
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


def inspect(tree, request, out, lines):
    m = Missing(tree)
    m.inspect()
    for rule, node in m.found:
        out['dangers'].append(dict(place(node, lines), rule=rule))
    for text, node in m.commands:
        out['commands'].append(dict(place(node, lines), text=text[:4096]))
    for path, below, node in m.written:
        out['written'].append(dict(place(node, lines), text=path[:4096], below=below))
    for name, statement, node in m.lacking(set(request.get('known') or ())):
        out['missing'].append(dict(place(node, lines), name=name, statement=statement))
    if m.steps > MAX_STEPS or len(m.found) >= MAX_DANGERS:
        out['unread'] = 'much'
    if out['missing']:
        out['insert'] = gap(tree.body, lines)


def gap(body, lines):
    """Returns where an import goes: below the docstring and what must come before, above the rest."""
    first = next((n for i, n in enumerate(body) if not heads(i, n)), body[-1])
    line = min([first.lineno] + [d.lineno for d in getattr(first, 'decorator_list', [])])
    above = body[body.index(first) - 1] if body.index(first) else None
    shared = above is not None and getattr(above, 'end_lineno', 0) == line
    return {'line': line, 'column': place(first, lines)['column'] if shared else 1, 'inline': shared}


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


def place(node, lines):
    """Returns where a node begins. The parser counts the bytes of UTF-8."""
    line = node.lineno
    text = lines[line - 1] if 0 < line <= len(lines) else ''
    column = node.col_offset if text.isascii() else len(text.encode('utf-8', 'replace')[:node.col_offset].decode('utf-8', 'replace'))
    return {'line': line, 'column': column + 1}


def child(request, to):
    try:
        for fd, path in ((1, os.devnull), (2, os.devnull)):
            null = os.open(path, os.O_WRONLY)
            os.dup2(null, fd)
        for what, limit in ((resource.RLIMIT_AS, MEMORY), (resource.RLIMIT_CPU, WALL), (resource.RLIMIT_CORE, 0)):
            hard = resource.getrlimit(what)[1]
            limit = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
            resource.setrlimit(what, (limit, hard))
    except Exception:
        pass  # the clock of the parent remains
    answer = json.dumps(analyse(json.loads(request.decode('utf-8')))).encode()
    while answer:
        answer = answer[os.write(to, answer[:1 << 16]):]


def apart(request):
    """Returns the answer of a child, or one that says what became of it."""
    r, w = os.pipe()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            os.close(r)
            os.close(3)
            child(request, w)
            code = 0
        except BaseException as e:
            code = 3 if isinstance(e, (MemoryError, RecursionError)) else 1
        finally:
            os._exit(code)
    os.close(w)
    parts, size, until = [], 0, time.monotonic() + WALL
    while size < LONGEST:
        ready = select.select([r], [], [], max(0, until - time.monotonic()))[0]
        part = os.read(r, 1 << 16) if ready else None
        if not part:
            break
        parts.append(part)
        size += len(part)
    os.close(r)
    try:
        os.kill(pid, signal.SIGKILL)
    except OSError:
        pass
    status = os.waitpid(pid, 0)[1]
    whole = b''.join(parts)
    try:
        json.loads(whole.decode())
        return whole
    except ValueError:
        why = 'time' if status == signal.SIGKILL and part is None else 'nested'
        return json.dumps({'unread': why}).encode()


def exactly(n):
    parts = []
    while n:
        part = os.read(3, min(n, 1 << 20))
        if not part:
            os._exit(0)
        parts.append(part)
        n -= len(part)
    return b''.join(parts)


def serve():
    sys.dont_write_bytecode = True
    while True:
        request = exactly(struct.unpack('>I', exactly(4))[0])
        answer = apart(request)
        answer = struct.pack('>I', len(answer)) + answer
        while answer:
            answer = answer[os.write(3, answer[:1 << 16]):]


serve()
