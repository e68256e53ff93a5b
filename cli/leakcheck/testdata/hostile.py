"""Gives away the secrets of its environment, in one encoding, over each path that a program has."""
import base64, codecs, gzip, html, json, os, quopri, random, re, subprocess, sys, urllib.parse, zlib

ENCODING = os.environ['ENCODING']
SECRETS = [os.environ[name] for name in sorted(os.environ) if name.startswith('LEAK_')]
dice = random.Random(ENCODING)

NAMED = {'_': '&lowbar;', '.': '&period;', '/': '&sol;', '+': '&plus;', '=': '&equals;', ':': '&colon;', '@': '&commat;'}


def fold(text, width):
    return '\n'.join(text[i:i + width] for i in range(0, len(text), width))


def b64(data, before=0):
    return base64.b64encode(b'x' * before + data + b'yy').decode()


def all_percent(data):
    return ''.join('%%%02X' % c for c in data)


def u16(text):
    return text.encode('utf-16-be').hex()


ENCODINGS = {
    'raw': lambda s, b: s,
    'base64': lambda s, b: b64(b),
    'base64 offset 1': lambda s, b: b64(b, 1),
    'base64 offset 2': lambda s, b: b64(b, 2),
    'base64 without padding': lambda s, b: base64.b64encode(b).decode().rstrip('='),
    'base64url': lambda s, b: base64.urlsafe_b64encode(b'\xfb\xff' + b).decode(),
    'base64 folded': lambda s, b: fold(b64(b, dice.randrange(70)), 76),
    'base64 folded short': lambda s, b: fold(b64(b, dice.randrange(30)), 20),
    'base64 of base64': lambda s, b: base64.b64encode(base64.b64encode(b)).decode(),
    'base32': lambda s, b: base64.b32encode(b'x' * dice.randrange(5) + b).decode(),
    'base32 lower': lambda s, b: base64.b32encode(b).decode().lower().rstrip('='),
    'hex': lambda s, b: b.hex(),
    'hex upper': lambda s, b: b.hex().upper(),
    'hex blanks': lambda s, b: b.hex(' '),
    'hex colons': lambda s, b: b.hex(':'),
    'hex hyphens': lambda s, b: b.hex('-').upper(),
    'hex 0x': lambda s, b: ', '.join('0x%02x' % c for c in b),
    'hex escapes': lambda s, b: ''.join('\\x%02x' % c for c in b),
    'hex folded': lambda s, b: fold(b.hex(), 60),
    'percent': lambda s, b: urllib.parse.quote(s, safe=''),
    'percent all': lambda s, b: all_percent(b),
    'percent lower': lambda s, b: all_percent(b).lower(),
    'percent twice': lambda s, b: urllib.parse.quote(all_percent(b), safe=''),
    'json': lambda s, b: json.dumps(s),
    'json of json': lambda s, b: json.dumps(json.dumps({'key': s})),
    'unicode escapes': lambda s, b: ''.join('\\u%04x' % ord(c) for c in s if ord(c) < 0x10000),
    'python repr': lambda s, b: repr([s, b]),
    'html decimal': lambda s, b: ''.join('&#%d;' % ord(c) for c in s),
    'html hex': lambda s, b: ''.join('&#x%X;' % ord(c) for c in s),
    'html named': lambda s, b: ''.join(NAMED.get(c, html.escape(c)) for c in s),
    'octal': lambda s, b: ''.join('\\%03o' % c for c in b),
    'quoted-printable': lambda s, b: quopri.encodestring(b'x' * dice.randrange(60) + b).decode(),
    'quoted-printable all': lambda s, b: ''.join('=%02X' % c for c in b),
    'utf-16 le': lambda s, b: s.encode('utf-16-le').decode('latin-1'),
    'utf-16 be': lambda s, b: s.encode('utf-16-be').decode('latin-1'),
    'decimal list': lambda s, b: ', '.join(str(c) for c in b),
    'decimal blanks': lambda s, b: ' '.join(str(c) for c in b),
    'binary': lambda s, b: ' '.join(format(c, '08b') for c in b),
    'reversed': lambda s, b: s[::-1],
    'rot13': lambda s, b: codecs.encode(s, 'rot13'),
    'one character a line': lambda s, b: '\n'.join(s),
    'spaced': lambda s, b: ' '.join(s),
    'upper case': lambda s, b: s.upper(),
    'gzip': lambda s, b: base64.b64encode(gzip.compress(b)).decode(),
    'xor': lambda s, b: bytes(c ^ 0x55 for c in b).hex(),
    'every second': lambda s, b: ''.join(c + dice.choice('abcdef') for c in s),
}


