//go:build unix

package validate

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func pythonTriggers() []triggers {
	return []triggers{
		{"python-eval", []string{"eval('1')", "exec(x)", "compile(x, 'a', 'exec')", "import builtins\nbuiltins.exec(x)",
			"from builtins import eval as v\nv('1')", "__import__('builtins').eval(x)", "(lambda: 0) or eval(x)",
			"def f(g=eval):\n    pass\neval(x)", "[f for f in [1] if eval('1')]"},
			[]string{"'eval(1)'", "# eval(1)\n1", "evaluate = 1", "import ast\nast.literal_eval('1')", "import re\nre.compile('a')",
				"def eval(x):\n    return x\neval(1)", "model.eval()", "class A:\n    def exec(self):\n        self.exec()",
				"def f(eval):\n    eval(1)", "f'eval(1)'", "df.eval('a+b')"}},
		{"python-encoded-code", []string{"import base64\nexec(base64.b64decode('YQ=='))",
			"import zlib, base64 as b\nexec(zlib.decompress(b.b64decode(x)))", "import marshal\nexec(marshal.loads(x))", "exec(bytes.fromhex('41'))",
			"import codecs\neval(codecs.decode(x, 'rot13'))"},
			[]string{"import base64\nbase64.b64decode('YQ==')", "exec(f(x))", "'exec(base64.b64decode(x))'", "# exec(base64.b64decode(x))\n1",
				"self.exec(b64decode(x))"}},
		{"python-remote-code", []string{"import requests\nexec(requests.get(u).text)"},
			[]string{"import requests\nrequests.get(u)", "exec(open(f).read())", "'exec(requests.get(u))'", "# exec(requests.get(u).text)\n1",
				"exec(cache.get(u))"}},
		{"python-hidden-name", []string{"getattr(__builtins__, 'ev' + 'al')", "import os\ngetattr(os, 'sys' + 'tem')('x')",
			"import os\nn = 'metsys'[::-1]\ngetattr(os, n)('x')", "getattr(__builtins__, chr(101) + 'val')"},
			[]string{"getattr(x, 'a' + 'b')", "import os\ngetattr(os, 'system')", "import os\ngetattr(os, name, None)", "'getattr(__builtins__, a)'",
				"# getattr(__builtins__, 'ev' + 'al')\n1"}},
		{"python-os-system", []string{"import os\nos.system('ls')", "import os as o\no.system('x')", "from os import system as s\ns('x')",
			"import os\nos.popen('x')", "__import__('os').system('x')", "import importlib\nimportlib.import_module('os').system('x')",
			"os.system('x')",
			"import subprocess\nsubprocess.getoutput('x')", "def f():\n    import os\n    return os.system('x')",
			"class A:\n    import os\n    os.system('x')", "async def f():\n    import asyncio\n    await asyncio.create_subprocess_shell('x')"},
			[]string{"'os.system(1)'", "# os.system('x')\n1", "import platform\nplatform.system()", "class O:\n    pass\nos = O()\nos.system('x')",
				"def f(os):\n    os.system('x')", "import json as os\nos.system('x')", "x.os.system('y')", "system = 1", "import os\nos.system"}},
		{"python-subprocess-shell", []string{"import subprocess\nsubprocess.run('ls', shell=True)",
			"from subprocess import Popen as P\nP('ls', shell=1)", "import subprocess as sp\nsp.check_output(x, shell=True)"},
			[]string{"import subprocess\nsubprocess.run(['ls'])", "import subprocess\nsubprocess.run('ls', shell=False)", "run('ls', shell=True)",
				"'subprocess.run(x, shell=True)'", "# subprocess.run(x, shell=True)\n1", "x.subprocess.run('ls', shell=True)"}},
		{"python-unpickle", []string{"import pickle\npickle.loads(x)", "from pickle import load\nload(f)", "import marshal\nmarshal.loads(x)",
			"import shelve\nshelve.open('x')", "import dill as d\nd.load(f)", "import pandas as pd\npd.read_pickle('x')",
			"import numpy as np\nnp.load(f, allow_pickle=True)"},
			[]string{"import pickle\npickle.dumps(x)", "import json\njson.loads(x)", "'pickle.loads(x)'", "# pickle.loads(x)\n1",
				"x.pickle.loads(y)", "pickle = f()\npickle.loads(x)", "import numpy as np\nnp.load(f)"}},
		{"python-yaml-load", []string{"import yaml\nyaml.load(f)", "import yaml\nyaml.load(f, Loader=yaml.Loader)",
			"from yaml import unsafe_load\nunsafe_load(f)", "import yaml\nyaml.load(f, yaml.FullLoader)", "yaml.load(f)"},
			[]string{"import yaml\nyaml.safe_load(f)", "import yaml\nyaml.load(f, Loader=yaml.SafeLoader)",
				"from yaml import load, CSafeLoader\nload(f, Loader=CSafeLoader)", "'yaml.load(f)'", "# yaml.load(f)\n1", "x.yaml.load(f)",
				"import json\njson.load(f)"}},
		{"python-native", []string{"import ctypes", "from ctypes import CDLL", "import ctypes.util", "__import__('ctypes')", "import cffi"},
			[]string{"'import ctypes'", "# import ctypes\n1", "ctypes = 1", "import x.ctypes", "from . import ctypes", "a.ctypes"}},
		{"python-dynamic-import", []string{"__import__(x)", "import importlib\nimportlib.import_module(n)",
			"from importlib import import_module as i\ni('a' + f())"},
			[]string{"__import__('json')", "'__import__(x)'", "# __import__(x)\n1", "x.import_module(y)",
				"def __import__(x):\n    pass\n__import__(y)"}},
		{"python-socket", []string{"import socket\nsocket.socket()", "from socket import socket as s\ns()",
			"import socket\nsocket.create_connection(a)", "with __import__('socket').socket() as s:\n    pass"},
			[]string{"import socket\nsocket.gethostname()", "'socket.socket()'", "# socket.socket()\n1", "x.socket.socket()",
				"socket = f()\nsocket.socket()"}},
		{"python-network", []string{"import requests\nrequests.get(u)", "from urllib.request import urlopen\nurlopen(u)",
			"import urllib.request as r\nr.urlretrieve(u)", "import http.client\nhttp.client.HTTPSConnection('a')",
			"import aiohttp\naiohttp.ClientSession()"},
			[]string{"import urllib.parse\nurllib.parse.quote('a')", "'requests.get(u)'", "# requests.get(u)\n1", "x.requests.get(u)",
				"requests = {}\nrequests.get('a')", "d = {}\nd.get('a')"}},
		{"python-reverse-shell", []string{"import os, socket\ns = socket.socket()\nos.dup2(s.fileno(), 0)",
			"import os, socket\ns = socket.create_connection(a)\n[os.dup2(s.fileno(), i) for i in range(3)]"},
			[]string{"import os\nf = open('x')\nos.dup2(f.fileno(), 1)", "'os.dup2(s.fileno(), 0)'", "# os.dup2(s.fileno(), 0)\n1",
				"import socket\ns = socket.socket()\nx.dup2(s.fileno(), 0)"}},
		{"python-delete-all", []string{"import shutil\nshutil.rmtree('/')", "from shutil import rmtree as r\nr('/')",
			"import shutil, os\nshutil.rmtree(os.path.expanduser('~'))", "import shutil\nfrom pathlib import Path\nshutil.rmtree(Path.home())",
			"import shutil\nshutil.rmtree('/etc')"},
			[]string{"import shutil\nshutil.rmtree('build')", "import shutil\nshutil.rmtree('/tmp/x')", "'shutil.rmtree(\"/\")'",
				"# shutil.rmtree('/')\n1", "x.rmtree('/')", "import shutil\nshutil.rmtree(p)"}},
		{"python-system-write", []string{"open('/etc/passwd', 'w')", "from pathlib import Path\nPath('/etc/x').write_text('')",
			"import os\nos.remove('/usr/bin/x')", "import os\nopen(os.path.join('/etc', n), mode='a')", "import shutil\nshutil.copy('a', '/etc/b')",
			"import os\nos.open('/etc/x', os.O_WRONLY)", "open(f'/etc/{n}', 'w')", "import os\nopen(os.path.expanduser('~/.bashrc'), 'a')",
			"from pathlib import Path\nPath('/etc/x').open('w')"},
			[]string{"open('/etc/passwd')", "open('/tmp/x', 'w')", "open('/dev/null', 'w')", "'open(\"/etc/x\", \"w\")'", "# open('/etc/x', 'w')\n1",
				"zf.open('/etc/x', 'w')", "def open(a, b):\n    pass\nopen('/etc/x', 'w')", "import shutil\nshutil.copy('/etc/hosts', 'a')",
				"open('etc/x', 'w')", "open('x', '/etc/w')"}},
		{"python-kill-all", []string{"import os\nos.kill(-1, 9)", "from os import kill as k\nk(-1, 9)", "import os\nos.kill(os.getppid(), 9)"},
			[]string{"import os\nos.kill(os.getpid(), 9)", "import os\nos.kill(p, 9)", "'os.kill(-1, 9)'", "# os.kill(-1, 9)\n1", "x.kill(-1, 9)"}},
		{"python-fork-bomb", []string{"import os\nwhile True:\n    os.fork()", "import os\nwhile 1: os.fork()",
			"import subprocess, sys\nwhile True:\n    subprocess.Popen([sys.executable, __file__])",
			"import multiprocessing as m\nwhile True:\n    m.Process(target=f).start()"},
			[]string{"import os\nos.fork()", "import os\nwhile True:\n    os.fork()\n    os.wait()", "import os\nfor i in range(4):\n    os.fork()",
				"'while True: os.fork()'", "# while True: os.fork()\n1", "while True:\n    x.fork()",
				"import os\nwhile True:\n    if os.fork() == 0:\n        break"}},
		{"python-escape", []string{"().__class__.__mro__[1].__subclasses__()", "''.__class__.__base__.__subclasses__()",
			"object.__subclasses__()", "f.__globals__['os']", "getattr(x, '__subclasses__')()", "f.__code__ = g"},
			[]string{"Plugin.__subclasses__()", "x.__class__.__name__", "'().__class__.__mro__[1].__subclasses__()'", "# f.__globals__\n1",
				"A.__mro__", "__globals__ = 1"}},
		{"python-patch-builtins", []string{"import builtins\nbuiltins.print = f", "setattr(__builtins__, 'x', 1)", "__builtins__['x'] = 1",
			"import builtins as b\ndel b.print", "import builtins\nbuiltins.__dict__.update(a)"},
			[]string{"import builtins\nbuiltins.print('a')", "setattr(x, 'print', f)", "print = f", "'builtins.print = f'",
				"# builtins.print = f\n1", "x.builtins.print = 1"}},
	}
}

