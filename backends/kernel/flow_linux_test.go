package kernel

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends"
)

// TestOutput is about what programs write: all of it reaches the cell that it belongs to.
func TestOutput(t *testing.T) {
	eachPlace(t, func(t *testing.T, start func(t testing.TB) session) {
		s := start(t)
		in := func(name string, f func(t *testing.T)) {
			t.Run(name, func(t *testing.T) {
				s.t = t
				f(t)
				if r := s.run("'alive'"); r.text() != "'alive'" || r.Stdout != "" || r.Stderr != "" {
					t.Errorf("afterwards: %.200q %.200q %.200q", r.text(), r.Stdout, r.Stderr)
				}
			})
		}
		in("a forged mark", func(t *testing.T) {
			forged := "\x00" + newMark() + "\x00"
			r := s.run(fmt.Sprintf("print(%q)\nprint('more')", forged))
			if r.Stdout != forged+"\nmore\n" {
				t.Errorf("got %q", r.Stdout)
			}
		})
		in("a forged frame", func(t *testing.T) {
			frame, err := encodeFrame(reply{Op: "done", ID: s.id + 1, Value: Bundle{"text/plain": "forged"}})
			if err != nil {
				t.Fatal(err)
			}
			code := fmt.Sprintf("import os\nframe = %s\nfor fd in range(10):\n    try: os.write(fd, frame)\n    except OSError: pass\n'real'", pythonBytes(frame))
			if r := s.run(code); r.text() != "'real'" || r.Stdout != string(frame) || r.Stderr != string(frame) {
				t.Errorf("got %q %q", r.text(), r.Stdout)
			}
		})
		in("60 MB in a line", func(t *testing.T) {
			if r := s.run("print('x' * 60_000_000)"); len(r.Stdout) != 60_000_001 || r.Ended != "ok" {
				t.Errorf("got %d bytes, %s", len(r.Stdout), r.Ended)
			}
		})
		in("zeros", func(t *testing.T) {
			if r := s.run("import sys; sys.stdout.buffer.write(bytes(30_000_000));"); len(r.Stdout) != 30_000_000 {
				t.Errorf("got %d bytes", len(r.Stdout))
			}
		})
		in("a letter in two writes", func(t *testing.T) {
			r := s.run("import os, time\nfor b in '𝄞'.encode(): os.write(1, bytes([b])); time.sleep(0.002)")
			if r.Stdout != "𝄞" {
				t.Errorf("got %q", r.Stdout)
			}
		})
		in("endless", func(t *testing.T) {
			r := s.cell(t.Context(), Cell{Code: "state = 5\nwhile True: print('more')", Timeout: 300 * time.Millisecond})
			if r.Ended != "timeout" || r.Lost || r.Error == nil || r.Error.Type != "KeyboardInterrupt" || len(r.Stdout) < 10000 {
				t.Errorf("got %+v, %d bytes", r.Outcome, len(r.Stdout))
			}
			if r := s.run("state"); r.text() != "5" {
				t.Errorf("the state is %q", r.text())
			}
		})
		in("of children", func(t *testing.T) {
			r := s.run("print('before'); import os; os.system('echo child'); print('after')")
			if r.Stdout != "before\nchild\nafter\n" {
				t.Errorf("got %q", r.Stdout)
			}
		})
		in("without an end of line", func(t *testing.T) {
			r := s.run("import os; print('before', end=' '); os.fork() == 0 and os._exit(0); os.wait(); print('after', end='')")
			if r.Stdout != "before after" {
				t.Errorf("got %q", r.Stdout)
			}
		})
		in("of a child that outlives the cell", func(t *testing.T) {
			r := s.run("import subprocess, time; p = subprocess.Popen('echo soon; sleep 0.2; echo late', shell=True); time.sleep(0.1)")
			if r.Stdout != "soon\n" {
				t.Errorf("the first cell got %q", r.Stdout)
			}
			if r := s.run("p.wait();"); r.Stdout != "late\n" {
				t.Errorf("the second cell got %q", r.Stdout)
			}
		})
		in("of a thread after the cell", func(t *testing.T) {
			r := s.run("import threading\ndef later():\n    time.sleep(0.1); print('from a thread'); display('shown')\nth = threading.Thread(target=later); th.start()")
			if r.Stdout != "" {
				t.Errorf("the first cell got %q", r.Stdout)
			}
			time.Sleep(300 * time.Millisecond)
			if r := s.run("print('next')"); r.Stdout != "from a thread\n'shown'\nnext\n" {
				t.Errorf("the next cell got %q", r.Stdout)
			}
		})
		in("too much between cells", func(t *testing.T) {
			s.run("th = threading.Thread(target=lambda: (time.sleep(0.1), print('y' * 100_000 + 'end'))); th.start()")
			time.Sleep(400 * time.Millisecond)
			r := s.run("1")
			note, rest, _ := strings.Cut(r.Stdout, "\n")
			if note != "[34468 bytes that were written between cells are left out]" || len(rest) != betweenMax || !strings.HasSuffix(rest, "end\n") {
				t.Errorf("got %q and %d bytes", note, len(rest))
			}
		})
		in("an alarm between cells", func(t *testing.T) {
			s.run("import signal\ndef ring(*args): raise TimeoutError('late')\nsignal.signal(signal.SIGALRM, ring); signal.setitimer(signal.ITIMER_REAL, 0.1);")
			time.Sleep(300 * time.Millisecond)
			if r := s.run("1"); r.text() != "1" || !strings.Contains(r.Stderr, "TimeoutError: late") {
				t.Errorf("got %s %q", r.text(), r.Stderr)
			}
		})
		in("displays", func(t *testing.T) {
			r := s.run("class H:\n    def _repr_html_(self): return '<b>'\n    def __repr__(self): return 'H'\ndisplay(H(), 5); display({'text/x': 'raw'}, raw=True); H()")
			want := []Bundle{{"text/html": "<b>", "text/plain": "H"}, {"text/plain": "5"}, {"text/x": "raw"}}
			if fmt.Sprint(r.Shown) != fmt.Sprint(want) || r.Value["text/html"] != "<b>" {
				t.Errorf("got %v, value %v", r.Shown, r.Value)
			}
		})
		in("many displays while interrupted", func(t *testing.T) {
			r := s.cell(t.Context(), Cell{Code: "while True: display('x' * 1000)", Timeout: 200 * time.Millisecond})
			if r.Ended != "timeout" || r.Lost || len(r.Shown) < 100 {
				t.Errorf("got %+v, %d shown", r.Outcome, len(r.Shown))
			}
		})
		in("a large value", func(t *testing.T) {
			r := s.run("'v' * 3_000_000")
			if text := r.text(); len(text) > 257<<10 || !strings.HasSuffix(text, "[2737858 of 3000002 characters are left out]") {
				t.Errorf("got %d bytes, %q", len(text), text[max(0, len(text)-100):])
			}
			r = s.run("class L:\n    def _repr_png_(self): return bytes(20 << 20)\n    def __repr__(self): return 'L'\nL()")
			if r.Value["image/png"] != "" || r.text() != "L\n[image/png is left out: 27962028 bytes are too many]" {
				t.Errorf("got %q", r.text())
			}
			r = s.run("class M:\n    def _repr_mimebundle_(self, **k): return {'x/%d' % i: chr(0x1d11e) * (1 << 20) for i in range(20)}\nM()")
			if r.Lost || len(r.Value) != 4 || strings.Count(r.text(), "left out") != 17 {
				t.Errorf("got %s %q", types(r.Value), r.text())
			}
			if r = s.run("list(range(5_000_000))"); !strings.HasPrefix(r.text(), "[0, 1, 2,") || len(r.text()) > 257<<10 {
				t.Errorf("got %d bytes", len(r.text()))
			}
		})
	})
}

