# The patterns that the rules of the host's table stand for. What is found here is a rule's name and a place.
import shlex

CALLS = {
    'python-eval': 'builtins.eval builtins.exec builtins.compile builtins.execfile',
    'python-os-system': 'os.system os.popen os.popen2 os.popen3 os.popen4 subprocess.getoutput '
                        'subprocess.getstatusoutput commands.getoutput asyncio.create_subprocess_shell pty.spawn',
    'python-unpickle': 'pickle.load pickle.loads pickle.Unpickler marshal.load marshal.loads shelve.open dill.load '
                       'dill.loads cloudpickle.load cloudpickle.loads joblib.load jsonpickle.decode pandas.read_pickle '
                       'pandas.io.pickle.read_pickle',
    'python-socket': 'socket.socket socket.create_connection socket.create_server socket.fromfd asyncio.open_connection '
                     'asyncio.start_server asyncio.open_unix_connection socketserver.TCPServer socketserver.UDPServer '
                     'socketserver.ThreadingTCPServer http.server.HTTPServer http.server.ThreadingHTTPServer',
    'python-network': 'urllib.request.urlopen urllib.request.urlretrieve urllib.request.build_opener urllib2.urlopen '
                      'requests.get requests.post requests.put requests.patch requests.delete requests.head requests.options '
                      'requests.request requests.Session requests.session httpx.get httpx.post httpx.put httpx.patch '
                      'httpx.delete httpx.request httpx.stream httpx.Client httpx.AsyncClient aiohttp.ClientSession '
                      'aiohttp.request http.client.HTTPConnection http.client.HTTPSConnection ftplib.FTP ftplib.FTP_TLS '
                      'smtplib.SMTP smtplib.SMTP_SSL imaplib.IMAP4 imaplib.IMAP4_SSL poplib.POP3 telnetlib.Telnet '
                      'xmlrpc.client.ServerProxy urllib3.PoolManager urllib3.request paramiko.SSHClient websockets.connect '
                      'websocket.create_connection',
}
CALLED = {path: rule for rule, paths in CALLS.items() for path in paths.split()}

SUBPROCESS = {'subprocess.' + n for n in ('run', 'Popen', 'call', 'check_call', 'check_output')}
DECODERS = set('''base64.b64decode base64.b32decode base64.b16decode base64.b85decode base64.a85decode base64.decodebytes
base64.urlsafe_b64decode base64.standard_b64decode zlib.decompress gzip.decompress bz2.decompress lzma.decompress
binascii.unhexlify binascii.a2b_hex binascii.a2b_base64 codecs.decode marshal.loads builtins.bytes.fromhex
builtins.bytearray.fromhex'''.split())
READERS = {'urllib.request.urlopen', 'urllib.request.urlretrieve', 'urllib2.urlopen', 'requests.get', 'requests.post',
           'requests.request', 'httpx.get', 'httpx.post', 'urllib3.request'}
SAFE_LOADERS = ('SafeLoader', 'CSafeLoader', 'BaseLoader', 'CBaseLoader')
YAML_LOAD = {'yaml.load', 'yaml.load_all'}
YAML_UNSAFE = {'yaml.unsafe_load', 'yaml.unsafe_load_all'}
IMPORTERS = {'builtins.__import__', 'importlib.import_module', 'importlib.__import__'}
REFLECTED = ('builtins', 'os', 'sys', 'subprocess', 'importlib', 'globals()', 'builtins.__dict__')
NATIVE = ('ctypes', 'cffi')
FORKS = {'os.fork', 'os.forkpty'}
STARTS = {'subprocess.Popen', 'os.system', 'os.spawnl', 'os.spawnlp', 'os.spawnv', 'os.spawnvp', 'os.posix_spawn'}
WAITS = {'os.wait', 'os.waitpid', 'os.wait3', 'os.wait4', 'time.sleep', 'signal.pause'}
OPENS = {'builtins.open', 'io.open', 'codecs.open', 'gzip.open', 'pathlib.Path().open'}
PATH_WRITES = {'write_text', 'write_bytes', 'touch', 'unlink', 'mkdir', 'rmdir', 'symlink_to', 'hardlink_to', 'rename',
               'replace', 'chmod'}