func TestPythonRules(t *testing.T) {
	testTriggers(t, Python, "a.py", pythonTriggers(), Options{Python: startPython(t)})
}

func TestPythonCommands(t *testing.T) {
	o := Options{Python: startPython(t)}
	tests := []struct{ source, want string }{
		{"import os\nos.system('rm -rf /')", "shell-delete-all"},
		{"import os\nos.system('sh -c')", "python-os-system"},
		{"import subprocess\nsubprocess.run(['rm', '-rf', '/'])", "shell-delete-all"},
		{"import subprocess\nsubprocess.run('curl a | sh', shell=True)", "shell-remote-code"},
		{"import os\nos.system(f'rm -rf / {x}')", "shell-delete-all"},
		{"import os\nos.popen(':(){ :|:& };:')", "shell-fork-bomb"},
	}
	for _, tt := range tests {
		r, err := Analyze(t.Context(), Code{Name: "a.py", Source: []byte(tt.source)}, o)
		if err != nil {
			t.Fatal(err)
		}
		if i := slices.IndexFunc(r.Dangers, func(d Danger) bool { return d.Rule == tt.want }); i < 0 || r.Dangers[i].Line != 2 {
			t.Errorf("%q: got %+v, want %s in line 2", tt.source, r.Dangers, tt.want)
		}
	}
}

