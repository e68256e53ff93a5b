TEXT_MAX = 256 << 10   # characters of a text/plain
BINARY_MAX = 16 << 20  # bytes of any other type
BUNDLE_MAX = 48 << 20  # bytes of all of them together
RICH = (
    ('text/html', '_repr_html_'), ('text/markdown', '_repr_markdown_'), ('text/latex', '_repr_latex_'),
    ('image/svg+xml', '_repr_svg_'), ('image/png', '_repr_png_'), ('image/jpeg', '_repr_jpeg_'),
    ('application/json', '_repr_json_'),
)
PLAIN = frozenset((int, float, complex, str, bytes, bool, list, tuple, dict, set, frozenset, range, bytearray))
LIST_MAX = TEXT_MAX // 2
mro = type.__dict__['__mro__'].__get__


def bring(name):
    """Imports a module of the standard library for the driver, whatever modules the workspace contains."""
    if name in modules:
        return modules[name]
    path, sys.path = sys.path, stdlib[:]
    try:
        __import__(name)
        return modules[name]
    finally:
        sys.path = path


def method(value, name):
    """Finds a method by the class: an instance's __getattr__ may answer to any name."""
    for c in mro(type(value)):
        if name in c.__dict__:
            return c.__dict__[name].__get__(value, type(value))
    return None


def text_of(value):
    try:
        if type(value) in (list, tuple) and len(value) > LIST_MAX:  # the text of all of it might not fit into memory
            return repr(value[:LIST_MAX]) + '\n[%d of %d elements are left out]' % (len(value) - LIST_MAX, len(value))
        return repr(value)
    except Exception as e:
        return '<%s, whose repr() raised %s>' % (type(value).__name__, short(e))


def short(e):
    try:
        text = str(e)
    except Exception:
        text = ''
    return type(e).__name__ + (': ' + cut(text, 500) if text else '')


def cut(text, most):
    if len(text) <= most:
        return text
    return '%s\n[%d of %d characters are left out]' % (text[:most], len(text) - most, len(text))


def bundle(value):
    """Returns a value in all its forms."""
    data = {}
    if type(value) not in PLAIN:
        figure = modules.get('matplotlib.figure')
        if figure is not None and figure.Figure in mro(type(value)):
            data['image/png'] = picture(value)
            state.shown.append(value)
        else:
            rich(value, data)
    if 'text/plain' not in data:
        data['text/plain'] = text_of(value)
    if state.charts and with_charts():
        add_data(value, data)
    return checked(data)


def with_charts():
    """Compiles the part that returns the data of figures, which most sessions don't need, and reports
    whether it exists.
    """
    if 'CHARTS' in globals() and 'add_data' not in globals():
        exec(compile(CHARTS, DRIVER, 'exec'), globals())
    return 'add_data' in globals()


def rich(value, data):
    if type in mro(type(value)):
        return
    f = method(value, '_repr_mimebundle_')
    if f is not None:
        try:
            made = f(include=None, exclude=None)
            if isinstance(made, tuple):
                made = made[0]
            if made:
                data.update(made)
        except Exception as e:
            complain(value, '_repr_mimebundle_', e)
    for mime, name in RICH:
        if mime in data or mime == 'image/jpeg' and 'image/png' in data:
            continue
        f = method(value, name)
        if f is None:
            continue
        try:
            made = f()
            if isinstance(made, tuple):  # (data, metadata)
                made = made[0]
        except Exception as e:
            if not isinstance(e, NotImplementedError):
                complain(value, name, e)
            continue
        if made is not None:
            data[mime] = made


def complain(value, name, e):
    try:
        sys.stderr.write('%s.%s() raised %s\n' % (type(value).__name__, name, short(e)))
    except Exception:
        pass


def checked(data):
    """Converts all forms to text, and drops those that are too large."""
    out, notes, total = {}, [], 0
    for mime, made in data.items():
        if isinstance(made, (bytes, bytearray)):
            made = base64(made)
        elif not isinstance(made, str):
            try:
                made = encode(plain(made, 0))
            except Exception:
                made = text_of(made)
        if mime == 'text/plain':
            made = cut(made, TEXT_MAX)
        size = len(made) if made.isascii() else len(encode(str(made)))
        if mime != 'text/plain' and (size > BINARY_MAX or total + size > BUNDLE_MAX):
            notes.append('[%s is left out: %d bytes are too many]' % (cut(str(mime), 100), size))
            continue
        total += size
        out[str(mime)] = str(made)
    if notes:
        text = [out['text/plain']] if 'text/plain' in out else []
        out['text/plain'] = cut('\n'.join(text + notes), TEXT_MAX + 1000)
    return out


def base64(data):
    import binascii
    return binascii.b2a_base64(data, newline=False).decode()


def display(*values, raw=False, **_):
    """Displays values in the richest form that the reader supports. With raw=True they are dictionaries of
    MIME types.
    """
    for value in values:
        data = checked(value) if raw and isinstance(value, dict) else bundle(value)
        if state.cell and posix.getpid() == PID:
            send({'op': 'display', 'id': state.cell, 'data': data})
        else:  # nobody receives it now, so it is text, like other output
            print(data.get('text/plain', ''))


def picture(figure):
    png = bring('io').BytesIO()
    figure.savefig(png, format='png', bbox_inches='tight')
    return base64(png.getvalue())


def figures(pyplot):
    """Displays the open figures, and closes them."""
    for number in pyplot.get_fignums():
        figure = pyplot.figure(number)
        try:
            if not any(f is figure for f in state.shown):
                display(figure)
        finally:
            pyplot.close(figure)
