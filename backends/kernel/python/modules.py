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
        pyplot.switch_backend('agg')  # or it looks for a screen, and says that there is none


def show_images(image):
    image.Image.show = lambda self, *args, **kwargs: display(self)
    if 'CHARTS' not in globals():  # a script, of which nobody asks for the data of figures
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


hooks = {'matplotlib.pyplot': show_figures, 'PIL.Image': show_images, 'IPython.display': show_displayed}
sys.meta_path.insert(0, Hooks)