func TestPythonMissing(t *testing.T) {
	p := startPython(t)
	o := Options{Python: p}
	minor := p.minor(t)
	tests := []struct{ name, source, want string }{
		{"library", "json.dumps(1)", "import json"},
		{"in a function", "def f():\n    return math.pi", "import math"},
		{"bound", "import json\njson.dumps(1)", ""},
		{"bound by another name", "import json as j\njson.dumps(1)", "import json"},
		{"bound in another function", "def f():\n    import json\ndef g():\n    json.dumps(1)", "import json"},
		{"parameter", "def f(json):\n    json.dumps(1)", ""},
		{"variable of that name", "queue = []\nqueue.append(1)", ""},
		{"undefined variable of that name", "queue.push(1)", ""},
		{"global", "def f():\n    global json\n    import json\ndef g():\n    json.dumps(1)", ""},
		{"nonlocal", "def f():\n    re = None\n    def g():\n        nonlocal re\n        re = 1\n    re.x", ""},
		{"comprehension", "[json for json in x]\n[re.sub('a', 'b', s) for s in x]", "import re"},
		{"deleted", "import json\ndel json\njson.dumps(1)", ""},
		{"guarded", "try:\n    json.dumps(1)\nexcept NameError:\n    pass", ""},
		{"star", "from x import *\njson.dumps(1)", ""},
		{"globals", "globals()['json'] = 1\njson.dumps(1)", ""},
		{"text", "'json.dumps(1)' # re.sub()", ""},
		{"type comment", "x = [] # type: List[int]", ""},
		{"dunder", "__name__, __file__", ""},
		{"match", "match x:\n    case {'a': json, **re}:\n        json.dumps(re.x)", ""},
		{"walrus", "[json := 1]\njson.dumps", ""},
		{"except as", "try:\n    pass\nexcept E as json:\n    json.dumps", ""},
		{"class scope", "class A:\n    json = 1\n    def f(self):\n        return json.dumps(1)", "import json"},
		{"aliases", "np.array([1])\nplt.plot()\nsns.set()", "import numpy as np; import matplotlib.pyplot as plt; import seaborn as sns"},
		{"not installed", "requests.get(u)", "import requests"},
		{"names", "Path('a')\ndefaultdict(list)\npartial(f)", "from pathlib import Path; from collections import defaultdict; from functools " +
			"import partial"},
		{"types", "def f(x: Optional[List[int]]) -> Dict: pass", "from typing import Dict; from typing import Optional; from typing import List"},
		{"types not evaluated", "from __future__ import annotations\ndef f(x: Optional[int]): pass", ""},
		{"decorator", "@dataclass\nclass A:\n    x: int", "from dataclasses import dataclass"},
		{"datetime module", "datetime.datetime.now()", "import datetime"},
		{"datetime class", "datetime.now()", "from datetime import datetime"},
		{"datetime both", "datetime.now()\ndatetime.datetime.now()", ""},
		{"timedelta", "timedelta(1)", "from datetime import timedelta"},
		{"time module", "time.time()", "import time"},
		{"submodule", "urllib.request.urlopen(u)\nxml.etree.ElementTree.parse(f)\nos.path.join('a')",
			"import urllib.request; import xml.etree.ElementTree; import os"},
		{"concurrent", "concurrent.futures.ThreadPoolExecutor()", "import concurrent.futures"},
		{"common word", "product(a)\ncount = 1\nchain = 2", "from itertools import product"},
		{"common word as a value", "print(sample)", ""},
		{"math", "sqrt(2) + pi", "from math import sqrt; from math import pi"},
		{"antigravity", "antigravity.fly()\nthis.s", ""},
		{"assigned later", "def f():\n    return json.x\njson = 1", ""},
		{"type parameters", "def f(x): return x\nclass A(Generic): pass", "from typing import Generic"},
		{"lambda", "lambda json: json.dumps(1)", ""},
		{"no import: attribute", "x.json.dumps(1)", ""},
		{"unbalanced", "sklearn.linear_model.LinearRegression()", "import sklearn.linear_model"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.name == "match" && minor < 10 {
				t.Skip("Python 3.10 has match")
			}
			r, err := Analyze(t.Context(), Code{Name: "a.py", Source: []byte(tt.source)}, o)
			if err != nil || !r.Valid {
				t.Fatalf("%v %+v", err, r)
			}
			var got []string
			for _, m := range r.Missing {
				got = append(got, m.Statement)
			}
			slices.Sort(got)
			want := strings.Split(tt.want, "; ")
			slices.Sort(want)
			if all := strings.Join(got, "; "); all != strings.Join(want, "; ") {
				t.Errorf("got %q, want %q", all, tt.want)
			}
		})
	}
}