func pythonBytes(b []byte) string {
	var s strings.Builder
	for _, c := range b {
		fmt.Fprintf(&s, `\x%02x`, c)
	}
	return "b'" + s.String() + "'"
}

// TestInterrupt is about code that takes too long: it is interrupted, and what it made is kept.
func TestInterrupt(t *testing.T) {
	cells := []struct {
		name, code string
		trace      string // a part of the traceback
	}{
		{"loop", "while True: pass", "line 1, in <module>"},
		{"sleep", "import time; time.sleep(100)", "time.sleep(100)"},
		{"swallowed once", "import time\ntry: time.sleep(100)\nexcept: pass\ntime.sleep(50)", "time.sleep(50)"},
		{"except Exception", "while True:\n    try: time.sleep(100)\n    except Exception: pass", "time.sleep(100)"},
		{"await", "import asyncio\nasync def f(): await asyncio.sleep(100)\nawait f()", "await f()"},
		{"busy in await", "async def f():\n    while True: pass\nawait f()", "await f()"},
		{"await that swallows", "async def f():\n    try: await asyncio.sleep(100)\n    except asyncio.CancelledError: pass\n    await asyncio.sleep(50)\nawait f()", "await f()"},
		{"repr", "class R:\n    def __repr__(self):\n        while True: pass\nR()", "while True: pass"},
		{"traceback", "class E(Exception):\n    def __str__(self):\n        while True: pass\nraise E", ""},
		{"child", "import subprocess; subprocess.run(['sleep', '100'])", "subprocess.run"},
		{"thread joined", "import threading\nth = threading.Thread(target=time.sleep, args=(3,)); th.start(); th.join()", "th.join()"},
		{"lock", "threading.Lock().acquire() or 1; l = threading.Lock(); l.acquire(); l.acquire()", "l.acquire()"},
		{"blocked in the cell before", "import time; time.sleep(100)", "time.sleep(100)"},
		{"own handler of the cell before", "time.sleep(100)", "time.sleep(100)"},
	}
	eachPlace(t, func(t *testing.T, start func(t testing.TB) session) {
		s := start(t)
		s.run("kept = 17; import signal; signal.signal(signal.SIGINT, signal.SIG_IGN); signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT]);")
		for _, c := range cells {
			t.Run(c.name, func(t *testing.T) {
				s.t = t
				began := time.Now()
				r := s.cell(t.Context(), Cell{Code: c.code, Timeout: 150 * time.Millisecond, Grace: 1500 * time.Millisecond})
				if r.Ended != "timeout" || r.Lost || r.Error == nil {
					t.Fatalf("got %+v after %v", r.Outcome, time.Since(began))
				}
				if c.trace != "" && (r.Error.Type != "KeyboardInterrupt" || !strings.Contains(r.Error.Traceback, c.trace) || strings.Contains(r.Error.Traceback, "<driver>")) {
					t.Errorf("got %s\n%s", r.Error, r.Error.Traceback)
				}
				if r := s.run("kept"); r.text() != "17" {
					t.Errorf("the state is %s", r.text())
				}
			})
		}
	})
}

