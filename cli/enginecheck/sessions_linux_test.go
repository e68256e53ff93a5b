package enginecheck_test

import (
	"os"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/run"
	"github.com/sandboxmcp/sandboxmcp/pipeline/session"
)

// cell is a piece of code of a session.
type cell struct {
	code  string
	ended string // "" means "ok"
	wall  time.Duration
}

// dialogues are sessions, cell by cell.
var dialogues = []struct {
	name, language string
	limits         backends.Limits
	cells          []cell
}{
	{name: "values", language: "python", cells: []cell{
		{code: "x = 41"}, {code: "print('out'); x + 1"}, {code: "[1, 'ä', None, {'a': b'\\xff'}]"}, {code: "import math; math"}, {code: "None"},
		{code: "class T:\n  def __repr__(self): return 'T'\n  def _repr_html_(self): return '<b>table</b>'\nT()"},
		{code: "class P(T):\n  def _repr_png_(self): return b'\\x89PNG\\r\\n\\x1a\\n' + bytes(range(256))\nP()"},
		{code: "import asyncio\nawait asyncio.sleep(0.01)\n'awaited'"}, {code: "def f(n): return 'x' * n\nf(100000)"},
	}},
	{name: "errors", language: "python", cells: []cell{
		{code: "1/0", ended: "exit"}, {code: "def f(: pass", ended: "exit"},
		{code: "def g():\n  raise KeyError('ä')\ntry:\n  g()\nexcept KeyError as e:\n  raise ValueError('again') from e", ended: "exit"},
		{code: "import sys; sys.exit(7)", ended: "exit"}, {code: "import nosuchmodule_x", ended: "exit"}, {code: "'still here'"},
	}},
	{name: "interrupts", language: "python", cells: []cell{
		{code: "y = 1"}, {code: "while True: pass", ended: "timeout", wall: time.Second}, {code: "import time; time.sleep(100)", ended: "timeout",
			wall: time.Second},
		{code: "y"}, {code: "import subprocess; subprocess.run(['sleep', '100'])", ended: "timeout", wall: time.Second}, {code: "y + 1"},
	}},
	{name: "what stays", language: "python", cells: []cell{
		{code: "open('kept.txt', 'w').write('kept')"}, {code: "import os; os.listdir('.')"}, {code: "open('kept.txt').read()"},
		{code: "import threading\ngo = threading.Event()\nt = threading.Thread(target=lambda: (go.wait(), open('late', " +
			"'w').write('x')))\nt.start()"},
		{code: "go.set(); t.join(); os.path.exists('late')"}, {code: "import subprocess\np = subprocess.Popen(['sleep', '100'])"},
		{code: "p.poll() is None"},
		{code: "os.environ['SET'] = 'yes'; os.chdir('/tmp')"}, {code: "os.environ['SET'], os.getcwd()"},
	}},
	{name: "deaths", language: "python", cells: []cell{
		{code: "z = 1; open('kept', 'w').write('x')"}, {code: "import os; os._exit(3)", ended: "exit"},
		{code: "import os; 'z' in globals(), os.path.exists('kept')"},
		{code: "import os; os.kill(os.getpid(), 11)", ended: "signal"}, {code: "1"},
	}},
	{name: "out of memory", language: "python", limits: backends.Limits{RAM: 128 << 20}, cells: []cell{
		{code: "z = 1"}, {code: "a = [bytearray(b'x' * (8 << 20)) for _ in range(100)]", ended: "oom"}, {code: "'z' in globals()"},
	}},
	{name: "output", language: "python", cells: []cell{
		{code: "import sys; sys.stdout.buffer.write(bytes(range(256))); sys.stdout.flush()"},
		{code: "import os; os.system('echo child; echo error >&2')"}, {code: "print('x' * 3_000_000)"}, {code: "1"},
	}},
	{name: "node", language: "node", cells: []cell{
		{code: "const x = 41"}, {code: "console.log('out'); x + 1"}, {code: "await Promise.resolve({ a: [1, 'ä'] })"},
		{code: "throw new Error('bad')", ended: "exit"}, {code: "null.x", ended: "exit"},
		{code: "while (true) {}", ended: "timeout", wall: time.Second}, {code: "typeof x"},
	}},
	{name: "shell", language: "shell", cells: []cell{
		{code: "x=41; cd /tmp"}, {code: "echo $((x + 1)) $PWD"}, {code: "false", ended: "exit"}, {code: "f() { return 3; }; f", ended: "exit"},
		{code: "sleep 100", ended: "timeout", wall: time.Second}, {code: "echo $x"},
		{code: "exit 4", ended: "exit"}, {code: "echo \"[$x]\""},
	}},
	{name: "perl", language: "perl", cells: []cell{
		{code: "my $x = 41;"}, {code: "print 'ä'; print STDERR 'err'; $x + 1"}, {code: "[1, {a => 'ä'}]"}, {code: "display('shown');"},
		{code: "sub f { die 'oops' }\nf()", ended: "exit"}, {code: "exit 4", ended: "exit"},
		{code: "1 while 1", ended: "timeout", wall: time.Second}, {code: "$x"}, {code: "open my $f, '>', 'kept'; print $f 'kept';"},
		{code: "kill 9, $$; sleep 9", ended: "signal"}, {code: "defined $x ? 'state' : -s 'kept'"},
		{code: "use POSIX; POSIX::close(3);", ended: "exit"}, {code: "`cat kept`"},
	}},
}

