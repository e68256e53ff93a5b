class Hooks:
    """Prepares modules when a cell imports them, at no cost if none does."""

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
            return type(sys.__spec__)(name, StandIn, is_package=not name.endswith('display')) if name.startswith('IPython') else None
        loader = spec.loader

        def exec_module(module):
            type(loader).exec_module(loader, module)
            after(module)
        if not isinstance(loader, type):  # the class that loads all frozen modules must not be changed
            loader.exec_module = exec_module
        return spec


def show_figures(pyplot):
    def show(*args, **kwargs):
        """Shows the open figures, and closes them."""
        figures(pyplot)
    pyplot.show = show
    figure = modules.get('matplotlib.figure')
    if figure is not None:
        figure.Figure.show = lambda self, warn=True: display(self)
    if 'CHARTS' in globals() and with_charts():
        remember_boxes(modules['matplotlib.axes'].Axes)
    if not isinstance(dict.get(pyplot.rcParams, 'backend'), str):
        pyplot.switch_backend('agg')  # otherwise it searches for a screen, and reports that there is none


def show_images(image):
    image.Image.show = lambda self, *args, **kwargs: display(self)
    if 'CHARTS' not in globals():  # a script, for which no data of figures is wanted
        return
    inner = image.Image.save

    def save(self, fp, *args, **kwargs):
        inner(self, fp, *args, **kwargs)
        if state.charts and (isinstance(fp, (str, bytes)) or hasattr(fp, '__fspath__')):
            display(self)
    bring('functools').update_wrapper(save, inner)
    image.Image.save = save


def show_displayed(module):
    module.display = display


class StandIn:
    """Loads the classes of IPython that cells use to display values, if it is not installed."""

    def create_module(spec):
        return None

    def exec_module(module):
        module.get_ipython, module.version_info = lambda: None, (9, 0)
        module.display, module.clear_output = display, lambda wait=False: None
        for name, mime in (('HTML', 'text/html'), ('Markdown', 'text/markdown'), ('Latex', 'text/latex'), ('Math', 'text/latex'), ('SVG', 'image/svg+xml'),
                           ('JSON', 'application/json'), ('Javascript', 'application/javascript'), ('Image', 'image/png')):
            setattr(module, name, type(name, (Shown,), {'mime': mime}))


class Shown:
    def __init__(self, data=None, url=None, filename=None, **_):
        if url is not None and self.mime != 'image/png':
            raise NotImplementedError('IPython is not installed, and nothing else fetches %s' % url)
        image = self.mime.startswith('image/')
        if filename is not None or image and isinstance(data, str) and '<' not in data:
            with open(data if filename is None else filename, 'rb') as f:
                data = f.read()
        if isinstance(data, bytes) and (not image or self.mime == 'image/svg+xml'):
            data = data.decode()
        self.data, self.url = data, url

    def __repr__(self):
        return '<IPython.core.display.%s object>' % type(self).__name__

    def _repr_mimebundle_(self, include=None, exclude=None):
        if self.url is not None:
            return {'text/html': '<img src="%s"/>' % bring('html').escape(self.url)}
        if type(self).__name__ == 'Math':
            return {self.mime: '$\\displaystyle %s$' % self.data.strip('$')}
        if self.mime == 'image/png' and self.data[:2] == b'\xff\xd8':
            return {'image/jpeg': self.data}
        return {self.mime: self.data}


hooks = {'matplotlib.pyplot': show_figures, 'PIL.Image': show_images, 'IPython.display': show_displayed}
hooks.update(dict.fromkeys(('IPython', 'IPython.core', 'IPython.core.display'), lambda module: None))
sys.meta_path.insert(0, Hooks)
