package kernel

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
)

// TestInterrupt checks that slow code is interrupted, and that its output and values are kept.
func TestInterrupt(t *testing.T) {
	cells := []struct {
		name, code string
		trace      string // substring of the traceback
	}{
		{"loop", "print('begun')\nwhile True: pass", "in <module>"},
		{"sleep", "print('begun'); time.sleep(100)", "time.sleep(100)"},
		{"swallowed once", "try: print('begun'); time.sleep(100)\nexcept: pass\ntime.sleep(50)", "time.sleep(50)"},
		{"except Exception", "while True:\n    try: print('begun'); time.sleep(100)\n    except Exception: pass", "time.sleep(100)"},
		{"await", "async def f(): print('begun'); await asyncio.sleep(100)\nawait f()", "await f()"},
		{"busy in await", "async def f():\n    print('begun')\n    while True: pass\nawait f()", "await f()"},
		{"await that swallows", "async def f():\n    try: print('begun'); await asyncio.sleep(100)\n    except (KeyboardInterrupt, " +
			"asyncio.CancelledError): pass\n    await asyncio.sleep(50)\nawait f()", "await f()"},
		{"repr", "class R:\n    def __repr__(self):\n        print('begun')\n        while True: pass\nR()", "in __repr__"},
		{"traceback", "class E(Exception):\n    def __str__(self):\n        print('begun')\n        while True: pass\nraise E", ""},
		{"child", "print('begun'); subprocess.run(['sleep', '100'])", "subprocess.run"},
		{"thread joined", "th = threading.Thread(target=time.sleep, args=(3,), daemon=True); th.start(); print('begun'); th.join()", "th.join()"},
		{"lock", "threading.Lock().acquire() or 1; l = threading.Lock(); l.acquire(); print('begun'); l.acquire()", "l.acquire()"},
		{"blocked in the cell before", "print('begun'); time.sleep(100)", "time.sleep(100)"},
		{"own handler of the cell before", "print('begun'); time.sleep(100)", "time.sleep(100)"},
	}
	eachPlace(t, func(t *testing.T, start func(t testing.TB) session) {
		s := start(t)
		s.run("kept = 17; import asyncio, re, signal, subprocess, threading, time; signal.signal(signal.SIGINT, signal.SIG_IGN); " +
			"signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT]);")
		for _, c := range cells {
			t.Run(c.name, func(t *testing.T) {
				s.t = t
				r := s.runInterrupted(c.code)
				if r.Ended != "cancelled" || r.Lost || r.Error == nil {
					t.Fatalf("got %+v", r.Outcome)
				}
				if c.trace != "" && (r.Error.Type != "KeyboardInterrupt" || !strings.Contains(r.Error.Traceback, c.trace) ||
					strings.Contains(r.Error.Traceback, "<driver>")) {
					t.Errorf("got %s\n%s", r.Error, r.Error.Traceback)
				}
				if r := s.run("kept"); r.text() != "17" {
					t.Errorf("the state is %s", r.text())
				}
			})
		}
		t.Run("its time is up", func(t *testing.T) {
			s.t = t
			r := s.cell(t.Context(), Cell{Code: "time.sleep(100)", Timeout: 50 * time.Millisecond, Grace: time.Minute})
			if r.Ended != "timeout" || r.Lost || r.Error == nil || r.Error.Type != "KeyboardInterrupt" || r.Wall < 50*time.Millisecond {
				t.Errorf("got %+v", r.Outcome)
			}
		})
		t.Run("a second time, without being asked", func(t *testing.T) {
			s.t = t
			r := s.cell(t.Context(), Cell{Code: "try: time.sleep(100)\nexcept: pass\ntime.sleep(50)", Timeout: 50 * time.Millisecond,
				Grace: 6 * time.Second})
			if r.Ended != "timeout" || r.Lost || r.Error == nil {
				t.Errorf("got %+v", r.Outcome)
			}
		})
	})
}

