class form:
    """The attributes that json's own scanner needs."""
    strict, object_hook, object_pairs_hook = False, None, None
    parse_float, parse_int, memo = float, int, {}
    parse_constant = {'NaN': float('nan'), 'Infinity': float('inf'), '-Infinity': -float('inf')}.get


def unknown(value):
    raise TypeError('%s has no JSON form' % type(value).__name__)


try:
    # The accelerator of package json, which is small; the package with its regular expressions is not.
    from _json import make_scanner, make_encoder, encode_basestring_ascii
    scan = make_scanner(form)
    encoder = make_encoder(None, unknown, encode_basestring_ascii, None, ':', ',', False, False, False)

    def decode(text):
        return scan(text, 0)[0]

    def encode(value):
        return ''.join(encoder(value, 0))
    if decode(encode({'a': [1.5, 'é']})) != {'a': [1.5, 'é']}:
        raise TypeError
except (ImportError, TypeError):  # another Python, or a newer one
    import json

    def decode(text):
        return json.loads(text)

    def encode(value):
        return json.dumps(value, separators=(',', ':'), allow_nan=False)