// TestKilled is about code that does not let itself be interrupted.
func TestKilled(t *testing.T) {
	cells := []struct{ name, code string }{
		{"catches it", "while True:\n    try:\n        x = 0\n        while True: x = 1\n    except BaseException: pass"},
		{"ignores it", "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: pass"},
		{"a regular expression", "import re; re.match('(a*)*b', 'a' * 40)"},
		{"stops itself", "import os, signal; os.kill(os.getpid(), signal.SIGSTOP)"},
	}
	eachPlace(t, func(t *testing.T, start func(t testing.TB) session) {
		for _, c := range cells {
			t.Run(c.name, func(t *testing.T) {
				s := start(t)
				began := time.Now()
				r := s.cell(t.Context(), Cell{Code: "print('begun')\n" + c.code, Timeout: 200 * time.Millisecond, Grace: 300 * time.Millisecond})
				if c.name == "a regular expression" && !r.Lost {
					t.Skip("this Python looks for signals there")
				}
				if r.Ended != "timeout" || !r.Lost || r.Stdout != "begun\n" {
					t.Errorf("got %+v %q", r.Outcome, r.Stdout)
				}
				if took := time.Since(began); took > 3*time.Second {
					t.Errorf("it took %v", took)
				}
				dead(t, s)
			})
		}
	})
}