// TestKilled checks that code that ignores interrupts is killed.
func TestKilled(t *testing.T) {
	cells := []struct{ name, code string }{
		{"catches it", "while True:\n    try:\n        print('begun')\n        while True: x = 1\n    except BaseException: pass"},
		{"ignores it", "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\nprint('begun')\nwhile True: pass"},
		{"a regular expression", "import re; print('begun'); re.match('(a*)*b', 'a' * 40)"},
		{"stops itself", "import os, signal\nif os.fork() == 0:\n    while ') T ' not in open('/proc/%d/stat' % os.getppid()).read(): pass\n " +
			"   os.write(1, b'begun\\n'); os._exit(0)\nos.kill(os.getpid(), signal.SIGSTOP)"},
	}
	eachPlace(t, func(t *testing.T, start func(t testing.TB) session) {
		for _, c := range cells {
			t.Run(c.name, func(t *testing.T) {
				s := start(t)
				r := s.runCancelled(Cell{Code: c.code, Grace: 300 * time.Millisecond}, "begun")
				if c.name == "a regular expression" && !r.Lost {
					t.Skip("this Python looks for signals there")
				}
				if r.Ended != "cancelled" || !r.Lost || !strings.HasPrefix(r.Stdout, "begun\n") {
					t.Fatalf("got %+v %q", r.Outcome, r.Stdout)
				}
				checkDead(t, s)
			})
		}
	})
}

// checkDead checks that every call of a dead kernel fails with errDead.
func checkDead(t *testing.T, s session) {
	t.Helper()
	<-s.Done()
	if _, err := s.Run(t.Context(), Cell{Code: "1", Timeout: time.Second}); !errors.Is(err, errDead) {
		t.Errorf("Run: %v", err)
	}
	if _, err := s.Get(t.Context(), "x"); !errors.Is(err, errDead) {
		t.Errorf("Get: %v", err)
	}
}

// TestDeath checks code that ends its interpreter.
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
		{"from a thread", "import os, threading; print('last'); threading.Thread(target=os._exit, args=(4,)).start()\nwhile True: pass",
			backends.EndedExit, 4},
	}
	eachPlace(t, func(t *testing.T, start func(t testing.TB) session) {
		for _, c := range cells {
			t.Run(c.name, func(t *testing.T) {
				s := start(t)
				r := s.run(c.code)
				if r.Ended != "dead" || !r.Lost || r.Stdout != "last\n" {
					t.Fatalf("got %+v %q", r.Outcome, r.Stdout)
				}
				checkDead(t, s)
				if death, err := s.Death(); err != nil || death.Ended != c.ended || death.ExitCode != c.exit {
					t.Errorf("died of %s %d, %v; want %s %d", death.Ended, death.ExitCode, err, c.ended, c.exit)
				}
			})
		}
		t.Run("the channel closed", func(t *testing.T) {
			s := start(t)
			r := s.cell(t.Context(), Cell{Code: "import os; os.closerange(3, 4096)"})
			if !r.Lost {
				t.Fatalf("got %+v", r.Outcome)
			}
			checkDead(t, s)
		})
	})
}

// TestOutOfMemory exceeds the sandbox's memory limit, which no driver can survive.
func TestOutOfMemory(t *testing.T) {
	python(t)
	s := sandboxed(t, "python", backends.Limits{RAM: 96 << 20})
	r := s.run("a = []\nwhile True: a.append(bytearray(b'x' * (8 << 20)))")
	if !r.Lost || r.Ended != "dead" {
		t.Errorf("got %+v", r.Outcome)
	}
	if death, err := s.Death(); err != nil || death.Ended != backends.EndedOOM {
		t.Errorf("got %+v %v", death, err)
	}
}

// TestIdleInterrupt sends signals while no cell runs.
func TestIdleInterrupt(t *testing.T) {
	eachPlace(t, func(t *testing.T, start func(t testing.TB) session) {
		s := start(t)
		s.run("kept = 3")
		for range 5 {
			s.interrupt <- struct{}{}
		}
		hosttest.Until(t, "a cell runs that no late signal interrupts", func() bool {
			r := s.run("kept")
			if r.Lost || r.Stderr != "" || r.Error != nil && r.Error.Type != "KeyboardInterrupt" {
				t.Fatalf("got %+v %q", r.Outcome, r.Stderr)
			}
			return r.text() == "3"
		})
	})
}
