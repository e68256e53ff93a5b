package kernel

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
)

// TestOutput checks that all output of programs reaches the cell that it belongs to.
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
			code := fmt.Sprintf("import os\nframe = %s\nfor fd in range(10):\n    try: os.write(fd, frame)\n    except OSError: pass\n'real'",
				pythonBytes(frame))
			if r := s.run(code); r.text() != "'real'" || r.Stdout != string(frame) || r.Stderr != string(frame) {
				t.Errorf("got %q %q", r.text(), r.Stdout)
			}
		})
		in("much in a line", func(t *testing.T) {
			n := hosttest.Rounds(8_000_000, 60_000_000)
			if r := s.run(fmt.Sprintf("print('x' * %d)", n)); len(r.Stdout) != n+1 || r.Ended != "ok" {
				t.Errorf("got %d bytes, %s", len(r.Stdout), r.Ended)
			}
		})
		in("zeros", func(t *testing.T) {
			if r := s.run("import sys; sys.stdout.buffer.write(bytes(4_000_000));"); len(r.Stdout) != 4_000_000 {
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
			r := s.runCancelled(Cell{Code: "state = 5\nfor i in range(10_000): print('more')\nprint('begun')\nwhile True: print('more')",
				Grace: time.Hour}, "begun")
			if r.Ended != "cancelled" || r.Lost || r.Error == nil || r.Error.Type != "KeyboardInterrupt" || len(r.Stdout) < 10000 {
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
			r := s.run("import os, subprocess, time; p = subprocess.Popen('echo soon; : >said; until [ -e over ]; do sleep 0.01; done; echo " +
				"late', shell=True)\nwhile not os.path.exists('said'): pass")
			if r.Stdout != "soon\n" {
				t.Errorf("the first cell got %q", r.Stdout)
			}
			if r := s.run("open('over', 'w'); p.wait();"); r.Stdout != "late\n" {
				t.Errorf("the second cell got %q", r.Stdout)
			}
		})
		in("of a thread after the cell", func(t *testing.T) {
			r := s.run("import threading\ndef later():\n    while 'over' not in globals(): time.sleep(0.001)\n    print('from a thread'); " +
				"display('shown')\nth = threading.Thread(target=later); th.start()")
			if r.Stdout != "" {
				t.Errorf("the first cell got %q", r.Stdout)
			}
			s.awaitLeftover()
			s.waitBetween(s.out, "'shown'\n")
			if r := s.run("print('next')"); r.Stdout != "from a thread\n'shown'\nnext\n" {
				t.Errorf("the next cell got %q", r.Stdout)
			}
		})
		in("too much between cells", func(t *testing.T) {
			s.run("del over\ndef later():\n    while 'over' not in globals(): time.sleep(0.001)\n    print('y' * 100_000 + 'end')\nth = " +
				"threading.Thread(target=later); th.start()")
			s.awaitLeftover()
			s.waitBetween(s.out, "end\n")
			r := s.run("1")
			note, rest, _ := strings.Cut(r.Stdout, "\n")
			if note != "[34468 bytes written between cells are left out]" || len(rest) != betweenMax || !strings.HasSuffix(rest, "end\n") {
				t.Errorf("got %q and %d bytes", note, len(rest))
			}
		})
		in("an alarm between cells", func(t *testing.T) {
			s.run("import signal\ndef ring(*args): raise TimeoutError('late')\nsignal.signal(signal.SIGALRM, ring)\ndel over\ndef later():\n    " +
				"while 'over' not in globals(): time.sleep(0.001)\n    os.kill(os.getpid(), signal.SIGALRM)\nth = threading.Thread(target=later); th.start()")
			s.awaitLeftover()
			s.waitBetween(s.err, "TimeoutError: late")
			if r := s.run("1"); r.text() != "1" || !strings.Contains(r.Stderr, "TimeoutError: late") {
				t.Errorf("got %s %q", r.text(), r.Stderr)
			}
		})
		in("displays", func(t *testing.T) {
			r := s.run("class H:\n    def _repr_html_(self): return '<b>'\n    def __repr__(self): return 'H'\ndisplay(H(), 5); " +
				"display({'text/x': 'raw'}, raw=True); H()")
			want := []Bundle{{"text/html": "<b>", "text/plain": "H"}, {"text/plain": "5"}, {"text/x": "raw"}}
			if fmt.Sprint(r.Displays) != fmt.Sprint(want) || r.Value["text/html"] != "<b>" {
				t.Errorf("got %v, value %v", r.Displays, r.Value)
			}
		})
		in("many displays while interrupted", func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			n := 0
			r := s.cell(ctx, Cell{Code: "while True: display('x' * 1000)", Grace: time.Hour, Display: func(Bundle) {
				if n++; n == 100 {
					cancel()
				}
			}})
			if r.Ended != "cancelled" || r.Lost || len(r.Displays) < 100 {
				t.Errorf("got %+v, %d shown", r.Outcome, len(r.Displays))
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
			r = s.run("class M:\n    def _repr_mimebundle_(self, **k): return {'x/%d' % i: chr(0x1d11e) * (1 << 20) for i in range(6)}\nM()")
			if r.Lost || len(r.Value) != 4 || strings.Count(r.text(), "left out") != 3 {
				t.Errorf("got %s %q", mimeTypes(r.Value), r.text())
			}
			if r = s.run("list(range(500_000))"); !strings.HasPrefix(r.text(), "[0, 1, 2,") || len(r.text()) > 257<<10 {
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

// TestCalls checks concurrent, cancelled and repeated calls.
func TestCalls(t *testing.T) {
	eachPlace(t, func(t *testing.T, start func(t testing.TB) session) {
		s := start(t)
		t.Run("cells queue up", func(t *testing.T) {
			s.t = t
			s.run("n = 0")
			var all sync.WaitGroup
			for range 20 {
				all.Go(func() {
					out, err := s.Run(context.Background(), Cell{Code: "m = n; import time; time.sleep(0.002); n = m + 1", Timeout: time.Hour})
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
			if r := s.runInterrupted("print('begun'); time.sleep(100)"); r.Ended != "cancelled" || r.Lost {
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
			first, end := context.WithCancel(t.Context())
			defer end()
			go func() {
				defer close(done)
				s.Run(first, Cell{Code: "print('begun'); time.sleep(1000)", Timeout: time.Hour, Grace: time.Hour, Stdout: closer{begun}})
			}()
			<-begun
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
			defer cancel()
			if _, err := s.Run(ctx, Cell{Code: "n = 0", Timeout: time.Second}); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %v", err)
			}
			end()
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
			if r := s.run("len('" + strings.Repeat("x", 4<<20) + "')"); r.text() != fmt.Sprint(4<<20) {
				t.Errorf("got %.100s", r.text())
			}
		})
		t.Run("closed while it runs", func(t *testing.T) {
			begun, got := make(chan struct{}), make(chan Outcome)
			go func() {
				out, _ := s.Run(context.Background(), Cell{Code: "print('begun'); time.sleep(100)", Timeout: time.Hour, Stdout: closer{begun}})
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
			checkDead(t, s)
		})
	})
}

// closer closes a channel at the first write.
type closer struct{ c chan struct{} }

func (w closer) Write(p []byte) (int, error) {
	close(w.c)
	return len(p), nil
}