FIRST_WRITTEN = {'os.' + n for n in 'remove unlink rmdir rename replace chmod chown lchown mkdir makedirs truncate '
                 'mknod mkfifo removedirs renames utime'.split()} | {'shutil.rmtree', 'shutil.move', 'shutil.chown'}
SECOND_WRITTEN = {'os.rename', 'os.replace', 'os.renames', 'os.symlink', 'os.link'} | {
    'shutil.' + n for n in ('copy', 'copy2', 'copyfile', 'copytree', 'move')}
MAX_DANGERS = 200  # dangers of one program; more tell nothing new


class Dangers(Values):
    """Looks at each node once. found has (rule, node), commands have (text, node), and written, files that are changed,
    (path, whether all that is below it goes, node)."""

    def inspect(self):
        self.found, self.commands, self.written = [], [], []
        looked = (ast.Call, ast.Import, ast.ImportFrom, ast.Attribute, ast.Assign, ast.AugAssign, ast.Delete)
        for node, site in [n for kind in looked for n in self.kinds.get(kind, ())]:
            if len(self.found) >= MAX_DANGERS or self.steps > MAX_STEPS:
                break
            if isinstance(node, ast.Call):
                self.call(node, site)
            elif isinstance(node, ast.Import):
                if any(SAME.get(a.name.split('.')[0], a.name.split('.')[0]) in NATIVE for a in node.names):
                    self.say('python-native', node)
            elif isinstance(node, ast.ImportFrom):
                name = (node.module or '').split('.')[0]
                if not node.level and SAME.get(name, name) in NATIVE:
                    self.say('python-native', node)
            elif isinstance(node, ast.Attribute):
                self.attribute(node, site)
            elif isinstance(node, (ast.Assign, ast.AugAssign, ast.Delete)):
                self.changes(node, site)
        return self

    def say(self, rule, node):
        self.found.append((rule, node))

    def call(self, node, site):
        scope = site.scope
        for p in sorted(self.paths(node.func, scope)):
            rule = CALLED.get(p)
            if rule:
                self.say(rule, node)
            if p in ('builtins.eval', 'builtins.exec', 'builtins.compile'):
                self.evaluated(node, scope)
            if rule == 'python-os-system':
                self.command(arg(node, 0), scope, node)
            elif p in SUBPROCESS:
                self.subprocess(node, scope)
            elif p in YAML_UNSAFE or p in YAML_LOAD and not self.safe_yaml(node):
                self.say('python-yaml-load', node)
            elif p in ('numpy.load', 'torch.load'):
                self.loaded(p, node, scope)
            elif p in IMPORTERS:
                self.imports(node, scope)
            elif p in ('builtins.getattr', 'builtins.setattr', 'builtins.delattr'):
                self.reflects(p, node, scope)
            elif p in ('os.kill', 'os.killpg'):
                self.kills(p, node, scope)
            elif p in ('os.dup2',):
                self.dup2(node, scope)
            elif p == 'builtins.__dict__.update':
                self.say('python-patch-builtins', node)
            if p in FORKS or p in STARTS or p == 'multiprocessing.Process':
                self.forks(p, node, site)
            self.writes(p, node, scope)
        for a in node.args + [k.value for k in node.keywords]:
            self.callbacks(a, scope)

    def callbacks(self, e, scope):
        """Inspects a function among the arguments of a call, which may call it: map(eval, x)."""
        if isinstance(e, (ast.Name, ast.Attribute)):
            for p in self.paths(e, scope):
                if CALLED.get(p) in ('python-eval', 'python-os-system'):
                    self.say(CALLED[p], e)

    def evaluated(self, node, scope):
        known = self.inside(node.args, scope)
        if known & DECODERS:
            self.say('python-encoded-code', node)
        if known & READERS:
            self.say('python-remote-code', node)

    def inside(self, nodes, scope):
        """Returns the paths that are called anywhere in expressions, names followed a few steps."""
        found, todo, seen = set(), [(n, scope, 0) for n in nodes], set()
        while todo and len(seen) < 2000:
            n, where, depth = todo.pop()
            if id(n) in seen:
                continue
            seen.add(id(n))
            if isinstance(n, ast.Call):
                found |= self.paths(n.func, where)
                if isinstance(n.func, ast.Attribute) and n.func.attr == 'decode' and n.args:
                    if self.text(n.args[0], where) in ('rot13', 'rot_13', 'hex', 'base64', 'zlib'):
                        found.add('codecs.decode')
            if isinstance(n, ast.Name) and depth < 4:
                for kind, what, w in self.lookup(n.id, where) or []:
                    if kind == 'value':
                        todo.append((what, w, depth + 1))
            todo += [(c, where, depth) for c in ast.iter_child_nodes(n)]
        return found

    def subprocess(self, node, scope):
        first = arg(node, 0, 'args')
        shell = keyword(node, 'shell')
        if shell is not None and self.text(shell, scope):
            self.say('python-subprocess-shell', node)
            if isinstance(first, (ast.List, ast.Tuple)) and first.elts:
                first = first.elts[0]
            self.command(first, scope, node)
        elif isinstance(first, (ast.List, ast.Tuple)):
            words = [self.place(e, scope) for e in first.elts if not isinstance(e, ast.Starred)]
            self.commands.append((' '.join(shlex.quote(w) if w is not None else '_' for w in words), node))
        elif first is not None:
            self.command(first, scope, node)

    def command(self, e, scope, node):
        """Hands a literal command to the shell's rules; what is not literal in it becomes a plain word."""
        if e is None:
            return
        text = self.text(e, scope)
        if text is None and isinstance(e, ast.JoinedStr):
            parts = [self.text(v.value if isinstance(v, ast.FormattedValue) else v, scope) for v in e.values]
            text = ''.join(p if isinstance(p, str) else '_' for p in parts)
        if isinstance(text, bytes):
            text = text.decode('utf-8', 'replace')
        if isinstance(text, str) and len(self.commands) < MAX_DANGERS:
            self.commands.append((text, node))

    def safe_yaml(self, node):
        loader = arg(node, 1, 'Loader')
        name = getattr(loader, 'attr', getattr(loader, 'id', ''))
        return name in SAFE_LOADERS

    def loaded(self, path, node, scope):
        allow = keyword(node, 'allow_pickle' if path == 'numpy.load' else 'weights_only')
        value = None if allow is None else self.text(allow, scope)
        if value is True and path == 'numpy.load' or value is False and path == 'torch.load':
            self.say('python-unpickle', node)

    def imports(self, node, scope):
        name = self.text(arg(node, 0, 'name'), scope) if arg(node, 0, 'name') is not None else None
        if not isinstance(name, str):
            self.say('python-dynamic-import', node)
        elif SAME.get(name.split('.')[0], name.split('.')[0]) in NATIVE:
            self.say('python-native', node)

    def reflects(self, path, node, scope):
        if len(node.args) < 2:
            return
        known, key = self.paths(node.args[0], scope), node.args[1]
        name = self.text(key, scope)
        if path != 'builtins.getattr':
            if 'builtins' in known:
                self.say('python-patch-builtins', node)
        elif known & set(REFLECTED) and not isinstance(key, ast.Constant):
            if isinstance(name, str) or 'builtins' in known:
                self.say('python-hidden-name', node)
        if name in ('__subclasses__', '__globals__', '__builtins__') and path == 'builtins.getattr':
            self.say('python-escape', node)

    def kills(self, path, node, scope):
        target = arg(node, 0)
        value = self.text(target, scope) if target is not None else None
        parent = isinstance(target, ast.Call) and 'os.getppid' in self.paths(target.func, scope)
        if parent or type(value) is int and value in (-1, 0, 1):
            self.say('python-kill-all', node)

    def dup2(self, node, scope):
        first = arg(node, 0)
        if isinstance(first, ast.Call) and isinstance(first.func, ast.Attribute) and first.func.attr == 'fileno':
            if any(p.startswith('socket.') for p in self.paths(first.func.value, scope)):
                self.say('python-reverse-shell', node)

    def forks(self, path, node, site):
        if path in STARTS and not self.itself(node, site.scope):
            return
        loop = site.loop
        if loop is not None and self.endless(loop, site.scope):
            self.say('python-fork-bomb', node)
        elif path in FORKS and site.function is not None and not isinstance(site.function, ast.Lambda):
            name = site.function.name
            for n in ast.walk(site.function):
                if isinstance(n, ast.Call) and isinstance(n.func, ast.Name) and n.func.id == name:
                    self.say('python-fork-bomb', node)
                    return

    def itself(self, node, scope):
        """Says whether what is started is this program again."""
        for n in ast.walk(node):
            if isinstance(n, ast.Name) and n.id == '__file__' or \
                    isinstance(n, ast.Attribute) and n.attr in ('argv',) and 'sys.argv' in self.paths(n, scope):
                return True
        return False

    def endless(self, loop, scope):
        if isinstance(loop, ast.While):
            if not self.text(loop.test, scope):
                return False
            heads = loop.body
        elif isinstance(loop, ast.For):
            if not self.long(loop.iter, scope):
                return False
            heads = loop.body
        else:
            return any(self.long(g.iter, scope) for g in loop.generators)
        for h in heads:
            for n in ast.walk(h):
                if isinstance(n, ast.Break) or isinstance(n, ast.Call) and self.paths(n.func, scope) & WAITS:
                    return False
        return True

    def long(self, e, scope):
        if not isinstance(e, ast.Call):
            return False
        known = self.paths(e.func, scope)
        if known & {'itertools.count', 'itertools.cycle'} or 'itertools.repeat' in known and len(e.args) == 1:
            return True
        if 'builtins.iter' in known and len(e.args) == 2:
            return True
        n = self.text(e.args[-1], scope) if 'builtins.range' in known and len(e.args) == 1 else None
        if n is None and 'builtins.range' in known and e.args and isinstance(e.args[-1], ast.BinOp) and isinstance(e.args[-1].op, ast.Pow):
            return True
        return type(n) is int and n >= 1000

    def writes(self, path, node, scope):
        places = []
        if path in OPENS:
            at = 0 if path.startswith('pathlib') else 1
            mode = arg(node, at, 'mode')
            mode = self.text(mode, scope) if mode is not None else 'r'
            if isinstance(mode, str) and set(mode) & set('wax+'):
                places.append(node.func.value if at == 0 else arg(node, 0, 'file'))
        elif path == 'os.open':
            flags = arg(node, 1, 'flags')
            if flags is not None and any(isinstance(n, (ast.Attribute, ast.Name)) and getattr(n, 'attr', getattr(n, 'id', '')) in (
                    'O_WRONLY', 'O_RDWR', 'O_CREAT', 'O_TRUNC', 'O_APPEND') for n in ast.walk(flags)):
                places.append(arg(node, 0, 'path'))
        elif path.startswith('pathlib.') and path.split('.')[-1] in PATH_WRITES and isinstance(node.func, ast.Attribute):
            places.append(node.func.value)
        else:
            places += [arg(node, 0)] if path in FIRST_WRITTEN else []
            places += [arg(node, 1, 'dst')] if path in SECOND_WRITTEN else []
        for e in places:
            name = self.place(e, scope) if e is not None else None
            if name is not None and len(self.written) < MAX_DANGERS:
                self.written.append((name, path == 'shutil.rmtree', node))

    def attribute(self, node, site):
        if node.attr == '__subclasses__':
            inner = node.value
            while isinstance(inner, (ast.Subscript, ast.Call)):
                inner = inner.func if isinstance(inner, ast.Call) else inner.value
            special = isinstance(inner, ast.Attribute) and inner.attr in ('__mro__', '__base__', '__bases__', '__class__', 'mro')
            if special or self.paths(node.value, site.scope) & {'builtins.object', 'builtins.type'}:
                self.say('python-escape', node)
        elif node.attr in ('__globals__', '__builtins__', 'f_globals', 'f_builtins') and isinstance(node.ctx, ast.Load):
            self.say('python-escape', node)

    def changes(self, node, site):
        targets = node.targets if isinstance(node, (ast.Assign, ast.Delete)) else [node.target]
        for t in targets:
            if not isinstance(t, (ast.Attribute, ast.Subscript)):
                continue
            known = self.paths(t.value, site.scope)
            if known & ({'builtins'} if isinstance(t, ast.Attribute) else {'builtins', 'builtins.__dict__'}):
                self.say('python-patch-builtins', node)
            elif isinstance(t, ast.Attribute) and t.attr == '__code__':
                self.say('python-escape', node)


def arg(node, at, name=None):
    if len(node.args) > at and not any(isinstance(a, ast.Starred) for a in node.args[:at + 1]):
        return node.args[at]
    return keyword(node, name) if name else None


def keyword(node, name):
    return next((k.value for k in node.keywords if k.arg == name), None)