// TestSameSessions runs the same dialogues with all backends.
func TestSameSessions(t *testing.T) {
	benches := newBenches(t)
	for _, d := range dialogues {
		t.Run(d.name, func(t *testing.T) {
			if _, err := os.Stat("/usr/bin/perl"); d.language == "perl" && err != nil {
				hosttest.SkipMissing(t, "perl", err.Error())
			}
			infos := runTogether(benches, func(b *bench) session.Info {
				info, _, err := pipeline.Do(t.Context(), b.Pipeline, session.New{
					Language: d.language, Limits: pipeline.Bounds{Limits: d.limits},
				})
				if err != nil {
					t.Errorf("%s: %v", b.kind, err)
				}
				return info
			})
			if t.Failed() {
				return
			}
			for i, c := range d.cells {
				all := runTogether(benches, func(b *bench) *outcome {
					var o outcome
					q := run.Request{Where: run.Where{Session: infos[slices.Index(benches, b)].ID}, Code: []byte(c.code),
						Bounds: pipeline.Bounds{Limits: backends.Limits{Wall: c.wall}}}
					_, o.res, o.err = pipeline.Do(t.Context(), b.Pipeline, q)
					return &o
				})
				if want := orOK(c.ended, backends.EndedOK); all[0].res.Ended != want {
					t.Errorf("cell %d ended %s, want %s: %.1000s %v", i+1, all[0].res.Ended, want, all[0].res.Stderr, all[0].err)
				}
				for k, o := range all[1:] {
					if o.err != nil {
						t.Errorf("cell %d with %s: %v", i+1, benches[k+1].kind, o.err)
					}
					compareOutcomes(t, all[0].res, o.res)
				}
				if t.Failed() {
					t.Fatalf("in cell %d: %s", i+1, c.code)
				}
			}
			closed := runTogether(benches, func(b *bench) session.Info {
				info, _, err := pipeline.Do(t.Context(), b.Pipeline, session.End{Session: infos[slices.Index(benches, b)].ID})
				if err != nil {
					t.Errorf("%s: %v", b.kind, err)
				}
				return info
			})
			for _, info := range closed[1:] {
				if diff := cmp.Diff(closed[0], info, sessionLeftOut); diff != "" {
					t.Errorf("session of %s (-%[2]s +%[1]s):\n%[3]s", info.Backend, closed[0].Backend, diff)
				}
			}
		})
	}
}

// sessionLeftOut are the fields that are unique to a session, and the layers, which TestSameResults compares.
var sessionLeftOut = cmp.Options{
	cmpopts.IgnoreFields(session.Info{}, "ID", "Backend", "Layers"),
	cmpopts.IgnoreTypes(time.Time{}),
}

func orOK(a, b string) string {
	if a != "" {
		return a
	}
	return b
}
