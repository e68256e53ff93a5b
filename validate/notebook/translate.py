# What notebooks accept beside Python: lines that begin with ! or %. It is asked only about code that is no Python.
import re

BEGIN = re.compile(r'(\s*)(!!?(?!=)|%%?(?=[A-Za-z]))(.*)$')
ASSIGN = re.compile(r'(\s*)([A-Za-z_][\w.,\[\] \t]*?)\s*=\s*(!(?!=)|%(?=[A-Za-z]))(.*)$')
# Magics that set up a notebook, or that measure what each answer says anyway.
IDLE = set('''matplotlib pylab config load_ext reload_ext autoreload unload_ext precision colors xmode pdb automagic gui
doctest_mode logstart logoff logon capture time prun'''.split())


def translate(text, call=None):
    """Returns text with its lines of notebooks made Python, line by line, or None if it has none. call makes the
    expression that does what a name and strings say."""
    call = call or (lambda *args: '__notebook__(%s)' % ', '.join(map(repr, args)))
    lines = text.replace('\r\n', '\n').split('\n')
    out, found = cell(lines, call)
    depth, quote, joined = 0, '', False
    while len(out) < len(lines):
        at = len(out)
        made = None if depth or quote or joined else statement(lines, at, call)
        if made is None:
            depth, quote, joined = scan(lines[at], depth, quote)
            made = [lines[at]]
        else:
            found = True
        out += made
    return '\n'.join(out) if found else None


def cell(lines, call):
    """Returns the beginning of what is to be Python, where a first line says what all the rest is."""
    first = next((i for i, line in enumerate(lines) if line.strip()), 0)
    m = re.match(r'%%(\w+)[ \t]*(.*)$', lines[first])
    if m is None:
        return [], False
    name, rest = m.groups()
    if name in IDLE or name in ('python', 'python3', 'py'):
        return [''] * (first + 1), True
    made = call('%%' + name, rest.strip(), '\n'.join(lines[first + 1:]))
    return [''] * first + [made] + [''] * (len(lines) - first - 1), True


def statement(lines, at, call):
    """Returns what the statement that begins with a line becomes, as many lines as it had, None if it stays."""
    line, target = lines[at], ''
    m = BEGIN.match(line)
    if m is not None:
        space, sign, rest = m.groups()
    else:
        m = ASSIGN.match(line)
        if m is None:
            return None
        space, target, sign, rest = m.groups()
        target += ' = '
    if sign == '%%':
        return None
    used = 1
    while rest.endswith('\\') and at + used < len(lines):
        rest += '\n' + lines[at + used]
        used += 1
    if sign == '%':
        name, _, rest = rest.partition(' ')
        made = magic(name, rest.strip(), target, call)
    else:
        made = call('!!' if target or sign == '!!' else '!', rest.strip())
    return [space + target + made] + [''] * (used - 1)


def magic(name, rest, target, call):
    if name == 'time' and rest:
        return rest  # each answer says how long it took
    if name in IDLE:
        return 'None' if target else 'pass'
    return call('%' + name, rest)


def scan(line, depth, quote):
    """Goes through a line. Returns how many brackets are open at its end, what ends the string that is, and whether
    the next line goes on with it."""
    i = 0
    while i < len(line):
        c = line[i]
        if c == '\\' and (quote or i + 1 == len(line)):
            if i + 1 == len(line):
                return depth, quote, True
            i += 1
        elif quote:
            if line.startswith(quote, i):
                i += len(quote) - 1
                quote = ''
        elif c == '#':
            break
        elif c in '"\'':
            quote = c * 3 if line.startswith(c * 3, i) else c
            i += len(quote) - 1
        elif c in '([{':
            depth += 1
        elif c in ')]}':
            depth = max(0, depth - 1)
        i += 1
    return depth, quote if len(quote) == 3 else '', False
