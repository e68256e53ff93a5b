# The nodes of a program that the host's rules look at: calls, imports, special attributes, changes of members. Names
# are followed through imports and no further.
import ast
import shlex

UNKNOWN = '\ufffd'  # stands for what only running the program tells
MAX_CALLS = 1000  # of one program; more tell nothing new
DEEPEST = 40  # levels of an expression that are followed
PLACES = {'pathlib.Path', 'pathlib.PurePath', 'os.path.join', 'os.path.expanduser', 'os.path.abspath', 'str'}
IMPORTERS = {'__import__', 'importlib.import_module'}
WAITS = {'wait', 'waitpid', 'wait3', 'wait4', 'sleep', 'pause', 'join'}


class Calls:
    """Lists the nodes whose paths are wanted. Names that are bound in other ways than by imports have no path."""

    def __init__(self, tree, bound):
        self.tree, self.bound = tree, bound
        self.names = dict(ALIASES, **{name: module + '.' + name for name, module in FROMS.items()})
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                for a in node.names:
                    path = a.name if a.asname else a.name.split('.')[0]
                    self.imported(a.asname or path, path)
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                for a in node.names:
                    self.imported(a.asname or a.name, node.module + '.' + a.name)

    def imported(self, name, path):
        self.names[name] = path[len('builtins.'):] if path.startswith('builtins.') else path
        self.bound.discard(name)

    def path(self, e, depth=0):
        """Returns the dotted path of what an expression names: os.system; '' stands for what is not known."""
        if depth > DEEPEST:
            return ''
        if isinstance(e, ast.Name):
            return '' if e.id in self.bound else self.names.get(e.id, e.id)
        if isinstance(e, ast.Attribute):
            path = self.path(e.value, depth + 1) + '.' + e.attr
            return path[len('builtins.'):] if path.startswith('builtins.') else path
        if isinstance(e, ast.Subscript):
            return self.path(e.value, depth + 1) + '[]'
        if isinstance(e, ast.Call):
            path = self.path(e.func, depth + 1)
            module = self.text(e.args[0], depth + 1) if path in IMPORTERS and e.args else UNKNOWN
            return path + '()' if UNKNOWN in module else module
        return ''

    def text(self, e, depth=0):
        """Returns the text of an expression as far as it is written there, of a list its words."""
        if depth > DEEPEST:
            return UNKNOWN
        if isinstance(e, ast.Constant):
            return e.value.decode('utf-8', 'replace') if isinstance(e.value, bytes) else str(e.value)
        if isinstance(e, ast.UnaryOp) and isinstance(e.op, ast.USub):
            return '-' + self.text(e.operand, depth + 1)
        if isinstance(e, ast.JoinedStr):
            return ''.join(v.value if isinstance(v, ast.Constant) else UNKNOWN for v in e.values)
        if isinstance(e, ast.BinOp):
            return self.text(e.left, depth + 1).split(UNKNOWN)[0] + UNKNOWN
        if isinstance(e, (ast.List, ast.Tuple)):
            return ' '.join(shlex.quote(self.text(x, depth + 1)) for x in e.elts)
        path = self.path(e, depth + 1)
        if isinstance(e, ast.Call) and e.args and path[:-len('()')] in PLACES:
            return self.text(e.args[0], depth + 1) + ('/' + UNKNOWN if len(e.args) > 1 else '')
        return UNKNOWN + path

    def wanted(self, paths):
        """Returns (node, what rules look at) of each node with such a path."""
        found = []
        for node in ast.walk(self.tree):  # loops come before what is in them
            if isinstance(node, ast.While) and self.endless(node):
                for inner in ast.walk(node):
                    inner.loop = True
            for path in self.described(node):
                if path in paths and len(found) < MAX_CALLS:
                    found.append((node, self.call(node, path)))
        return found

    def described(self, node):
        if isinstance(node, ast.Call):
            path = self.path(node.func)
            return [path, 'loop:' + path] if hasattr(node, 'loop') else [path]
        if isinstance(node, ast.Import):
            return ['import:' + a.name.split('.')[0] for a in node.names]
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            return ['import:' + node.module.split('.')[0]]
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
            return ['member:' + node.attr]
        targets = getattr(node, 'targets', []) if isinstance(node, (ast.Assign, ast.Delete)) else []
        members = [t for t in targets if isinstance(t, (ast.Attribute, ast.Subscript))]
        return ['set:' + p for t in members for p in (self.path(t.value), getattr(t, 'attr', ''))]

    def call(self, node, path):
        args, named = getattr(node, 'args', []), getattr(node, 'keywords', [])
        of = self.path(node.value) if isinstance(node, ast.Attribute) else ''
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            of = self.text(node.func.value)
        inner = [self.path(n.func) for a in args for n in ast.walk(a) if isinstance(n, ast.Call)]
        return {'path': path, 'of': of[:4096], 'args': [self.text(a)[:1 << 14] for a in args[:50]], 'inner': inner[:50],
                'named': {k.arg: self.text(k.value)[:4096] for k in named[:50] if k.arg}}

    def endless(self, loop):
        """Says whether nothing in a loop ends it or waits."""
        stops = (n for n in ast.walk(loop) if isinstance(n, (ast.Break, ast.Return))
                 or isinstance(n, ast.Call) and getattr(n.func, 'attr', '') in WAITS)
        return isinstance(loop.test, ast.Constant) and bool(loop.test.value) and next(stops, None) is None
