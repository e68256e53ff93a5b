# The contents of a figure or a table as data, for callers that want it beside the picture. A figure becomes one
# chart, or several in one, each of a type derived from its axes: line, scatter, bar, pie, box_and_whisker, or
# unknown, which has no elements.

POINTS_MAX = 20000  # per chart
CHART, DATA = 'e2b/chart', 'e2b/data'
boxes = {}  # id of axes -> (a weak reference to them, the statistics of each drawn box)


def chart_of(figure):
    """Returns the chart of a figure, None if it has no axes."""
    charts = [axes_chart(axes) for axes in figure.axes if axes.get_label() != '<colorbar>']
    if len(charts) < 2:
        return charts[0] if charts else None
    title = getattr(figure, '_suptitle', None)
    return {'type': 'superchart', 'title': named(title and title.get_text()), 'elements': charts}


def axes_chart(axes):
    for kind, elements_of in (('pie', wedges), ('box_and_whisker', box_plots), ('bar', bars)):
        elements = elements_of(axes)
        if elements:
            break
    else:
        kind, elements = 'line', [points(axes, line, line.get_xdata(orig=False), line.get_ydata(orig=False)) for line in drawn_lines(axes)]
        if not elements:
            kind, elements = 'scatter', [points(axes, dots, *dots.get_offsets().T) for dots in axes.collections if type(dots).__name__ == 'PathCollection']
        if not elements:
            kind = 'unknown'
    chart = {'type': kind, 'title': named(axes.get_title()), 'elements': elements}
    if kind == 'pie' or kind == 'unknown':
        return chart
    for name, label in (('x', axes.get_xlabel()), ('y', axes.get_ylabel())):
        chart[name + '_label'], chart[name + '_unit'] = named(label), unit_of(label)
    if kind == 'line' or kind == 'scatter':
        for name, axis in (('x', axes.xaxis), ('y', axes.yaxis)):
            ticks = axis.get_ticklocs()
            chart[name + '_ticks'] = values_on(axis, ticks, False)
            chart[name + '_tick_labels'] = [label.get_text() for label in axis.get_ticklabels()]
            chart[name + '_scale'] = scale_of(axis)
    return chart


def named(text):
    return text or None


def unit_of(label):
    """Returns the text in parentheses at the end of a label."""
    label = label.rstrip()
    start = label.rfind('(')
    return label[start + 1:-1].strip() or None if label.endswith(')') and start >= 0 else None


def label_of(artist):
    text = str(artist.get_label())
    return '' if text.startswith('_') else text  # matplotlib's own names for unnamed artists


def converter_of(axis):
    return type(axis.get_converter() if hasattr(axis, 'get_converter') else axis.converter).__name__


def scale_of(axis):
    converter = converter_of(axis)
    if 'Date' in converter:
        return 'datetime'
    return 'categorical' if converter == 'StrCategoryConverter' else str(axis.get_scale())


def number(value):
    """Returns a number that JSON supports, rounded to single precision, or None."""
    value = float(value)
    return value if -1.8e308 < value < 1.8e308 else None


def neat(value):
    return float('%.6g' % value)


def values_on(axis, values, categories=True):
    """Returns positions on an axis as people read them: dates as ISO 8601, categories by their names."""
    scale = scale_of(axis)
    if scale == 'datetime':
        dates = modules['matplotlib.dates']
        return [dates.num2date(value).isoformat() for value in values]
    if scale == 'categorical' and categories:
        names = {place: name for name, place in axis.units._mapping.items()}
        return [names.get(value, number(value)) for value in values]
    return [number(value) for value in values]


def drawn_lines(axes):
    return [line for line in axes.lines if len(line.get_xdata(orig=False)) > 0]


def points(axes, artist, x, y):
    x, y = values_on(axes.xaxis, x[:POINTS_MAX]), values_on(axes.yaxis, y[:POINTS_MAX])
    return {'label': label_of(artist), 'points': [list(pair) for pair in zip(x, y)]}


def wedges(axes):
    return [{'label': label_of(p), 'angle': neat(abs(p.theta2 - p.theta1)), 'radius': neat(p.r)}
            for p in axes.patches if type(p).__name__ == 'Wedge']


def bars(axes):
    found = []
    for group in axes.containers:
        if type(group).__name__ != 'BarContainer':
            continue
        lies = getattr(group, 'orientation', None) == 'horizontal'
        axis = axes.yaxis if lies else axes.xaxis
        for bar in group.patches[:POINTS_MAX]:
            at = bar.get_y() + bar.get_height() / 2 if lies else bar.get_x() + bar.get_width() / 2
            found.append({'label': place_name(axis, at), 'group': label_of(group), 'value': number(bar.get_width() if lies else bar.get_height())})
    return found


def place_name(axis, at):
    """Returns the label of a position on an axis."""
    if scale_of(axis) != 'linear':
        return str(values_on(axis, [round(at) if scale_of(axis) == 'categorical' else at])[0])
    for tick, label in zip(axis.get_ticklocs(), axis.get_ticklabels()):
        if abs(tick - at) < 1e-9 and label.get_text():
            return label.get_text()
    return '%g' % at


def box_plots(axes):
    found = boxes.get(id(axes))
    if found is None or found[0]() is not axes:
        return []
    return [{'label': str(s.get('label', '')), 'min': number(s['whislo']), 'first_quartile': number(s['q1']), 'median': number(s['med']),
             'third_quartile': number(s['q3']), 'max': number(s['whishi']), 'outliers': [number(o) for o in s.get('fliers', ())]} for s in found[1]]


def remember_boxes(axes_class):
    """Makes axes remember the statistics of their box plots, which can't be derived from the drawing."""
    inner = axes_class.bxp

    def bxp(self, bxpstats, *args, **kwargs):
        stats = list(bxpstats)
        drawn = inner(self, stats, *args, **kwargs)
        for key in [key for key, (axes, _) in boxes.items() if axes() is None]:
            del boxes[key]
        boxes.setdefault(id(self), (bring('weakref').ref(self), []))[1].extend(stats)
        return drawn
    bring('functools').update_wrapper(bxp, inner)
    axes_class.bxp = bxp


def table_of(frame):
    """Returns the columns of a data frame: name -> values."""
    def cell(value):
        if hasattr(value, 'isoformat'):
            return value.isoformat()
        if isinstance(value, (bool, str)) or value is None:
            return value
        if isinstance(value, int):
            return value
        return number(value) if isinstance(value, float) else str(value)
    return {str(name): [cell(v) for v in column.head(POINTS_MAX).tolist()] for name, column in frame.items()}


def add_data(value, data):
    """Adds the data of a figure or a table to its forms. An error in it must not prevent the display."""
    figure, pandas = modules.get('matplotlib.figure'), modules.get('pandas')
    try:
        if figure is not None and isinstance(value, figure.Figure):
            chart = chart_of(value)
            if chart is not None:
                data[CHART] = encode(chart)
        elif pandas is not None and isinstance(value, pandas.DataFrame):
            data[DATA] = encode(table_of(value))
    except Exception:
        pass