func TestPythonFixed(t *testing.T) {
	o := Options{Python: startPython(t), Fix: true}
	tests := []struct{ name, source, want string }{
		{"plain", "print(json.dumps(1))\n", "import json\nprint(json.dumps(1))\n"},
		{"docstring", "\"\"\"A.\n\nB.\"\"\"\nprint(json.dumps(1))\n", "\"\"\"A.\n\nB.\"\"\"\nimport json\nprint(json.dumps(1))\n"},
		{"future", "'''doc'''\nfrom __future__ import annotations\njson.x\njson.dumps(1)\n",
			"'''doc'''\nfrom __future__ import annotations\nimport json\njson.x\njson.dumps(1)\n"},
		{"shebang and coding", "#!/usr/bin/env python3\n# -*- coding: utf-8 -*-\n\njson.dumps(1)\n",
			"#!/usr/bin/env python3\n# -*- coding: utf-8 -*-\n\nimport json\njson.dumps(1)\n"},
		{"CR LF", "# a\r\njson.dumps(1)\r\n", "# a\r\nimport json\r\njson.dumps(1)\r\n"},
		{"no end of line", "json.dumps(1)", "import json\njson.dumps(1)"},
		{"byte order mark", "\ufeffjson.dumps(1)\n", "\ufeffimport json\njson.dumps(1)\n"},
		{"docstring on the line", "'doc'; json.dumps('\u00e4')\n", "'doc'; import json; json.dumps('\u00e4')\n"},
		{"decorator", "@dataclass\nclass A:\n    x: Optional[int]\n",
			"from dataclasses import dataclass\nfrom typing import Optional\n@dataclass\nclass A:\n    x: Optional[int]\n"},
		{"together", "x: Optional[List[int]] = 1\njson.dumps(x)\n", "from typing import Optional\nfrom typing import List\nimport json\nx: " +
			"Optional[List[int]] = 1\njson.dumps(x)\n"},
		{"nothing", "print(1)\n", ""},
		{"only a docstring and a use below", "'''a'''\n\n\ndef f():\n    return json.dumps(1)\n",
			"'''a'''\n\n\nimport json\ndef f():\n    return json.dumps(1)\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r, err := Analyze(t.Context(), Code{Name: "a.py", Source: []byte(tt.source)}, o)
			if err != nil || r.Fixed != tt.want {
				t.Fatalf("got %q, want %q; %v %v", r.Fixed, tt.want, r.Problems, err)
			}
			if r.Fixed == "" {
				return
			}
			checkPatch(t, tt.source, r.Diff, r.Fixed)
			again, err := Analyze(t.Context(), Code{Name: "a.py", Source: []byte(r.Fixed)}, o)
			if err != nil || !again.Valid || len(again.Missing) > 0 {
				t.Errorf("what was fixed is not right: %+v", again)
			}
		})
	}
}