// dead checks that nothing more can be done with a kernel, and that it says so.
func dead(t *testing.T, s session) {
	t.Helper()
	select {
	case <-s.Done():
	case <-time.After(5 * time.Second):
		t.Fatal("it is not done")
	}
	if _, err := s.Run(t.Context(), Cell{Code: "1", Timeout: time.Second}); !errors.Is(err, errDead) {
		t.Errorf("Run: %v", err)
	}
	if _, err := s.Get(t.Context(), "x"); !errors.Is(err, errDead) {
		t.Errorf("Get: %v", err)
	}
}

// TestDeath is about code that takes its interpreter along.
func TestDeath(t *testing.T) {
	cells := []struct {
		name, code string
		ended      string
		exit       int
	}{
		{"os._exit", "import os; print('last', flush=True); os._exit(3)", backends.EndedExit, 3},
		{"segmentation fault", "print('last'); import ctypes; ctypes.string_at(0)", backends.EndedSignal, 139},
		{"killed", "import os; print('last'); os.kill(os.getpid(), 9)", backends.EndedSignal, 137},
		{"exec", "import os; print('last'); os.execvp('true', ['true'])", backends.EndedOK, 0},
		{"from a thread", "import os, threading; print('last'); threading.Thread(target=os._exit, args=(4,)).start()\nwhile True: pass", backends.EndedExit, 4},
	}
	eachPlace(t, func(t *testing.T, start func(t testing.TB) session) {
		for _, c := range cells {
			t.Run(c.name, func(t *testing.T) {
				s := start(t)
				r := s.run(c.code)
				if r.Ended != "dead" || !r.Lost || r.Stdout != "last\n" {
					t.Errorf("got %+v %q", r.Outcome, r.Stdout)
				}
				dead(t, s)
				if death, err := s.Death(); err != nil || death.Ended != c.ended || death.ExitCode != c.exit {
					t.Errorf("died of %s %d, %v; want %s %d", death.Ended, death.ExitCode, err, c.ended, c.exit)
				}
			})
		}
		t.Run("the channel closed", func(t *testing.T) {
			s := start(t)
			r := s.cell(t.Context(), Cell{Code: "import os; os.closerange(3, 4096)", Timeout: 20 * time.Second})
			if !r.Lost {
				t.Errorf("got %+v", r.Outcome)
			}
			dead(t, s)
		})
	})
}

// TestOutOfMemory is the sandbox's limit, which no driver can survive.
func TestOutOfMemory(t *testing.T) {
	python(t)
	s := begin(t, sandboxed(t, backends.Limits{RAM: 96 << 20}), "python")
	r := s.run("a = []\nwhile True: a.append(bytearray(b'x' * (8 << 20)))")
	if !r.Lost || r.Ended != "dead" {
		t.Errorf("got %+v", r.Outcome)
	}
	if death, err := s.Death(); err != nil || death.Ended != backends.EndedOOM {
		t.Errorf("got %+v %v", death, err)
	}
}

