AST_ONLY, FUTURES = 0x400, 0x1fe0000  # from CPython's compile.h and code.h


def units(code, name, flags):
    """Compiles a program. Returns its parts, and whether the last is an expression that has a value. All is
    compiled before any of it runs: an error in the last line must be reported before the others run.
    """
    try:
        tree = compile(code, name, 'exec', flags | AST_ONLY, True)
    except SyntaxError:
        code = notebook(code)
        if code is None:
            raise
        tree = compile(code, name, 'exec', flags | AST_ONLY, True)
    last = None
    if tree.body and type(tree.body[-1]) is _ast.Expr and not silenced(code, tree.body[-1]):
        last = _ast.Expression(tree.body.pop().value)
    parts = []
    if tree.body:
        parts.append(compile(tree, name, 'exec', flags, True))
        flags |= parts[0].co_flags & FUTURES
    if last is not None:
        parts.append(compile(last, name, 'eval', flags, True))
    return parts, last is not None


def silenced(code, last):
    """Reports whether the last expression ends in a semicolon, which means that its value should not be
    displayed.
    """
    if isinstance(code, bytes):
        code = code.decode('utf-8', 'replace')
    if ';' not in code:
        return False
    lines = code.replace('\r\n', '\n').replace('\r', '\n').split('\n')
    rest = lines[last.end_lineno - 1].encode()[last.end_col_offset:]
    return rest.lstrip(b' \t\f\\').startswith(b';')


def notebook(code):
    """Converts notebook syntax in code that is not valid Python; returns None if there is none."""
    if isinstance(code, bytes):
        code = code.decode('utf-8', 'replace')
    if '!' not in code and '%' not in code:
        return None
    tools = {'__name__': 'notebook'}
    exec(compile(NOTEBOOK, DRIVER, 'exec'), tools)
    builtins.__notebook__ = tools['notebook']
    return tools['translate'](code)
