def settle():
    """Does before the first cell the part of Python's start that -S skips: it finds packages and runs their
    start-up code, which may take more time and memory than the rest of the start.
    """
    if state.settled:
        return
    state.settled = True
    site = bring('site')
    first = [p for p in sys.path[:1] if p == '']
    del sys.path[:len(first)]  # the workspace, from which nothing is imported at that time
    try:
        site.main()
    except BaseError as e:
        sys.stderr.write('site: %s\n' % short(e))
    sys.path[:0] = first


def know_sources(linecache):
    for name, text in state.sources.items():
        know_source(linecache, name, text)


def know_source(linecache, name, text):
    lines = _io.StringIO(text, newline=None).readlines()
    if lines and not lines[-1].endswith('\n'):
        lines[-1] += '\n'  # otherwise carets are off by one
    linecache.cache[name] = (len(text), None, lines, name)


hooks['linecache'] = know_sources