// TestCalls is about who calls and when.
func TestCalls(t *testing.T) {
	eachPlace(t, func(t *testing.T, start func(t testing.TB) session) {
		s := start(t)
		t.Run("cells queue up", func(t *testing.T) {
			s.t = t
			s.run("n = 0")
			var all sync.WaitGroup
			for range 20 {
				all.Go(func() {
					out, err := s.Run(context.Background(), Cell{Code: "m = n; import time; time.sleep(0.002); n = m + 1", Timeout: 10 * time.Second})
					if err != nil || out.Ended != "ok" {
						t.Errorf("got %+v %v", out, err)
					}
				})
			}
			all.Wait()
			if r := s.run("n"); r.text() != "20" {
				t.Errorf("got %s, want 20", r.text())
			}
		})
		t.Run("cancelled", func(t *testing.T) {
			s.t = t
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(150*time.Millisecond, cancel)
			if r := s.cell(ctx, Cell{Code: "import time; time.sleep(100)"}); r.Ended != "cancelled" || r.Lost {
				t.Errorf("got %+v", r.Outcome)
			}
			if r := s.run("n"); r.text() != "20" {
				t.Errorf("got %s, want 20", r.text())
			}
		})
		t.Run("cancelled before", func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if out, err := s.Run(ctx, Cell{Code: "n = 0", Timeout: time.Second}); !errors.Is(err, context.Canceled) {
				t.Errorf("got %+v %v", out, err)
			}
		})
		t.Run("cancelled while it waits", func(t *testing.T) {
			s.t = t
			begun, done := make(chan struct{}), make(chan struct{})
			go func() {
				defer close(done)
				s.Run(context.Background(), Cell{Code: "print('begun'); time.sleep(0.4)", Timeout: 10 * time.Second, Stdout: closer{begun}})
			}()
			<-begun
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			if _, err := s.Run(ctx, Cell{Code: "n = 0", Timeout: time.Second}); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %v", err)
			}
			<-done
			if r := s.run("n"); r.text() != "20" {
				t.Errorf("a cell ran that had been cancelled: %s", r.text())
			}
		})
		t.Run("bad cells", func(t *testing.T) {
			for name, c := range map[string]Cell{
				"no timeout":  {Code: "1"},
				"environment": {Code: "1", Timeout: 1, Env: []string{"K"}},
				"NUL":         {Code: "1", Timeout: 1, Env: []string{"K=a\x00"}},
				"too large":   {Code: strings.Repeat("#", maxFrame), Timeout: 1},
			} {
				if _, err := s.Run(t.Context(), c); err == nil {
					t.Errorf("%s: no error", name)
				}
			}
		})
		t.Run("environment", func(t *testing.T) {
			s.t = t
			s.cell(t.Context(), Cell{Code: "", Env: []string{"SPECIAL=a=b"}})
			if r := s.run("import os; os.system('echo $SPECIAL'); os.environ['SPECIAL']"); r.text() != "'a=b'" || r.Stdout != "a=b\n" {
				t.Errorf("got %s %q", r.text(), r.Stdout)
			}
		})
		t.Run("large code", func(t *testing.T) {
			s.t = t
			if r := s.run("len('" + strings.Repeat("x", 30<<20) + "')"); r.text() != fmt.Sprint(30<<20) {
				t.Errorf("got %.100s", r.text())
			}
		})
		t.Run("closed while it runs", func(t *testing.T) {
			begun, got := make(chan struct{}), make(chan Outcome)
			go func() {
				out, _ := s.Run(context.Background(), Cell{Code: "print('begun'); time.sleep(100)", Timeout: time.Minute, Stdout: closer{begun}})
				got <- out
			}()
			<-begun
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			if out := <-got; !out.Lost || out.Ended != "dead" {
				t.Errorf("got %+v", out)
			}
			s.Close()
			dead(t, s)
		})
	})
}

// closer closes a channel when something is written.
type closer struct{ c chan struct{} }

func (w closer) Write(p []byte) (int, error) {
	close(w.c)
	return len(p), nil
}

// TestStartFails is about interpreters that don't start.
func TestStartFails(t *testing.T) {
	for _, c := range []struct{ name, language, program, want string }{
		{"no such language", "cobol", "", `no kernel for language "cobol"`},
		{"no such program", "python", "/nowhere/python", "no such file"},
		{"another program", "python", "/bin/false", "ended (exit, exit code 1)"},
		{"silent program", "python", "/bin/cat", "context deadline exceeded"},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			program := c.program
			if c.name == "silent program" {
				program, _ = filepath.Abs("testdata/silent")
			}
			_, err := Start(ctx, newBare(t, map[string]string{"python": program}), c.language, nil)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q in it", err, c.want)
			}
		})
	}
}

// rogue is a sandbox whose interpreter says what a test wants.
type rogue struct {
	bare
	say func(c io.Writer)
}

func (r *rogue) Exec(ctx context.Context, _ backends.Command, streams backends.Streams) (backends.Result, error) {
	ours, theirs := io.Pipe()
	streams.Channel(struct {
		io.Reader
		io.Writer
		io.Closer
	}{ours, io.Discard, ours})
	streams.Begun(backends.Containment{})
	go r.say(theirs)
	<-ctx.Done()
	return backends.Result{Ended: backends.EndedCancelled}, nil
}

