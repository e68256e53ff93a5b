# What names of a program stand for: scopes and bindings, gathered in one walk over the syntax tree.
# Nothing here recurses as deep as the tree does, and nothing of the program is run.
import ast
import builtins
import sys

BUILTINS = set(dir(builtins)) | {'exit', 'quit', 'copyright', 'credits', 'license', 'help'}

# Older versions can't list their library. These are the modules that scripts use.
MODULES = getattr(sys, 'stdlib_module_names', None) or set(sys.builtin_module_names) | set('''
abc argparse array ast asyncio atexit base64 binascii bisect bz2 calendar cmath code codecs collections
concurrent configparser contextlib copy csv ctypes datetime decimal difflib dis email enum errno fnmatch fractions
ftplib functools gc getpass glob gzip hashlib heapq hmac html http imaplib importlib inspect io ipaddress itertools
json keyword linecache locale logging lzma marshal math mimetypes mmap multiprocessing numbers operator os pathlib
pickle platform pprint queue random re resource select shelve shlex shutil signal smtplib socket socketserver sqlite3
ssl stat statistics string struct subprocess sys tarfile tempfile textwrap threading time timeit token tokenize
traceback types typing unicodedata unittest urllib uuid warnings wave weakref xml xmlrpc zipfile zlib'''.split())

# Other names of modules.
SAME = {'posix': 'os', 'nt': 'os', '_pickle': 'pickle', 'cPickle': 'pickle', '_ctypes': 'ctypes',
        '_socket': 'socket', '__builtin__': 'builtins', '_io': 'io', 'posixpath': 'os.path'}

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
NAMED = getattr(ast, 'NamedExpr', ())
MATCHED = tuple(getattr(ast, n) for n in ('MatchAs', 'MatchStar') if hasattr(ast, n))
MATCHED_REST = getattr(ast, 'MatchMapping', ())
TYPE_ALIAS = getattr(ast, 'TypeAlias', ())
TYPE_PARAMS = tuple(getattr(ast, n) for n in ('TypeVar', 'ParamSpec', 'TypeVarTuple') if hasattr(ast, n))
MARKS = (ast.expr_context, ast.operator, ast.unaryop, ast.cmpop, ast.boolop)  # nodes that stand nowhere
TRIES = tuple(getattr(ast, n) for n in ('Try', 'TryStar') if hasattr(ast, n))

BINDING = set(FUNCTIONS + COMPREHENSIONS + MATCHED + TYPE_PARAMS + TRIES + (
    ast.ClassDef, ast.Name, ast.Import, ast.ImportFrom, ast.Assign, ast.AnnAssign, ast.ExceptHandler, ast.Global,
    ast.Nonlocal, ast.While, ast.For)) | {t for t in (NAMED, MATCHED_REST) if t}


class Scope:
    """One module, function, class or comprehension."""

    def __init__(self, kind, parent=None):
        self.kind, self.parent = kind, parent
        self.bound = {}  # name -> [(kind, what, scope)]; kind is 'path', 'value' or 'other'
        self.globals, self.nonlocals = set(), set()

    def bind(self, name, kind='other', what=None):
        self.bound.setdefault(name, []).append((kind, what, self))


class Site:
    """Where a node stands."""

    __slots__ = ('scope', 'loop', 'function', 'guarded', 'annotation')

    def __init__(self, scope, loop=None, function=None, guarded=False, annotation=False):
        self.scope, self.loop, self.function = scope, loop, function
        self.guarded, self.annotation = guarded, annotation

    def but(self, **changes):
        s = Site(self.scope, self.loop, self.function, self.guarded, self.annotation)
        for key, value in changes.items():
            setattr(s, key, value)
        return s


