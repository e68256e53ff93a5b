def get(key):
    if key not in main.__dict__:
        raise NameError("name '%s' is not defined" % key)
    try:
        value = plain(main.__dict__[key], 0)
        text = encode(value)
    except RecursionError:
        raise ValueError('the value is nested too deeply, or contains itself') from None
    if len(text) > JSON_MAX:
        raise ValueError('the value takes %d bytes as JSON, more than %d: write it to a file' % (len(text), JSON_MAX))
    return value


def put(key, value):
    compile(key + ' = 0', '<key>', 'exec', 0, True)
    if not key.isidentifier():
        raise SyntaxError('%s is not a variable name' % repr(key))
    main.__dict__[key] = value


def variables():
    found = []
    for name, value in sorted(main.__dict__.copy().items()):
        if name.startswith('_') or name in state.mine:
            continue
        if len(found) == VARIABLES_MAX:
            break
        size, unit = size_of(value)
        found.append({'name': name[:200], 'type': type(value).__name__[:200], 'text': brief(value, 2)[:200], 'size': size, 'unit': unit})
    return found


def size_of(value):
    t = type(value)
    try:
        if t is str:
            return len(value), 'characters'
        if t is bytes or t is bytearray:
            return len(value), 'bytes'
        if t in PLAIN and method(value, '__len__') is not None:
            return len(value), 'elements'
        module = t.__module__.partition('.')[0]
        if module == 'numpy' and t.__name__ == 'ndarray':
            return int(value.size), 'elements'
        if module in ('pandas', 'polars'):
            return len(value), 'rows'
    except Exception:
        pass
    return 0, ''


def brief(value, depth):
    """Returns the beginning of a value's repr, without building the rest."""
    t = type(value)
    if t is str or t is bytes or t is bytearray:
        return repr(value[:200])
    if t in (list, tuple, set, frozenset, dict) and len(value) > 0:
        parts, size = [], 0
        for item in value:
            if size > 200 or depth == 0:
                parts.append('...')
                break
            part = brief(item, depth - 1)
            if t is dict:
                part += ': ' + brief(value[item], depth - 1)
            parts.append(part)
            size += len(part)
        a, z = {list: '[]', tuple: '()', dict: '{}'}.get(t, '{}')
        return a + ', '.join(parts) + (',' if t is tuple and len(value) == 1 else '') + z
    if t is int and value.bit_length() > 4096:
        return 'an int of %d bits' % value.bit_length()
    return text_of(value)
