# Names that are used and bound nowhere, and the imports that would bind them.
import importlib
import importlib.util

# Modules whose import does something to see, or takes long.
NEVER = {'this', 'antigravity', 'idlelib', 'test', 'turtledemo', 'lib2to3', '__main__', 'site', 'turtle', 'tkinter', 'builtins'}

ALIASES = {
    'np': 'numpy', 'pd': 'pandas', 'plt': 'matplotlib.pyplot', 'sns': 'seaborn', 'tf': 'tensorflow', 'mpl': 'matplotlib',
    'px': 'plotly.express', 'nx': 'networkx', 'pl': 'polars', 'xr': 'xarray', 'jnp': 'jax.numpy', 'sm': 'statsmodels.api',
    'ET': 'xml.etree.ElementTree', 'mp': 'multiprocessing',
}
# What is not in the standard library, by the names under which it is imported.
OTHERS = set('''numpy pandas matplotlib seaborn tensorflow torch torchvision keras sklearn scipy sympy requests httpx aiohttp
yaml cv2 PIL bs4 lxml networkx polars plotly flask fastapi sqlalchemy pydantic joblib openpyxl pytest tqdm jax
xgboost lightgbm statsmodels nltk spacy transformers'''.split())
# Packages whose parts are imported on their own.
PARTED = {'sklearn', 'scipy', 'matplotlib', 'lxml', 'plotly', 'statsmodels', 'PIL'}

FROMS = {}
for _line in '''pathlib Path PurePath PosixPath PurePosixPath
datetime timedelta timezone
collections defaultdict Counter deque OrderedDict namedtuple ChainMap
dataclasses dataclass asdict astuple
functools partial reduce lru_cache wraps cached_property total_ordering singledispatch cmp_to_key
itertools permutations combinations combinations_with_replacement groupby islice accumulate zip_longest starmap takewhile dropwhile
typing Optional List Dict Tuple Set FrozenSet Union Any Callable Iterable Iterator Generator Sequence Mapping MutableMapping TypeVar Generic Protocol NamedTuple TypedDict Literal Final ClassVar Annotated Awaitable AsyncIterator AsyncGenerator Coroutine Type NoReturn DefaultDict Hashable TYPE_CHECKING overload
enum Enum IntEnum Flag IntFlag StrEnum
abc ABC ABCMeta abstractmethod
contextlib contextmanager asynccontextmanager suppress closing ExitStack AsyncExitStack redirect_stdout redirect_stderr nullcontext
decimal Decimal ROUND_HALF_UP
fractions Fraction
copy deepcopy
io StringIO BytesIO TextIOWrapper
tempfile NamedTemporaryFile TemporaryDirectory TemporaryFile mkdtemp mkstemp
threading Thread RLock
concurrent.futures ThreadPoolExecutor ProcessPoolExecutor as_completed
urllib.request urlopen urlretrieve
urllib.parse urlparse urljoin urlencode parse_qs parse_qsl unquote urlsplit
uuid uuid4 uuid1 UUID
operator itemgetter attrgetter methodcaller
heapq heappush heappop heapify nlargest nsmallest heapreplace heappushpop
bisect bisect_left bisect_right insort
types SimpleNamespace MappingProxyType ModuleType
textwrap dedent
random randint
time perf_counter monotonic
string ascii_letters ascii_lowercase ascii_uppercase punctuation
bs4 BeautifulSoup
tqdm tqdm'''.split('\n'):
    _module, *_names = _line.split()
    FROMS.update((n, _module) for n in _names)

# Common words: only where they are called.
CALLED_FROMS = {}
for _line in '''itertools chain product cycle
math sqrt ceil floor factorial gcd isclose sin cos tan log10 log2 hypot radians degrees
typing cast NewType
functools cache singledispatchmethod
statistics mean median stdev
time sleep
random shuffle choice sample uniform
pprint pprint
glob glob
copy copy
getpass getpass
datetime date
multiprocessing Pool
subprocess Popen check_output
enum auto
dataclasses field'''.split('\n'):
    _module, *_names = _line.split()
    CALLED_FROMS.update((n, _module) for n in _names)

