# Names that are used and bound nowhere, and the imports that would bind them.
import ast
import importlib
import importlib.util
import pkgutil
import symtable
import sys

# Older versions can't list their library; no other modules can be found where this runs.
MODULES = getattr(sys, 'stdlib_module_names', None) or {m.name for m in pkgutil.iter_modules()} | set(sys.builtin_module_names)
# Modules whose import does something to see, or takes long.
NEVER = set('this antigravity idlelib test turtledemo lib2to3 site turtle tkinter builtins'.split())

ALIASES = dict(pair.split('=') for pair in '''np=numpy pd=pandas plt=matplotlib.pyplot sns=seaborn tf=tensorflow mpl=matplotlib
px=plotly.express nx=networkx pl=polars xr=xarray jnp=jax.numpy sm=statsmodels.api ET=xml.etree.ElementTree
mp=multiprocessing'''.split())
# What is not in the standard library, by the names under which it is imported.
OTHERS = set('''numpy pandas matplotlib seaborn tensorflow torch torchvision keras sklearn scipy sympy requests httpx aiohttp
yaml cv2 PIL bs4 lxml networkx polars plotly flask fastapi sqlalchemy pydantic joblib openpyxl pytest tqdm jax
xgboost lightgbm statsmodels nltk spacy transformers'''.split())
# Packages whose parts are imported on their own.
PARTED = {'sklearn', 'scipy', 'matplotlib', 'lxml', 'plotly', 'statsmodels', 'PIL'}

FROMS, CALLED_FROMS = {}, {}  # the module of a name; names with parentheses are common words: only where they are called
for _module, _names in (line.split(': ') for line in '''\
abc: ABC ABCMeta abstractmethod
bisect: bisect_left bisect_right insort
bs4: BeautifulSoup
collections: defaultdict Counter deque OrderedDict namedtuple ChainMap
concurrent.futures: ThreadPoolExecutor ProcessPoolExecutor as_completed
contextlib: contextmanager asynccontextmanager suppress closing ExitStack AsyncExitStack redirect_stdout redirect_stderr nullcontext
copy: deepcopy copy()
dataclasses: dataclass asdict astuple field()
datetime: timedelta timezone datetime() date()
decimal: Decimal ROUND_HALF_UP
enum: Enum IntEnum Flag IntFlag StrEnum auto()
fractions: Fraction
functools: partial reduce lru_cache wraps cached_property total_ordering singledispatch cmp_to_key cache() singledispatchmethod()
getpass: getpass()
glob: glob()
heapq: heappush heappop heapify nlargest nsmallest heapreplace heappushpop
io: StringIO BytesIO TextIOWrapper
itertools: permutations combinations combinations_with_replacement groupby islice accumulate zip_longest starmap takewhile
itertools: dropwhile chain() product() cycle()
math: sqrt() ceil() floor() factorial() gcd() isclose() sin() cos() tan() log10() log2() hypot() radians() degrees()
multiprocessing: Pool()
operator: itemgetter attrgetter methodcaller
pathlib: Path PurePath PosixPath PurePosixPath
pprint: pprint()
random: randint shuffle() choice() sample() uniform()
statistics: mean() median() stdev()
string: ascii_letters ascii_lowercase ascii_uppercase punctuation
subprocess: Popen() check_output()
tempfile: NamedTemporaryFile TemporaryDirectory TemporaryFile mkdtemp mkstemp
textwrap: dedent
threading: Thread RLock
time: perf_counter monotonic sleep()
tqdm: tqdm
types: SimpleNamespace MappingProxyType ModuleType
typing: Optional List Dict Tuple Set FrozenSet Union Any Callable Iterable Iterator Generator Sequence Mapping MutableMapping
typing: TypeVar Generic Protocol NamedTuple TypedDict Literal Final ClassVar Annotated Awaitable AsyncIterator AsyncGenerator
typing: Coroutine Type NoReturn DefaultDict Hashable TYPE_CHECKING overload cast() NewType()
urllib.parse: urlparse urljoin urlencode parse_qs parse_qsl unquote urlsplit
urllib.request: urlopen urlretrieve
uuid: uuid4 uuid1 UUID'''.split('\n')):
    for _name in _names.split():
        (CALLED_FROMS if _name.endswith('()') else FROMS)[_name.replace('()', '')] = _module

