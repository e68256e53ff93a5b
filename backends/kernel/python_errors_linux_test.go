package kernel

import (
	"strings"
	"testing"
)

// TestPythonTracebacks compares complete tracebacks with Python's own: they have no frame of the driver.
func TestPythonTracebacks(t *testing.T) {
	cells := []struct{ name, code, want string }{
		{"in a function of an earlier cell", "f(0)", `Traceback (most recent call last):
  File "cell 2", line 1, in <module>
    f(0)
  File "cell 1", line 2, in f
    return 1 / n
           ~~^~~
ZeroDivisionError: division by zero
`},
		{"of the last expression", "a = 1\n\na + None", `Traceback (most recent call last):
  File "cell 3", line 3, in <module>
    a + None
    ~~^~~~~~
TypeError: unsupported operand type(s) for +: 'int' and 'NoneType'
`},
		{"syntax", "a = 1\nb = (2 +* 3)\n", `  File "cell 4", line 2
    b = (2 +* 3)
            ^
SyntaxError: invalid syntax
`},
		{"indentation", "if a:\npass", "*    pass\n    ^"},
		{"chained", "try:\n    f(0)\nexcept ZeroDivisionError as e:\n    raise ValueError('worse') from e", `Traceback (most recent call last):
  File "cell 6", line 2, in <module>
    f(0)
  File "cell 1", line 2, in f
    return 1 / n
           ~~^~~
ZeroDivisionError: division by zero

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "cell 6", line 4, in <module>
    raise ValueError('worse') from e
ValueError: worse
`},
		{"while handling", "try:\n    {}[1]\nexcept KeyError:\n    {}[2]", `Traceback (most recent call last):
  File "cell 7", line 2, in <module>
    {}[1]
    ~~^^^
KeyError: 1

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "cell 7", line 4, in <module>
    {}[2]
    ~~^^^
KeyError: 2
`},
		{"await", "import asyncio\nasync def g():\n    await asyncio.sleep(0)\n    f(0)\nawait g()", `Traceback (most recent call last):
  File "cell 8", line 5, in <module>
    await g()
  File "cell 8", line 4, in g
    f(0)
  File "cell 1", line 2, in f
    return 1 / n
           ~~^~~
ZeroDivisionError: division by zero
`},
		{"group", "raise ExceptionGroup('several', [ValueError(1), TypeError(2)])", `  + Exception Group Traceback (most recent call last):
  |   File "cell 9", line 1, in <module>
  |     raise ExceptionGroup('several', [ValueError(1), TypeError(2)])
  | ExceptionGroup: several (2 sub-exceptions)
  +-+---------------- 1 ----------------
    | ValueError: 1
    +---------------- 2 ----------------
    | TypeError: 2
    +------------------------------------
`},
		{"in what display calls", "class H:\n    def _repr_mimebundle_(self, **k): f(0)\n    def __repr__(self): raise " +
			"SystemError('no')\ndisplay(input())", `Traceback (most recent call last):
  File "cell 10", line 4, in <module>
    display(input())
            ^^^^^^^
EOFError: input() has nobody to ask: pass what it should read as a variable, as a file or with bridge_data
`},
		{"note", "e = ValueError('noted')\ne.add_note('a note')\nraise e", `Traceback (most recent call last):
  File "cell 11", line 3, in <module>
    raise e
ValueError: noted
a note
`},
		{"eval", "eval('1 +')", `Traceback (most recent call last):
  File "cell 12", line 1, in <module>
    eval('1 +')
  File "<string>", line 1
    1 +
SyntaxError: invalid syntax
`},
		{"in a library", "import json\njson.loads('{')", "*expecting property name enclosed in double quotes: line 1 column 2 (char 1)"},
		{"interrupt by itself", "raise KeyboardInterrupt('me')", `Traceback (most recent call last):
  File "cell 14", line 1, in <module>
    raise KeyboardInterrupt('me')
KeyboardInterrupt: me
`},
	}
	eachPlace(t, func(t *testing.T, start func(t testing.TB) session) {
		s := start(t)
		if version := s.run("import sys; sys.version_info[:2] == (3, 11)").text(); version != "True" {
			t.Skip("these are the tracebacks of Python 3.11")
		}
		s.Close()
		s = start(t)
		s.run("def f(n):\n    return 1 / n")
		for _, c := range cells {
			t.Run(c.name, func(t *testing.T) {
				s.t = t
				r := s.run(c.code)
				if r.Error == nil {
					t.Fatalf("no error: %+v", r)
				}
				got := r.Error.Traceback
				if part, ok := strings.CutPrefix(c.want, "*"); ok {
					if !strings.Contains(strings.ToLower(got), part) {
						t.Errorf("got\n%s\nwant\n%s in it", got, part)
					}
				} else if got != c.want {
					t.Errorf("got\n%s\nwant\n%s", got, c.want)
				}
			})
		}
	})
}

// TestPythonBoundedErrors raises errors whose text has megabytes.
func TestPythonBoundedErrors(t *testing.T) {
	eachPlace(t, func(t *testing.T, start func(t testing.TB) session) {
		s := start(t)
		for name, code := range map[string]string{
			"message":       "raise ValueError('x' * 8_000_000)",
			"recursion":     "def a(n): return b(n)\ndef b(n): return a(n)\na(1)",
			"chain":         "e = None\nfor i in range(20000):\n    n = ValueError(i); n.__context__ = e; e = n\nraise e",
			"circle":        "a, b = ValueError('a'), ValueError('b')\na.__cause__, b.__cause__ = b, a\nraise a",
			"group":         "raise ExceptionGroup('g', [ValueError('y' * 1000)] * 1000)",
			"line":          "x = '" + strings.Repeat("z", 1<<20) + "' + 1",
			"syntax":        strings.Repeat("(", 100_000),
			"nested syntax": strings.Repeat("-", 100_000) + "1",
			"notes":         "e = ValueError()\nfor i in range(100_000): e.add_note('note')\nraise e",
			"name":          "raise type('N' * 1_000_000, (Exception,), {})",
		} {
			t.Run(name, func(t *testing.T) {
				s.t = t
				r := s.run(code)
				if r.Error == nil || r.Lost {
					t.Fatalf("no error: %+v", r.Outcome)
				}
				if n := len(r.Error.Traceback); n > 34<<10 || n == 0 {
					t.Errorf("a traceback of %d bytes: %.200q", n, r.Error.Traceback)
				}
				if n := len(r.Error.Message) + len(r.Error.Type); n > 18<<10 {
					t.Errorf("a message of %d bytes", n)
				}
			})
		}
	})
}

// TestPythonShadowedModules runs cells in a workspace whose files have the names of modules that the driver
// imports.
func TestPythonShadowedModules(t *testing.T) {
	eachPlace(t, func(t *testing.T, start func(t testing.TB) session) {
		s := start(t)
		s.run("for n in ('traceback', 'linecache', 'asyncio', 'io', 'tokenize', 're', 'enum', 'selectors', 'token'):\n    open(n + '.py', " +
			"'w').write('raise SystemError(\"shadowed\")')")
		if r := s.run("1/0"); !strings.Contains(r.Error.Traceback, "1/0\n") {
			t.Errorf("got %s", r.Error.Traceback)
		}
		if r := s.run("async def f(): return 8\nawait f()"); r.text() != "8" {
			t.Errorf("got %s", r.text())
		}
		if r := s.run("import token"); r.Error != nil {
			t.Errorf("what the driver needs is the cell's, too, once it is there: %s", r.Error)
		}
	})
}