func TestPythonProblems(t *testing.T) {
	p := startPython(t)
	if p.minor(t) < 10 {
		t.Skip("Python before 3.10 says it in other words")
	}
	o := Options{Python: p}
	tests := []struct {
		name, source string
		line, column int
		want         string
	}{
		{"unclosed", "print(\n", 1, 6, "never closed"},
		{"second line", "a = 1\nb = = 2\n", 2, 5, "invalid syntax"},
		{"return outside", "return 1", 1, 1, "outside function"},
		{"indent", "def f():\nx = 1\n", 2, 1, "expected an indented block"},
		{"await outside", "await f()", 1, 1, "outside function"},
		{"wide letters", "\u4f60\u597d = = 1", 1, 6, "invalid syntax"},
		{"CR LF", "a = 1\r\nb = = 2\r\n", 2, 5, "invalid syntax"},
		{"byte order mark", "\ufeffb = = 2\n", 1, 0, "invalid syntax"},
		{"nonlocal", "nonlocal x", 1, 1, "nonlocal declaration not allowed"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r, err := Analyze(t.Context(), Code{Name: "a.py", Source: []byte(tt.source)}, o)
			if err != nil || r.Valid || len(r.Problems) != 1 {
				t.Fatalf("%v %+v", err, r)
			}
			p := r.Problems[0]
			if p.Line != tt.line || tt.column > 0 && p.Column != tt.column || !strings.Contains(p.Text, tt.want) ||
				!strings.Contains(p.Snippet, "^") {
				t.Errorf("got %d:%d %q\n%s\nwant %d:%d %q", p.Line, p.Column, p.Text, p.Snippet, tt.line, tt.column, tt.want)
			}
		})
	}
}

func TestPythonNotes(t *testing.T) {
	p := startPython(t)
	r, err := Analyze(t.Context(), Code{Name: "a.py", Source: []byte("a = 1\nb = '\\d'\n")}, Options{Python: p})
	if err != nil || !r.Valid || len(r.Notes) != 1 || !strings.HasPrefix(r.Notes[0], "line 2: ") || !strings.Contains(r.Notes[0], "escape") {
		t.Errorf("got %+v, %v", r, err)
	}
	r, err = Analyze(t.Context(), Code{Name: "a.py", Source: []byte("await f()")}, Options{Python: p, Cell: true})
	if err != nil || !r.Valid {
		t.Errorf("a cell that awaits: %+v, %v", r, err)
	}
}

