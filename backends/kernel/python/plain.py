def plain(value, depth):
    """Returns a value in a form that JSON supports."""
    if depth > 200:
        raise ValueError('the value is nested more than 200 deep, or contains itself')
    t = type(value)
    if value is None or t is bool or t is int or t is str:
        return value
    enum = modules.get('enum')
    if enum is not None and isinstance(value, enum.Enum):
        return plain(value.value, depth + 1)
    if isinstance(value, float):
        value = float(value)
        return value if value - value == 0 else None
    if isinstance(value, int):
        return int(value)
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, (bytes, bytearray, memoryview)):
        raise TypeError('bytes have no JSON form: encode them first, as with base64.b64encode(value).decode()')
    if isinstance(value, dict):
        return {key_of(k): plain(v, depth + 1) for k, v in value.items()}
    if isinstance(value, (list, tuple, set, frozenset, range)):
        return [plain(v, depth + 1) for v in value]
    return plain_object(value, depth + 1)


def key_of(key):
    key = plain(key, 0) if not isinstance(key, tuple) else str(key)
    if isinstance(key, str):
        return key
    return encode(key)


def plain_object(value, depth):
    if type(value).__name__ == 'NAType':
        return None
    f = method(value, 'isoformat')  # dates and times
    if f is not None:
        return str(f()) if value == value else None  # pandas' NaT is not equal to itself
    f = method(value, 'tolist')  # numpy, and pandas' Series
    if f is not None:
        return plain(f(), depth)
    f = method(value, 'to_dict')  # pandas' DataFrame
    if f is not None:
        try:
            return plain(f(orient='records'), depth)
        except TypeError:
            return plain(f(), depth)
    f = method(value, '__fspath__')
    if f is not None:
        return plain(f(), depth)
    fields = getattr(type(value), '__dataclass_fields__', None)
    if isinstance(fields, dict):
        return {name: plain(getattr(value, name), depth) for name in fields}
    if type(value).__module__ in ('decimal', 'uuid', 'fractions') or type(value).__module__ == '_decimal':
        return str(value)
    unknown(value)