# Methods of classes that share their name with a module, or are used by it alone.
METHODS = {name: (module, set(methods.split())) for name, module, methods in (
    ('datetime', 'datetime', 'now utcnow today strptime fromtimestamp utcfromtimestamp fromisoformat combine min max'),
    ('date', 'datetime', 'today fromisoformat fromtimestamp min max'),
    ('Image', 'PIL', 'open new fromarray frombytes'),
    ('nn', 'torch', 'Module Linear Sequential ReLU CrossEntropyLoss Conv2d Parameter Embedding'),
    ('chain', 'itertools', 'from_iterable'),
)}


def symbols(text):
    """Returns the names that a program looks up among its globals, with a line above their first use, its global names,
    and the names that anything but an import binds anywhere."""
    used, bound, local = {}, set(), set()
    tables = [symtable.symtable(text, '<script>', 'exec')]
    for table in tables:
        tables += table.get_children()
        for s in table.get_symbols():
            binds = s.is_assigned() or s.is_parameter()
            if binds:
                local.add(s.get_name())
            if table is tables[0] or s.is_global():
                if binds or s.is_imported():
                    bound.add(s.get_name())
                if s.is_referenced():
                    used[s.get_name()] = min(table.get_lineno(), used.get(s.get_name(), table.get_lineno()))
    return used, bound, local


def lacking(tree, used, bound):
    """Returns (name, statement, node) of each import that is missing, in the order of the first uses."""
    uses, guarded = {}, set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id in used and node.id not in bound and isinstance(node.ctx, ast.Load):
            uses.setdefault(node.id, []).append(node)
        elif isinstance(node, ast.Attribute):
            node.value.member = node
        elif isinstance(node, ast.Call):
            node.func.called = True
        elif isinstance(node, ast.Try) and any(forgives(h.type) for h in node.handlers):
            guarded.update(n.id for s in node.body for n in ast.walk(s) if isinstance(n, ast.Name))
        elif isinstance(node, ast.ImportFrom) and node.names[0].name == '*':
            return []  # it may bind any name
        for d in getattr(node, 'decorator_list', ()):
            d.called = True
    found = []
    for name in [] if 'globals' in used else sorted(set(uses) - guarded)[:50]:
        nodes = sorted(uses[name], key=lambda n: (n.lineno < used[name], n.lineno, n.col_offset))
        found += [(name, statement, nodes[0]) for statement in statements(name, nodes)]
    return sorted(found, key=lambda f: (f[2].lineno, f[2].col_offset))


def forgives(caught):
    """Says whether an except clause catches NameError."""
    some = caught.elts if isinstance(caught, ast.Tuple) else [caught]
    return any(e is None or getattr(e, 'id', '') in ('NameError', 'Exception', 'BaseException') for e in some)


def statements(name, nodes):
    names = {n.member.attr for n in nodes if hasattr(n, 'member')}
    called = any(hasattr(n, 'called') for n in nodes)
    if name in METHODS:
        module, methods = METHODS[name]
        if names & methods or called and name in ('datetime', 'date'):
            return ['from %s import %s' % (module, name)] if not names - methods or called else []
    if name in ALIASES:
        return ['import %s as %s' % (ALIASES[name], name)] if names else []
    module = FROMS.get(name) or called and CALLED_FROMS.get(name) or name == 'pi' and not names and 'math'
    if module:
        return ['from %s import %s' % (module, name)]
    if called or not names:
        return []
    if name in PARTED:
        return ['import %s.%s' % (name, n) for n in sorted(names) if n.islower()] or ['import ' + name]
    if name in MODULES and name not in NEVER and not name.startswith('_'):
        return sorted({'import ' + m for m in map(library, nodes) if m})
    return ['import ' + name] if name in OTHERS else []


def library(node):
    """Returns the module of the library that has what a name is used for: xml.etree.ElementTree; '' if none has it."""
    path = node.id
    while hasattr(node, 'member') and path + '.' + node.member.attr not in ('os.path', 'unittest.main'):
        node = node.member
        try:
            part = importlib.util.find_spec(path + '.' + node.attr)
        except Exception:
            part = None  # it is no package
        if part is None:
            return path if hasattr(importlib.import_module(path), node.attr) else ''
        path += '.' + node.attr
    return path
