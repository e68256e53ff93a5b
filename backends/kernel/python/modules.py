def bring(name):
    """Imports a module of the standard library for the driver, whatever lies in the workspace."""
    if name in modules:
        return modules[name]
    path, sys.path = sys.path, stdlib[:]
    try:
        __import__(name)
        return modules[name]
    finally:
        sys.path = path


def settle():
    """Does before the first cell what Python does when it starts, but for -S: it finds packages and
    runs what they want run, which may take more time and memory than all the rest."""
    if state.settled:
        return
    state.settled = True
    site = bring('site')
    first = [p for p in sys.path[:1] if p == '']
    del sys.path[:len(first)]  # the workspace, from which nothing is taken at that time
    try:
        site.main()
    except BaseError as e:
        sys.stderr.write('site: %s\n' % short(e))
    sys.path[:0] = first


class Hooks:
    """Gets modules ready when a cell imports them, which costs nothing when none does."""

    def find_spec(name, path=None, target=None):
        after = hooks.get(name)
        if after is None:
            return None
        for finder in sys.meta_path:
            if finder is Hooks or not hasattr(finder, 'find_spec'):
                continue
            spec = finder.find_spec(name, path, target)
            if spec is not None:
                break
        else:
            return None
        loader = spec.loader

        def exec_module(module):
            type(loader).exec_module(loader, module)
            after(module)
        if not isinstance(loader, type):  # a loader of all frozen modules is no place for it
            loader.exec_module = exec_module
        return spec


def know_sources(linecache):
    for name, text in state.sources.items():
        know_source(linecache, name, text)


def know_source(linecache, name, text):
    lines = _io.StringIO(text, newline=None).readlines()
    if lines and not lines[-1].endswith('\n'):
        lines[-1] += '\n'  # or carets are off by one
    linecache.cache[name] = (len(text), None, lines, name)


def show_figures(pyplot):
    def show(*args, **kwargs):
        """Shows the open figures, and closes them."""
        figures(pyplot)
    pyplot.show = show
    figure = modules.get('matplotlib.figure')
    if figure is not None:
        figure.Figure.show = lambda self, warn=True: display(self)


hooks = {'linecache': know_sources, 'matplotlib.pyplot': show_figures}
sys.meta_path.insert(0, Hooks)