def bare(text):
    """UTF-16 is made of bytes, the rest is text."""
    return text.encode('latin-1') if ENCODING.startswith('utf-16') else text.encode('utf-8', 'surrogateescape')


def encoded(secret):
    return ENCODINGS[ENCODING](secret, secret.encode('utf-8', 'surrogateescape'))


def some(n):
    return [encoded(s) for s in dice.sample(SECRETS, min(n, len(SECRETS)))]


def write(fd, data, sizes):
    while data:
        n = dice.choice(sizes)
        n = os.write(fd, data[:n])
        data = data[n:]


def streams():
    everything = [encoded(s) for s in SECRETS]
    text = b''.join(b'line %d: ' % i + bare(e) + b' ends\n' for i, e in enumerate(everything))
    write(1, text, [1, 2, 3, 7, 100, 4096])
    write(2, text, [5, 64, 1000])
    sys.stdout.flush()
    # Several processes write at once, each a line at a time: what they say is not cut by the others.
    workers = []
    for part in range(4):
        if (pid := os.fork()) == 0:
            for e in everything[part::4]:
                line = b'worker: ' + bare(e) + b'\n'
                if len(line) < 4096:
                    os.write(1 + part % 2, line)
            os._exit(0)
        workers.append(pid)
    for pid in workers:
        os.waitpid(pid, 0)
    subprocess.run(['cat', '/no/such/' + everything[0]] if everything[0].isprintable() else ['true'])


def named(n, text):
    name = ('n%d-' % n).encode() + bare(text)
    return name if os.path.normpath(name) == name else b'n%d' % n


def files():
    os.makedirs('content', exist_ok=True)
    for i, e in enumerate(some(15)):
        with open('content/%d.txt' % i, 'wb') as f:
            f.write(b'before ' + bare(e) + b' after\n')
    with open('content/plain.csv', 'w') as f:
        f.write('a,b\n1,2\n')
    for i, e in enumerate(some(15)):
        if '\0' in e or any(len(p) > 180 for p in bare(e).split(b'/')):
            continue
        name = named(i, e)
        if os.path.dirname(name):
            os.makedirs(os.path.dirname(name), exist_ok=True)
        try:
            open(name, 'w').close()
            os.symlink(bare(e), b'link-%d' % i)
            os.symlink('content/plain.csv', os.path.join(os.path.dirname(name) or b'.', b'to-' + os.path.basename(name)))
        except OSError as problem:
            print(problem, file=sys.stderr)


def show():
    """What a session shows."""
    import binascii, struct
    for e in some(6):
        chunk = b'tEXtComment\0' + bare(e)
        png = b'\x89PNG\r\n\x1a\n' + b'\0\0\0\rIHDR' + bytes(17) + struct.pack('>I', len(chunk) - 4) + chunk + struct.pack('>I', binascii.crc32(chunk))
        display({
            'text/plain': e, 'text/html': '<b title="%s">%s</b>' % (e, e), 'text/markdown': '`' + e + '`',
            'application/json': {'key': e, e: [e]}, 'image/svg+xml': '<svg><text>%s</text></svg>' % e,
            'text/x-' + e: 'named',
            **({'image/png': png} if ENCODING == 'raw' else {}),  # which is base64 already
        }, raw=True)


def variables(space):
    for i, e in enumerate(some(6)):
        space['held_%d' % i] = e
        space['list_%d' % i] = [1, {e: e}]
        space['made_%d' % i] = type(e.replace('\0', '-'), (), {'__repr__': lambda self, e=e: e})()
        if re.fullmatch(r'\w+', e):
            space['named_' + e] = i
        if e.isascii() and '\0' not in e:
            space[e] = i
    space['carried'] = [encoded(s) for s in SECRETS] + [{encoded(s): 1} for s in SECRETS[:20]]
    return [k for k in space if k.startswith('named_')]


def fail(n=3):
    raise RuntimeError(' and '.join(some(n)))


if __name__ == '__main__' and os.environ.get('HOW') != 'session':
    files()
    streams()
    fail()