class Program:
    """The names of a module."""

    def __init__(self, tree):
        self.module = Scope('module')
        self.nodes = []  # (node, Site), for the rules
        self.kinds = {}  # the same by type
        self.scopes = [self.module]
        self.star = False
        self.stars = []  # the modules that give names which are not seen here
        self.future = False  # annotations are not evaluated
        self.steps = 0
        self.memo = {}
        self.walk(tree)
        self.settle()

    def walk(self, tree):
        stack = [(tree, Site(self.module))]
        while stack:
            node, site = stack.pop()
            kind = type(node)
            self.nodes.append((node, site))
            self.kinds.setdefault(kind, []).append((node, site))
            if kind in BINDING:
                stack.extend(reversed(self.enter(node, site)))
            elif kind is not ast.Constant:
                stack.extend([(n, site) for n in below(node)][::-1])

    def scope(self, kind, parent):
        s = Scope(kind, parent)
        self.scopes.append(s)
        return s

    def enter(self, node, site):
        """Notes what a node binds, and returns its children with their sites."""
        if isinstance(node, FUNCTIONS):
            return self.function(node, site)
        if isinstance(node, ast.ClassDef):
            site.scope.bind(node.name)
            inner = site.but(scope=self.scope('class', site.scope), loop=None)
            inside = site.but(scope=self.scope('function', site.scope)) if getattr(node, 'type_params', None) else site
            out = [(n, site) for n in node.decorator_list]
            out += [(n, inside) for n in getattr(node, 'type_params', [])]
            out += [(n, inside) for n in node.bases + node.keywords]
            if inside is not site:
                inner.scope.parent = inside.scope
            return out + [(n, inner) for n in node.body]
        if isinstance(node, COMPREHENSIONS):
            return self.comprehension(node, site)
        self.bindings(node, site.scope)
        if isinstance(node, ast.Name):
            return []
        if isinstance(node, TRIES) and any(forgives(h) for h in node.handlers):
            out = [(n, site.but(guarded=True)) for n in node.body]
            return out + [(n, site) for n in node.handlers + node.orelse + node.finalbody]
        if isinstance(node, (ast.While, ast.For)):
            inner = site.but(loop=node)
            heads = [node.test] if isinstance(node, ast.While) else [node.target, node.iter]
            return [(n, site) for n in heads] + [(n, inner) for n in node.body] + [(n, site) for n in node.orelse]
        if isinstance(node, ast.AnnAssign):
            out = [(node.target, site), (node.annotation, site.but(annotation=True))]
            return out + ([(node.value, site)] if node.value else [])
        return [(n, site) for n in below(node)]

    def function(self, node, site):
        inner = site.but(scope=self.scope('function', site.scope), loop=None, function=node)
        a = node.args
        named = getattr(a, 'posonlyargs', []) + a.args + a.kwonlyargs + [x for x in (a.vararg, a.kwarg) if x]
        out = []
        if not isinstance(node, ast.Lambda):
            site.scope.bind(node.name)
            out += [(n, site) for n in node.decorator_list]
            out += [(n, inner) for n in getattr(node, 'type_params', [])]
            typed = inner if getattr(node, 'type_params', None) else site
            notes = [x.annotation for x in named] + [node.returns]
            out += [(n, typed.but(annotation=True)) for n in notes if n]
        out += [(n, site) for n in a.defaults + a.kw_defaults if n]
        for x in named:
            inner.scope.bind(x.arg)
        body = [node.body] if isinstance(node, ast.Lambda) else node.body
        return out + [(n, inner) for n in body]

    def comprehension(self, node, site):
        inner = site.but(scope=self.scope('comprehension', site.scope), loop=node)
        out = [(node.generators[0].iter, site)]
        for i, g in enumerate(node.generators):
            out.append((g.target, inner))
            if i:
                out.append((g.iter, inner))
            out += [(n, inner) for n in g.ifs]
        parts = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
        return out + [(n, inner) for n in parts if n]

    def bindings(self, node, scope):
        if isinstance(node, ast.Name):
            if not isinstance(node.ctx, ast.Load) and not getattr(node, 'valued', False):
                scope.bind(node.id)
        elif isinstance(node, ast.Import):
            for a in node.names:
                path = a.name if a.asname else a.name.split('.')[0]
                scope.bind(a.asname or path, 'path', SAME.get(path, path))
        elif isinstance(node, ast.ImportFrom):
            self.imported(node, scope)
        elif isinstance(node, ast.Assign):
            for t in node.targets:
                self.assigned(t, node.value, scope)
        elif isinstance(node, ast.AnnAssign) and node.value:
            self.assigned(node.target, node.value, scope)
        elif NAMED and isinstance(node, NAMED):
            while scope.kind == 'comprehension':
                scope = scope.parent
            self.assigned(node.target, node.value, scope)
        elif isinstance(node, ast.ExceptHandler) and node.name:
            scope.bind(node.name)
        elif isinstance(node, ast.Global):
            scope.globals.update(node.names)
        elif isinstance(node, ast.Nonlocal):
            scope.nonlocals.update(node.names)
        elif MATCHED and isinstance(node, MATCHED) and node.name:
            scope.bind(node.name)
        elif MATCHED_REST and isinstance(node, MATCHED_REST) and node.rest:
            scope.bind(node.rest)
        elif TYPE_PARAMS and isinstance(node, TYPE_PARAMS):
            scope.bind(node.name)

    def imported(self, node, scope):
        if node.module == '__future__':
            self.future |= any(a.name == 'annotations' for a in node.names)
        for a in node.names:
            if a.name == '*':
                self.star = True
                if node.module and not node.level:
                    self.stars.append(SAME.get(node.module, node.module))
            elif node.level or not node.module:
                scope.bind(a.asname or a.name)
            else:
                scope.bind(a.asname or a.name, 'path', SAME.get(node.module, node.module) + '.' + a.name)

    def assigned(self, target, value, scope):
        """Remembers what a plain name was set to, also in a, b = x, y."""
        if isinstance(target, ast.Name):
            target.valued = True
            scope.bind(target.id, 'value', value)
        elif isinstance(target, (ast.Tuple, ast.List)) and isinstance(value, (ast.Tuple, ast.List)) \
                and len(target.elts) == len(value.elts) \
                and not any(isinstance(e, ast.Starred) for e in target.elts + value.elts):
            for t, v in zip(target.elts, value.elts):
                if isinstance(t, ast.Name):
                    self.assigned(t, v, scope)

    def settle(self):
        """Moves what global and nonlocal declare to where it belongs."""
        for s in self.scopes:
            for name in s.globals:
                if s is not self.module:
                    self.module.bound.setdefault(name, []).extend(s.bound.pop(name, []))
            for name in s.nonlocals:
                outer = s.parent
                while outer and (outer.kind != 'function' or name not in outer.bound):
                    outer = outer.parent
                if outer:
                    outer.bound[name].extend(s.bound.pop(name, []))
        for name in [n for n, b in self.module.bound.items() if not b]:
            del self.module.bound[name]

    def lookup(self, name, scope):
        """Returns the bindings of a name as seen from a scope; None when it has none."""
        first = True
        while scope:
            if name in scope.globals:
                return self.module.bound.get(name)
            if name in scope.bound and (first or scope.kind != 'class'):
                return scope.bound[name]
            first = first and scope.kind == 'comprehension'
            scope = scope.parent
        return None


def below(node):
    """Returns the nodes below one, without those that only mark it."""
    out = []
    for field in node._fields:
        value = getattr(node, field, None)
        if isinstance(value, list):
            out += [n for n in value if isinstance(n, ast.AST) and not isinstance(n, MARKS)]
        elif isinstance(value, ast.AST) and not isinstance(value, MARKS):
            out.append(value)
    return out


def forgives(handler):
    """Says whether an except clause catches NameError."""
    t = handler.type
    if t is None:
        return True
    some = t.elts if isinstance(t, ast.Tuple) else [t]
    return any(isinstance(e, ast.Name) and e.id in ('NameError', 'Exception', 'BaseException') for e in some)
