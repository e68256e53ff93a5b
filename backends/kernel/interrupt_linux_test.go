package kernel

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends"
)

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
		s.run("kept = 17; import asyncio, re, signal, subprocess, threading, time; signal.signal(signal.SIGINT, signal.SIG_IGN); signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT]);")
		for _, c := range cells {
			t.Run(c.name, func(t *testing.T) {
				s.t = t
				began := time.Now()
				r := s.cell(t.Context(), Cell{Code: c.code, Timeout: 150 * time.Millisecond, Grace: 4 * time.Second})
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
				r := s.cell(t.Context(), Cell{Code: "print('begun')\n" + c.code, Timeout: 500 * time.Millisecond, Grace: 300 * time.Millisecond})
				if c.name == "a regular expression" && !r.Lost {
					t.Skip("this Python looks for signals there")
				}
				if r.Ended != "timeout" || !r.Lost || r.Stdout != "begun\n" {
					t.Errorf("got %+v %q", r.Outcome, r.Stdout)
				}
				if took := time.Since(began); took > 20*time.Second {
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
	case <-time.After(20 * time.Second):
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