// TestPythonBombs sends code that crashes a parser, or keeps it busy. The analyser survives.
func TestPythonBombs(t *testing.T) {
	p := startPython(t)
	o := Options{Python: p, Fix: true}
	tests := []struct {
		name, source string
		unread       bool // always
	}{
		{"parentheses", strings.Repeat("(", 100_000) + "1" + strings.Repeat(")", 100_000), false},
		{"minus", strings.Repeat("-", 1_000_000) + "1", false},
		{"plus", strings.Repeat("1+", 200_000) + "1", false},
		{"attributes", "a" + strings.Repeat(".b", 200_000), false},
		{"calls", "a" + strings.Repeat("()", 200_000), false},
		{"lambdas", strings.Repeat("lambda:", 50_000) + "1", false},
		{"power, folded", "9**9**9**9**9", false},
		{"names of names", strings.Repeat("a = b + b\nb = a + a\n", 2000) + "eval(a)", false},
		{"doubling", doubling(), false},
		{"many names", manyNames(), false},
		{"ten megabytes of text", "x = '" + strings.Repeat("a", 10<<20-10) + "'", false},
		{"ten megabytes of statements", strings.Repeat("a=1\n", (10<<20)/4), false},
		{"ten megabytes of comments", strings.Repeat("#\n", (10<<20)/2), false},
		{"many evals", strings.Repeat("eval(x)\n", 20_000), true},
		{"bad bytes", "# coding: latin-1\n'\xe4'", false},
		{"odd coding", "# coding: rot13\nvzcbeg bf", false},
		{"unknown coding", "# coding: no-such-thing\n1", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r, err := Analyze(t.Context(), Code{Name: "a.py", Source: []byte(tt.source)}, o)
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("valid %v %.100v %v", r.Valid, r.Problems, r.Notes)
			if tt.unread && !slices.ContainsFunc(r.Dangers, func(d Danger) bool { return d.Rule == unread }) {
				t.Errorf("no word that not all of it was looked at: %v", r.Notes)
			}
			again, err := Analyze(t.Context(), Code{Name: "a.py", Source: []byte("eval(x)")}, o)
			if err != nil || len(again.Dangers) != 1 {
				t.Fatalf("the analyser is not what it was: %+v %v", again, err)
			}
		})
	}
	// NUL bytes don't reach this through Analyze.
	if answer, err := p.Analyse(t.Context(), []byte(`{"source":"AGEA"}`)); err != nil || !strings.Contains(string(answer), "null bytes") {
		t.Errorf("got %s, %v", answer, err)
	}
	if answer, err := p.Analyse(t.Context(), []byte("\x00 no json")); err != nil || !strings.Contains(string(answer), "unread") {
		t.Errorf("got %s, %v", answer, err)
	}
}

func doubling() string {
	var b strings.Builder
	for i := range 60 {
		fmt.Fprintf(&b, "a%d = a%d + a%d\n", i+1, i, i)
	}
	return "a0 = 'x'\n" + b.String() + "eval(a60)"
}

func manyNames() string {
	var b strings.Builder
	for i := range 20_000 {
		fmt.Fprintf(&b, "x%d = x%d.y\n", i+1, i)
	}
	return b.String() + "x20000()"
}

// TestPythonRunsNothing sends code that would leave a file if any of it ran.
func TestPythonRunsNothing(t *testing.T) {
	p := startPython(t)
	file := filepath.Join(t.TempDir(), "ran")
	source := fmt.Sprintf("#coding: utf-8\nopen(%q, 'w')\nclass A:\n    x = open(%q, 'w')\ndef f(a=open(%q, 'w')): pass\n@open\ndef g(): "+
		"pass\nimport antigravity\nthis.s\n", file, file, file)
	if _, err := Analyze(t.Context(), Code{Name: "a.py", Source: []byte(source)}, Options{Python: p, Fix: true}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(file); err == nil {
		t.Error("the code was run")
	}
}

func TestPythonAnalyserFitsArgument(t *testing.T) {
	if n := len(PythonAnalyser()); n > 100<<10 {
		t.Errorf("%d bytes: Linux takes 128 KiB in one argument", n)
	}
}

func BenchmarkAnalyzePython(b *testing.B) {
	p := startPython(b)
	source := []byte(strings.Repeat("import os\ndef f(a, b):\n    return [x * b for x in a if x]\nprint(os.path.join('a', f([1], 2)))\n", 50))
	b.Logf("%d bytes", len(source))
	for b.Loop() {
		Analyze(b.Context(), Code{Name: "a.py", Source: source}, Options{Python: p})
	}
}
