# What the lines of notebooks do, once they are calls of notebook.
import os
import re
import sys

INSTALLS = re.compile(r'(?:sudo\s+)?(?:python[\d.]*\s+-m\s+)?(pip[\d.]*|uv|conda|mamba|micromamba|apt|apt-get|npm|yarn|pnpm)\s+(?:pip\s+)?(install|add|i)\b(.*)', re.S)
SHELL = set('ls ll cat mkdir cp mv rm rmdir head tail wc grep find touch pip conda mamba uv'.split())
INSTEAD = {
    'R': 'call execute_code with language r', 'javascript': 'call execute_code with language node',
    'html': 'call display with an object that has _repr_html_', 'who': 'inspect_state lists the variables of a session',
}
INSTEAD.update(js=INSTEAD['javascript'], node=INSTEAD['javascript'], markdown=INSTEAD['html'], latex=INSTEAD['html'], whos=INSTEAD['who'])


def notebook(what, args='', body=''):
    """Does what one line, or a whole cell, says."""
    name = what.lstrip('%')
    if what == '%' + name and name in SHELL:
        what, args = '!', name + ' ' + args
    do = DOES.get(what)
    if do is None:
        instead = INSTEAD.get(name)
        raise NotImplementedError('%s is a command of notebooks that there is none of here%s' % (what, ': ' + instead if instead else ''))
    return do(args, body, sys._getframe(1))


DOES = {
    '!': lambda args, body, frame: run(expanded(args, frame)) and None,
    '!!': lambda args, body, frame: output(expanded(args, frame)),
    '%cd': lambda args, body, frame: change(expanded(args, frame).strip('"\'')),
    '%pwd': lambda args, body, frame: os.getcwd(),
    '%env': lambda args, body, frame: environment(expanded(args, frame)),
    '%timeit': lambda args, body, frame: timeit(re.sub(r'-[nr]\s*\d+\s*', '', args), frame),
    '%%timeit': lambda args, body, frame: timeit(body, frame),
    '%%bash': lambda args, body, frame: run(body),
    '%%script': lambda args, body, frame: run(body, args.split()[0] if args else 'bash'),
    '%%writefile': lambda args, body, frame: write(args.split(), body),
    '%run': lambda args, body, frame: frame.f_globals.update(__import__('runpy').run_path(expanded(args, frame), run_name='__main__')),
}
DOES.update({'%sx': DOES['!!'], '%system': DOES['!!'], '%set_env': DOES['%env'], '%%sh': DOES['%%bash'], '%%file': DOES['%%writefile']})


def change(directory):
    os.chdir(os.path.expanduser(directory or '~'))
    print(os.getcwd())


def expanded(text, frame):
    """Returns a command with {expression} and $variable replaced, as far as the program has them."""
    def value(m):
        names = dict(frame.f_globals, **frame.f_locals)
        try:
            return str(eval(m.group(1), names) if m.group(1) else names[m.group(2)])
        except Exception:
            return m.group()  # the shell's own
    return re.sub(r'(?<!\$)\{([^{}]+)\}|\$([A-Za-z_]\w*)', value, text)


def installs(command):
    """Explains what can't be done from in here."""
    m = INSTALLS.match(command)
    if m is None:
        return False
    names = [word.strip('"\'') for word in re.split(r'[;&|]', m.group(3))[0].split() if word[0] != '-']
    how = 'Call install_package with packages %s' % str(names).replace("'", '"') if names else 'Call install_package'
    if m.group(1).startswith('apt'):
        how = 'Packages of the system come from a person; install_package has those of Python and Node'
    sys.stderr.write('"%s" was not run: nothing can be installed from in here. %s; what is there already can be imported.\n' % (command[:200], how))
    return True


def run(command, shell='bash', **more):
    import subprocess
    if installs(command):
        return None
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except Exception:
            pass
    done = subprocess.run([shell, '-c', command], **more)
    sys.modules['__main__']._exit_code = done.returncode
    return done.stdout


def output(command):
    import subprocess
    text = run(command, stdout=subprocess.PIPE)
    return [] if text is None else text.decode(errors='replace').splitlines()


def write(words, text):
    more = '-a' in words
    name = next((w.strip('"\'') for w in words if w != '-a'), '')
    with open(name, 'a' if more else 'w', encoding='utf-8') as f:
        f.write(text if text.endswith('\n') else text + '\n')
    print('%s %s' % ('Appending to' if more else 'Writing', name))


def environment(args):
    if not args:
        return dict(os.environ)
    name, sign, value = args.partition('=' if '=' in args else ' ')
    if not sign:
        return os.environ.get(name)
    os.environ[name.strip()] = value.strip()
    print('env: %s=%s' % (name.strip(), value.strip()))


def timeit(code, frame):
    import timeit
    timer = timeit.Timer(code, globals=dict(frame.f_globals, **frame.f_locals))
    count = timer.autorange()[0]
    best = min(timer.repeat(5, count)) / count
    unit, scale = next((u, s) for u, s in (('s', 1), ('ms', 1e3), ('us', 1e6), ('ns', 1e9)) if best * s >= 1 or u == 'ns')
    print('%.3g %s per loop (best of 5, %d loops each)' % (best * scale, unit, count))
