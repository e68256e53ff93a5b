# What an expression stands for: the dotted path of a module's attribute, or constant text.

DEEPEST = 40  # levels of an expression that are followed
MAX_STEPS = 300000  # of one program


class Values(Program):
    """Follows names and attributes to what they are, without regard to the order of statements."""

    def paths(self, e, scope, depth=0):
        """Returns the dotted paths that an expression may stand for: {'os.system'}."""
        self.steps += 1
        if depth > DEEPEST or self.steps > MAX_STEPS:
            return frozenset()
        key = (id(e), id(scope))
        if key in self.memo:
            return self.memo[key]
        self.memo[key] = frozenset()  # while it is looked for: a name may be made of itself
        found = self.find(e, scope, depth)
        self.memo[key] = frozenset(sorted(found)[:8])
        return self.memo[key]

    def find(self, e, scope, depth):
        if isinstance(e, ast.Name):
            return self.name(e.id, scope, depth)
        if isinstance(e, ast.Attribute):
            return {member(p, e.attr) for p in self.paths(e.value, scope, depth + 1)}
        if isinstance(e, ast.Call):
            return self.called(e, scope, depth)
        if isinstance(e, ast.Subscript):
            key = self.text(index(e), scope, depth + 1)
            return self.item(self.paths(e.value, scope, depth + 1), key, depth) if isinstance(key, str) else set()
        if NAMED and isinstance(e, NAMED) or isinstance(e, ast.Await):
            return self.paths(e.value, scope, depth + 1)
        if isinstance(e, ast.IfExp):
            return self.paths(e.body, scope, depth + 1) | self.paths(e.orelse, scope, depth + 1)
        if isinstance(e, ast.BoolOp):
            return set().union(*(self.paths(v, scope, depth + 1) for v in e.values))
        if isinstance(e, ast.BinOp) and isinstance(e.op, ast.Div):
            return {p for p in self.paths(e.left, scope, depth + 1) if p.startswith('pathlib.')}
        return set()

    def name(self, name, scope, depth):
        bound = self.lookup(name, scope)
        if bound is None:
            if name == '__builtins__':
                return {'builtins'}
            if name in BUILTINS:
                return {'builtins.' + name}
            return unbound(name) | {m + '.' + name for m in self.stars[:4]}
        out = set()
        for kind, what, where in bound[:50]:
            if kind == 'path':
                out.add(SAME.get(what, what))
            elif kind == 'value':
                out |= self.paths(what, where, depth + 1)
        return out

    def called(self, e, scope, depth):
        out = set()
        args = [a for a in e.args if not isinstance(a, ast.Starred)]
        for p in self.paths(e.func, scope, depth + 1):
            first = self.text(args[0], scope, depth + 1) if args else None
            if p in ('builtins.__import__', 'importlib.import_module', 'importlib.__import__'):
                if isinstance(first, str):
                    whole = p == 'importlib.import_module'
                    path = first if whole else first.split('.')[0]
                    out.add(SAME.get(path, path))
            elif p == 'builtins.getattr' and len(args) > 1:
                key = self.text(args[1], scope, depth + 1)
                if isinstance(key, str):
                    out |= {member(q, key) for q in self.paths(args[0], scope, depth + 1)}
            elif p in ('builtins.globals', 'builtins.locals', 'builtins.vars') and not args:
                out.add('globals()')
            elif p == 'builtins.vars' and args:
                out |= {q + '.__dict__' for q in self.paths(args[0], scope, depth + 1)}
            elif p == 'functools.partial' and args:
                out |= self.paths(args[0], scope, depth + 1)
            elif p.endswith('.__dict__.get') and isinstance(first, str):
                out |= self.item({p[:-4]}, first, depth)
            elif p.endswith('.__getattribute__') and isinstance(first, str):
                out.add(member(p[:-len('.__getattribute__')], first))
            elif p.startswith('pathlib.') and p.split('.')[-1] in ('joinpath', 'resolve', 'absolute', 'expanduser', 'home', 'cwd'):
                out.add('pathlib.Path()')
            else:
                out.add(p + '()')
        return out

    def item(self, paths, key, depth):
        out = set()
        for p in paths:
            if p in ('sys.modules', 'sys.modules.get'):
                out.add(SAME.get(key, key))
            elif p == 'globals()':
                out |= self.name(key, self.module, depth + 1)
            elif p == 'builtins':
                out.add('builtins.' + key)
            elif p.endswith('.__dict__'):
                out.add(member(p[:-len('.__dict__')], key))
        return out

    def text(self, e, scope, depth=0):
        """Returns the constant that an expression is, or None. Text is put together as far as that
        needs nothing to be called that the program could have changed."""
        self.steps += 1
        if depth > DEEPEST or self.steps > MAX_STEPS:
            return None
        if isinstance(e, ast.Constant):
            return e.value
        if isinstance(e, ast.Name):
            bound = self.lookup(e.id, scope)
            if not bound or len(bound) != 1 or bound[0][0] != 'value':
                return None
            key = ('text', id(bound[0][1]))
            if key not in self.memo:
                self.memo[key] = None  # while it is looked for: a name may be made of itself
                self.memo[key] = self.text(bound[0][1], bound[0][2], depth + 1)
            return self.memo[key]
        if isinstance(e, ast.BinOp) and isinstance(e.op, ast.Add):
            return self.joined(e, scope, depth)
        if isinstance(e, ast.UnaryOp) and isinstance(e.op, ast.USub):
            n = self.text(e.operand, scope, depth + 1)
            return -n if type(n) in (int, float) else None
        if isinstance(e, ast.JoinedStr):
            parts = [self.text(v.value if isinstance(v, ast.FormattedValue) else v, scope, depth + 1) for v in e.values]
            return short(''.join(parts)) if all(isinstance(p, str) for p in parts) else None
        if isinstance(e, ast.Subscript) and isinstance(e.slice, ast.Slice):
            s = e.slice
            value = self.text(e.value, scope, depth + 1)
            if isinstance(value, (str, bytes)) and s.lower is None and s.upper is None and s.step \
                    and self.text(s.step, scope, depth + 1) == -1:
                return value[::-1]
            return None
        if isinstance(e, ast.Call):
            return self.made(e, scope, depth)
        return None

    def joined(self, e, scope, depth):
        """Adds a + b + c ... without going down as deep as it is long."""
        parts = []
        while isinstance(e, ast.BinOp) and isinstance(e.op, ast.Add):
            parts.append(e.right)
            e = e.left
        values = [self.text(p, scope, depth + 1) for p in [e] + parts[::-1]]
        if all(isinstance(v, str) for v in values):
            return short(''.join(values))
        if all(isinstance(v, bytes) for v in values):
            return short(b''.join(values))
        return None

    def made(self, e, scope, depth):
        if isinstance(e.func, ast.Attribute):
            value = self.text(e.func.value, scope, depth + 1)
            if isinstance(value, str) and e.func.attr == 'join' and len(e.args) == 1 and isinstance(e.args[0], (ast.List, ast.Tuple)):
                parts = [self.text(x, scope, depth + 1) for x in e.args[0].elts]
                return short(value.join(parts)) if all(isinstance(p, str) for p in parts) else None
            if isinstance(value, bytes) and e.func.attr == 'decode' and not e.args:
                return value.decode('utf-8', 'replace')
            if isinstance(value, str) and e.func.attr in ('lower', 'upper', 'strip') and not e.args:
                return getattr(value, e.func.attr)()
        if self.paths(e.func, scope, depth + 1) == {'builtins.chr'} and len(e.args) == 1:
            n = self.text(e.args[0], scope, depth + 1)
            return chr(n) if type(n) is int and 0 <= n < 0x110000 else None
        return None

    def place(self, e, scope, depth=0):
        """Returns the path of a file as far as it is known: '~/.ssh/config'. Otherwise None."""
        self.steps += 1
        if self.steps > MAX_STEPS:
            return None
        value = self.text(e, scope, depth)
        if isinstance(value, bytes):
            value = value.decode('utf-8', 'replace')
        if isinstance(value, str):
            return value
        if depth > DEEPEST:
            return None
        if isinstance(e, ast.Name):
            bound = self.lookup(e.id, scope)
            if bound and len(bound) == 1 and bound[0][0] == 'value':
                return self.place(bound[0][1], bound[0][2], depth + 1)
        if isinstance(e, ast.BinOp) and isinstance(e.op, (ast.Div, ast.Add)):
            left, right = self.place(e.left, scope, depth + 1), self.place(e.right, scope, depth + 1)
            if left is None:
                return None
            sep = '/' if isinstance(e.op, ast.Div) else ''
            return left + sep + (right or '?')
        if isinstance(e, ast.JoinedStr) and e.values:
            out = ''
            for v in e.values:
                part = self.place(v.value if isinstance(v, ast.FormattedValue) else v, scope, depth + 1)
                out += part if part is not None else '?'
            return None if out.startswith('?') else out
        if isinstance(e, ast.Subscript):
            return '~' if 'os.environ' in self.paths(e.value, scope) and self.text(index(e), scope) == 'HOME' else None
        if isinstance(e, ast.Call):
            return self.placed(e, scope, depth)
        return None

    def placed(self, e, scope, depth):
        known = self.paths(e.func, scope, depth + 1)
        first = e.args[0] if e.args else None
        if 'pathlib.Path.home' in known:
            return '~'
        if known & {'os.getenv', 'os.environ.get'} and first is not None:
            return '~' if self.text(first, scope) == 'HOME' else None
        if 'os.path.join' in known or any(p.endswith('Path') and p.startswith('pathlib.') for p in known):
            parts = [self.place(a, scope, depth + 1) for a in e.args]
            if not parts or parts[0] is None:
                return None
            out = parts[0]
            for p in parts[1:]:
                out = p if p and p.startswith('/') else out + '/' + (p or '?')
            return out
        if known & {'os.path.expanduser', 'os.path.abspath', 'os.path.realpath', 'builtins.str', 'os.fspath'} and first is not None:
            return self.place(first, scope, depth + 1)
        if isinstance(e.func, ast.Attribute) and e.func.attr in ('expanduser', 'resolve', 'absolute', 'joinpath'):
            out = self.place(e.func.value, scope, depth + 1)
            for a in e.args if out is not None else []:
                out += '/' + (self.place(a, scope, depth + 1) or '?')
            return out
        return None


def unbound(name):
    """Returns what a name would be, were its missing import there."""
    if name in FROMS:
        return {FROMS[name] + '.' + name}
    if name in ALIASES:
        return {ALIASES[name]}
    return {SAME.get(name, name)} if name in MODULES or name in OTHERS else set()


def member(path, name):
    if name == '__self__' and path.startswith('builtins.'):
        return 'builtins'
    path += '.' + name
    return SAME.get(path, path)


def index(e):
    """Returns the key of a subscript; before 3.9 it stood in a node of its own."""
    return getattr(e.slice, 'value', e.slice) if type(e.slice).__name__ == 'Index' else e.slice


def short(value):
    return value if len(value) <= 1 << 16 else value[:1 << 16]