// TestRogue is about drivers that are no longer ours: they are killed, and that is all.
func TestRogue(t *testing.T) {
	frame := func(text string) []byte {
		return append([]byte{0, 0, 0, byte(len(text))}, text...)
	}
	for name, said := range map[string][]byte{
		"a frame too large": {0xff, 0xff, 0xff, 0xff},
		"half a frame":      {0, 0, 1, 0, '{'},
		"no JSON":           frame("hello"),
		"wrong types":       frame(`{"op":"done","id":"x"}`),
	} {
		t.Run(name, func(t *testing.T) {
			k, err := Start(t.Context(), &rogue{say: func(c io.Writer) {
				c.Write(frame(`{"op":"ready"}`))
				c.Write(said)
				c.(io.Closer).Close()
			}}, "python", nil)
			if err != nil {
				t.Fatal(err)
			}
			<-k.Done()
			if _, err := k.Death(); err == nil || !strings.HasPrefix(err.Error(), "protocol: ") {
				t.Errorf("got %v", err)
			}
		})
	}
	t.Run("answers that nobody asked for", func(t *testing.T) {
		k, err := Start(t.Context(), &rogue{say: func(c io.Writer) {
			c.Write(frame(`{"op":"ready"}`))
			for id := range 3 {
				c.Write(frame(fmt.Sprintf(`{"op":"done","id":%d,"value":{"text/plain":"%d"}}`, id, id)))
			}
		}}, "python", nil)
		if err != nil {
			t.Fatal(err)
		}
		defer k.Close()
		out, err := k.Run(t.Context(), Cell{Code: "1", Timeout: 5 * time.Second})
		if err != nil || out.Value["text/plain"] != "1" {
			t.Errorf("got %+v %v", out, err)
		}
	})
}

// TestIdleInterrupt sends signals when no cell runs.
func TestIdleInterrupt(t *testing.T) {
	eachPlace(t, func(t *testing.T, start func(t testing.TB) session) {
		s := start(t)
		s.run("kept = 3")
		for range 5 {
			s.interrupt <- struct{}{}
			time.Sleep(5 * time.Millisecond)
		}
		if r := s.run("kept"); r.text() != "3" || r.Stderr != "" {
			t.Errorf("got %s %q", r.text(), r.Stderr)
		}
	})
}