# Methods of classes that share their name with a module, or are used by it alone.
METHODS = {
    'datetime': ('datetime', 'now utcnow today strptime fromtimestamp utcfromtimestamp fromisoformat combine min max'),
    'date': ('datetime', 'today fromisoformat fromtimestamp min max'),
    'Image': ('PIL', 'open new fromarray frombytes'),
    'nn': ('torch', 'Module Linear Sequential ReLU CrossEntropyLoss Conv2d Parameter Embedding'),
    'chain': ('itertools', 'from_iterable'),
}
METHODS = {k: (m, set(names.split())) for k, (m, names) in METHODS.items()}


class Missing(Dangers):
    """Finds imports that a program lacks."""

    def lacking(self, known):
        uses = {}
        if self.star or self.makes_names():
            return []
        for node, _ in self.kinds.get(ast.Attribute, ()):
            node.value.member = node
        for node, _ in self.kinds.get(ast.Call, ()):
            node.func.called = True
        for kind in (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef):
            for node, _ in self.kinds.get(kind, ()):
                for d in node.decorator_list:
                    d.called = True
        for node, site in self.kinds.get(ast.Name, ()):
            if not isinstance(node.ctx, ast.Load):
                continue
            if site.annotation and self.future or node.id in BUILTINS or node.id in known:
                continue
            if self.lookup(node.id, site.scope) is None:
                uses.setdefault(node.id, []).append((node, site))
        found = []
        for name, all_uses in uses.items():
            if any(site.guarded for _, site in all_uses) or len(found) >= 50:
                continue
            nodes = [n for n, _ in all_uses]
            for statement in self.statements(name, nodes):
                found.append((name, statement, nodes[0]))
        return sorted(found, key=lambda f: (f[2].lineno, f[2].col_offset))

    def makes_names(self):
        """Says whether the program binds names in ways that can't be seen: globals()['x'] = 1."""
        for node, site in self.kinds.get(ast.Subscript, []) + self.kinds.get(ast.Attribute, []):
            if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store) or \
                    isinstance(node, ast.Attribute) and node.attr in ('update', 'setdefault'):
                if self.paths(node.value, site.scope) & {'globals()', 'builtins', 'builtins.__dict__'}:
                    return True
        return False

    def statements(self, name, nodes):
        members = [n.member for n in nodes if hasattr(n, 'member')]
        names = {m.attr for m in members}
        called = any(getattr(n, 'called', False) for n in nodes)
        if name in METHODS:
            module, methods = METHODS[name]
            if names & methods or called and name in ('datetime', 'date'):
                return ['from %s import %s' % (module, name)] if not names - methods or called else []
        if name in ALIASES:
            return ['import %s as %s' % (ALIASES[name], name)] if names else []
        if name in FROMS:
            return ['from %s import %s' % (FROMS[name], name)]
        if called:
            return ['from %s import %s' % (CALLED_FROMS[name], name)] if name in CALLED_FROMS else []
        if not names:
            return ['from math import pi'] if name == 'pi' else []
        if name in MODULES and name not in NEVER and not name.startswith('_'):
            return self.library(name, members)
        if name in PARTED:
            parts = sorted(n for n in names if n.islower())
            return ['import %s.%s' % (name, p) for p in parts] or ['import ' + name]
        return ['import ' + name] if name in OTHERS else []

    def library(self, name, members):
        """Returns imports for a module of the library, if it has what is used of it."""
        try:
            module = importlib.import_module(name)
        except Exception:
            return ['import ' + name]
        parts, plain = set(), False
        for m in members:
            if name != 'os' and self.part(name, m.attr) and not self.comes(module, m.attr):
                parts.add(self.deepest(name + '.' + m.attr, m))
            else:
                plain |= hasattr(module, m.attr)
        return ['import ' + p for p in sorted(parts)] or (['import ' + name] if plain else [])

    def comes(self, module, part):
        """Says whether import of a package brings a part of it: json.decoder, not xml.dom."""
        return hasattr(module, part) and module.__name__ not in ('concurrent', 'importlib', 'logging', 'urllib', 'xml', 'http', 'email', 'multiprocessing', 'os')

    def part(self, package, name):
        try:
            return importlib.util.find_spec(package + '.' + name) is not None
        except Exception:
            return False

    def deepest(self, path, member):
        """Follows xml.etree.ElementTree as far as there are modules."""
        above = {id(n.value): n for n, _ in self.kinds.get(ast.Attribute, ())}
        while True:
            member = above.get(id(member))
            if member is None or not self.part(path, member.attr):
                return path
            path += '.' + member.attr