func TestValues(t *testing.T) {
	eachPlace(t, func(t *testing.T, start func(t testing.TB) session) {
		s := start(t)
		for _, v := range []string{`null`, `true`, `0`, `-1.5e300`, `"text \u0000 ä 𝄞"`, `[]`, `{}`, `{"a":[1,{"b":null}],"":false}`, `123456789012345678901234567890`} {
			if err := s.Set(t.Context(), "v", json.RawMessage(v)); err != nil {
				t.Fatalf("set %s: %v", v, err)
			}
			got, err := s.Get(t.Context(), "v")
			if err != nil || !same(got, v) {
				t.Errorf("set %s, got %s %v", v, got, err)
			}
		}
		s.Set(t.Context(), "d", json.RawMessage(`{"k":[1,2]}`))
		if r := s.run("d['k'][1], type(d).__name__"); r.text() != "(2, 'dict')" {
			t.Errorf("got %s", r.text())
		}
		for _, key := range []string{"", "a b", "1a", "a.b", "class", "None", "a\n", "a=1;b", "ä\x00"} {
			if err := s.Set(t.Context(), key, json.RawMessage(`1`)); err == nil {
				t.Errorf("%q was set", key)
			}
		}
		if err := s.Set(t.Context(), "v", json.RawMessage(`{`)); err == nil {
			t.Error("a value that is no JSON was set")
		}
		s.run(`import datetime, decimal, enum, pathlib, dataclasses, collections, uuid
class Color(enum.Enum): RED = 'red'
class Number(enum.IntEnum): ONE = 1
@dataclasses.dataclass
class Point: x: int; y: object
class Text(str):
    def __str__(self): return 'no'
big = 'x' * (61 << 20)
cycle = []; cycle.append(cycle)
deep = []
for i in range(5000): deep = [deep]`)
		for _, c := range []struct{ code, want string }{
			{"(1, 2)", `[1,2]`},
			{"{3}", `[3]`},
			{"range(2)", `[0,1]`},
			{"float('nan')", `null`},
			{"[float('inf'), 1.5]", `[null,1.5]`},
			{"{1: 2, None: 3, True: 4, (1, 2): 5, 2.5: 6}", `{"1":4,"null":3,"(1, 2)":5,"2.5":6}`},
			{"datetime.date(2024, 2, 29)", `"2024-02-29"`},
			{"datetime.datetime(2024, 2, 29, 1, 2, 3)", `"2024-02-29T01:02:03"`},
			{"decimal.Decimal('1.10')", `"1.10"`},
			{"Color.RED", `"red"`},
			{"[Number.ONE]", `[1]`},
			{"Point(1, [Point(2, None)])", `{"x":1,"y":[{"x":2,"y":null}]}`},
			{"pathlib.Path('/a')", `"/a"`},
			{"collections.OrderedDict(a=1)", `{"a":1}`},
			{"uuid.UUID(int=0)", `"00000000-0000-0000-0000-000000000000"`},
			{"Text('yes')", `"yes"`},
			{"b'bytes'", "error: get v: TypeError: bytes have no JSON form: encode them first, as with base64"},
			{"object()", "error: get v: TypeError: object has no JSON form"},
			{"1j", "error: get v: TypeError: complex has no JSON form"},
			{"cycle", "error: get v: ValueError: the value is nested more than 200 deep, or contains itself"},
			{"deep", "error: get v: ValueError: the value is nested more than 200 deep, or contains itself"},
			{"big", "error: get v: ValueError: the value takes 63963138 bytes as JSON"},
		} {
			s.run("v = " + c.code)
			got, err := s.Get(t.Context(), "v")
			if err != nil {
				if !strings.HasPrefix("error: "+err.Error(), c.want) {
					t.Errorf("%s: %v, want %s", c.code, err, c.want)
				}
			} else if !same(got, c.want) {
				t.Errorf("%s: got %.200s, want %s", c.code, got, c.want)
			}
		}
		if _, err := s.Get(t.Context(), "missing"); err == nil || !strings.Contains(err.Error(), "NameError: name 'missing' is not defined") {
			t.Errorf("got %v", err)
		}
	})
}

func same(a json.RawMessage, b string) bool {
	var x, y bytes.Buffer
	return json.Compact(&x, a) == nil && json.Compact(&y, []byte(b)) == nil && decoded(x.Bytes()) == decoded(y.Bytes())
}

func decoded(b []byte) string {
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	var v any
	d.Decode(&v)
	text, _ := json.Marshal(v)
	return strings.Replace(string(text), "1.5e+300", "1.5e300", 1)
}

func TestVariables(t *testing.T) {
	eachPlace(t, func(t *testing.T, start func(t testing.TB) session) {
		s := start(t)
		if vars, err := s.Variables(t.Context()); err != nil || len(vars) > 0 {
			t.Errorf("a new session has %v %v", vars, err)
		}
		s.run(`import os
text = 'a' * 10_000_000
data = b'12'
numbers = list(range(1_000_000))
table = {i: [i] * 100 for i in range(1000)}
one = (1,)
huge = 10 ** 100_000
_hidden = 1
class Bad:
    def __repr__(self): raise ValueError
    def __len__(self): raise ValueError
bad = Bad()
def f(): pass`)
		vars, err := s.Variables(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var got strings.Builder
		for _, v := range vars {
			if len(v.Text) > 200 {
				t.Errorf("%s: a text of %d bytes", v.Name, len(v.Text))
			}
			fmt.Fprintf(&got, "%s %s %.12s %d %s\n", v.Name, v.Type, v.Text, v.Size, v.Unit)
		}
		want := `Bad type <class '__ma 0 
bad Bad <Bad, whose  0 
data bytes b'12' 2 bytes
f function <function f  0 
huge int an int of 33 0 
numbers list [0, 1, 2, 3, 1000000 elements
one tuple (1,) 1 elements
os module <module 'os' 0 
table dict {0: [0, 0, 0 1000 elements
text str 'aaaaaaaaaaa 10000000 characters
`
		if got.String() != want {
			t.Errorf("got\n%swant\n%s", got.String(), want)
		}
	})
}
