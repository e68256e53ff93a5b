package warm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
	"github.com/sandboxmcp/sandboxmcp/backends/process"
	"github.com/sandboxmcp/sandboxmcp/backends/process/procfs"
)

var (
	readyPython = backends.Command{Args: []string{"python", "main.py"}}
	readyNode   = backends.Command{Args: []string{"node", "main.js"}}
	readyShell  = backends.Command{Args: []string{"bash", "main.sh"}}
)

// texts are programs that print "alive", by their names.
var texts = map[string]string{"main.py": "print('alive')", "main.js": "console.log('alive')", "main.sh": "echo alive"}

// kinds returns one program of each language.
func kinds() []backends.Spec {
	return []backends.Spec{announced("python", readyPython), announced("node", readyNode), announced("shell", readyShell)}
}

// checkWorks fails unless a program of spec's kind works.
func checkWorks(t *testing.T, b *Backend, spec backends.Spec) ran {
	t.Helper()
	name := spec.Program.Args[1]
	r := runProgram(t, b, spec, map[string]string{name: texts[name]}, "")
	if r.Ended != backends.EndedOK || r.out != "alive\n" || r.err != "" {
		t.Errorf("%+v, %q, %q", r.Result, r.out, r.err)
	}
	return r
}

// idleSandboxes returns the idle sandboxes of a kind.
func idleSandboxes(b *Backend, spec backends.Spec) []*sandbox {
	r, _ := poolKeyOf(spec)
	return b.pool.Idle(r)
}

// TestReadyDies kills the idle interpreter, or its sandbox, before or after it was leased. No caller gets an error
// as long as the sandbox exists.
func TestReadyDies(t *testing.T) {
	for _, spec := range kinds() {
		t.Run(spec.Language, func(t *testing.T) {
			b := pooled(t)
			makeReady(t, b, spec)
			s := idleSandboxes(b, spec)[0]
			unix.PidfdSendSignal(int(s.idle.process.Fd()), unix.SIGKILL, nil, 0)
			checkWorks(t, b, spec)
			makeReady(t, b, spec)
			s = idleSandboxes(b, spec)[0]
			unix.Kill(s.PID(), unix.SIGKILL)
			hosttest.Until(t, "the sandbox has ended", func() bool { return s.HasEnded(0) })
			checkWorks(t, b, spec)
			makeReady(t, b, spec)
			s = idleSandboxes(b, spec)[0]
			taken, err := b.Start(t.Context(), spec)
			if err != nil || taken != backends.Sandbox(s) {
				t.Fatalf("took another: %v", err)
			}
			defer taken.Close()
			process := s.idle.process
			unix.PidfdSendSignal(int(process.Fd()), unix.SIGKILL, nil, 0)
			hosttest.Until(t, "the interpreter has ended", func() bool { return procfs.HasEnded(process) })
			name := spec.Program.Args[1]
			if err := taken.Files().Put(name, 0o644, strings.NewReader(texts[name])); err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer
			r, err := taken.Exec(t.Context(), *spec.Program, backends.Streams{Stdout: &out})
			if err != nil || out.String() != "alive\n" || r.Warm || r.Cold == "" {
				t.Errorf("%+v %v %q", r, err, out.String())
			}
		})
	}
}

// TestReadyForOthers executes programs that were not announced, or announced differently.
func TestReadyForOthers(t *testing.T) {
	b := pooled(t)
	for _, c := range []struct {
		name string
		cmd  backends.Command
		why  string
	}{
		{"another argument", backends.Command{Args: []string{"python", "main.py", "x"}}, "another command was announced"},
		{"another variable", backends.Command{Args: []string{"python", "main.py"}, Env: []string{"A=1"}}, "another command was announced"},
		{"another directory", backends.Command{Args: []string{"python", "main.py"}, Dir: "/tmp/../workspace"}, "another command was announced"},
		{"no file", readyPython, "the program is not there"},
	} {
		t.Run(c.name, func(t *testing.T) {
			spec := announced("python", readyPython)
			makeReady(t, b, spec)
			s, err := b.Start(t.Context(), spec)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			if c.name != "no file" {
				s.Files().Put("main.py", 0o644, strings.NewReader("import sys, os; print(sys.argv, os.environ.get('A'))"))
			}
			var out, errs bytes.Buffer
			r, err := s.Exec(t.Context(), c.cmd, backends.Streams{Stdout: &out, Stderr: &errs})
			if err != nil || r.Warm || r.Cold != c.why {
				t.Errorf("%+v %v", r, err)
			}
			if (r.Ended == backends.EndedOK) != (c.name != "no file") {
				t.Errorf("ended %s, %q %q", r.Ended, out.String(), errs.String())
			}
		})
	}
}

// TestReadyCancelled cancels a run before it begins, and just then.
func TestReadyCancelled(t *testing.T) {
	b := pooled(t)
	for _, spec := range kinds() {
		for _, after := range []time.Duration{-1, 0, 200 * time.Microsecond, time.Millisecond, 20 * time.Millisecond} {
			makeReady(t, b, spec)
			s, err := b.Start(t.Context(), spec)
			if err != nil {
				t.Fatal(err)
			}
			name := spec.Program.Args[1]
			text := map[string]string{"python": "while True: pass", "node": "for(;;);", "shell": "while :; do :; done"}[spec.Language]
			s.Files().Put(name, 0o644, strings.NewReader(text))
			ctx, cancel := context.WithCancel(t.Context())
			if after < 0 {
				cancel()
			} else {
				time.AfterFunc(after, cancel)
			}
			r, err := s.Exec(ctx, *spec.Program, backends.Streams{})
			if err == nil && r.Ended != backends.EndedCancelled {
				t.Errorf("%s, cancelled after %v: %+v", spec.Language, after, r)
			}
			if n := s.Usage().Processes; n > 0 {
				t.Errorf("%s, cancelled after %v: %d processes are alive", spec.Language, after, n)
			}
			cancel()
			s.Close()
		}
	}
}

// TestReadyRace has many callers compete for few sandboxes: each sandbox serves one, and each program gets its own
// input.
func TestReadyRace(t *testing.T) {
	b := pooled(t)
	spec := announced("python", readyPython)
	makeReady(t, b, spec)
	var all sync.WaitGroup
	var mu sync.Mutex
	seen := map[backends.Sandbox]bool{}
	warm := int64(0) // by their results
	for i := range 40 {
		all.Go(func() {
			own := announced("python", backends.Command{Args: []string{"python", "main.py", fmt.Sprint(i)}, Env: []string{fmt.Sprint("N=", i)}})
			s, err := b.Start(t.Context(), own)
			if err != nil {
				t.Error(err)
				return
			}
			defer s.Close()
			mu.Lock()
			if seen[s] {
				t.Error("a sandbox was given twice")
			}
			seen[s] = true
			mu.Unlock()
			s.Files().Put("main.py", 0o644, strings.NewReader("import sys, os; print(sys.argv[1], os.environ['N'], os.listdir())"))
			var out bytes.Buffer
			r, err := s.Exec(t.Context(), *own.Program, backends.Streams{Stdout: &out})
			mu.Lock()
			if r.Warm {
				warm++
			}
			mu.Unlock()
			if want := fmt.Sprintf("%d %d ['main.py']\n", i, i); err != nil || out.String() != want {
				t.Errorf("%q, want %q, %v", out.String(), want, err)
			}
		})
	}
	all.Wait()
	for _, p := range b.Pools() {
		if p.Hits+p.Misses != 40 || p.Hits == 0 || p.Hits != warm {
			t.Errorf("%+v, and %d results say that they found one", p, warm)
		}
	}
}

// TestReadyForkBomb runs a program that forks at its start: its limits are already in force.
func TestReadyForkBomb(t *testing.T) {
	b := pooled(t)
	spec := announced("python", readyPython)
	spec.Limits = backends.Limits{Processes: 10}
	makeReady(t, b, spec)
	// 64 without any refusal
	const bomb = "import os, time\nfor _ in range(6):\n  try: os.fork()\n  except OSError: os.write(1, b'refused ')\ntime.sleep(.1)"
	r := runProgram(t, b, spec, map[string]string{"main.py": bomb}, "")
	if !r.Warm || r.Ended != backends.EndedOK || !strings.Contains(r.out, "refused") {
		t.Errorf("%+v %q %q", r.Result, r.out, r.err)
	}
	if !checkWorks(t, b, announced("shell", readyShell)).Contained.Layers[0].InForce {
		t.Error("not contained")
	}
}

// TestReadyRests checks that idle processes take no CPU time.
func TestReadyRests(t *testing.T) {
	b := pooled(t)
	for _, spec := range kinds() {
		makeReady(t, b, spec)
		s := idleSandboxes(b, spec)[0]
		used := func() (sum string) {
			names, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", s.idle.host))
			for _, name := range append(names, fmt.Sprintf("/proc/%d/schedstat", s.PID())) {
				text, _ := os.ReadFile(name)
				sum += strings.Fields(string(text) + " -")[0] + " "
			}
			return sum
		}
		before, same := "", 0
		hosttest.Until(t, spec.Language+" and its other threads use no processor time", func() bool {
			now := used()
			if same++; now != before {
				before, same = now, 0
			}
			return same == 10
		})
	}
}

// TestReadySecrets searches PID 1's memory and command line for an assignment's contents.
func TestReadySecrets(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("PID 1's memory is closed to an ordinary user")
	}
	b := pooled(t)
	secret := fmt.Sprintf("sec%dret", time.Now().UnixNano())
	for _, language := range []string{"python", "shell"} {
		name := map[string]string{"python": "main.py", "shell": "main.sh"}[language]
		program := map[string]string{"python": "python", "shell": "bash"}[language]
		spec := announced(language, backends.Command{Args: []string{program, name}, Env: []string{"KEY=" + secret}})
		makeReady(t, b, spec)
		s, err := b.Start(t.Context(), spec)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		s.Files().Put(name, 0o644, strings.NewReader(map[string]string{"python": "import time; time.sleep(100)", "shell": "sleep 100"}[language]))
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		begun := make(chan struct{})
		done := make(chan backends.Result, 1)
		go func() {
			r, _ := s.Exec(ctx, *spec.Program, backends.Streams{Begun: func(backends.Containment) { close(begun) }})
			done <- r
		}()
		<-begun
		hosttest.Until(t, "the program has the secret, and the test can see that", func() bool {
			host, err := s.(*sandbox).HostPID()
			return err == nil && occurrences(t, host, secret) > 0
		})
		if n := occurrences(t, s.(*sandbox).PID(), secret); n > 0 {
			t.Errorf("%s: PID 1 has the secret %d times", language, n)
		}
		cancel()
		if r := <-done; !r.Warm {
			t.Errorf("%+v", r)
		}
	}
}

// occurrences counts a word in a process's memory.
func occurrences(t *testing.T, pid int, word string) int {
	t.Helper()
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		t.Fatal(err)
	}
	memory, err := os.Open(fmt.Sprintf("/proc/%d/mem", pid))
	if err != nil {
		t.Fatal(err)
	}
	defer memory.Close()
	n := 0
	for line := range strings.Lines(string(maps)) {
		var from, to int64
		fmt.Sscanf(line, "%x-%x", &from, &to)
		if fields := strings.Fields(line); fields[1][0] != 'r' || fields[1][1] != 'w' || to-from > 64<<20 {
			continue
		}
		text := make([]byte, to-from)
		k, _ := memory.ReadAt(text, from)
		n += bytes.Count(text[:k], []byte(word))
	}
	return n
}

// TestReadyIdle checks that unrequested idle sandboxes are dropped, and the zygote that forked them.
func TestReadyIdle(t *testing.T) {
	b := newBackend(t, process.Config{}, Config{Max: 4, Idle: 400 * time.Millisecond})
	spec := announced("python", readyPython)
	makeReady(t, b, spec)
	z := idleSandboxes(b, spec)[0].zygote
	if z == nil {
		t.Fatal("no zygote was started")
	}
	checkWorks(t, b, spec)
	hosttest.Until(t, "all is given up", func() bool { return len(idleSandboxes(b, spec)) == 0 && gone(z) })
}

// TestNothingReady checks a backend that may have no idle sandbox.
func TestNothingReady(t *testing.T) {
	b := newBackend(t, process.Config{}, Config{})
	if r := checkWorks(t, b, announced("python", readyPython)); r.Warm || r.Cold != "" || b.Pools() != nil || b.active {
		t.Errorf("%+v %v", r, b.Pools())
	}
}

// TestReadyClosed closes a backend with idle sandboxes and others in the making.
func TestReadyClosed(t *testing.T) {
	b := newBackend(t, process.Config{}, Config{Max: 16})
	before := hosttest.Descendants(os.Getpid())
	for _, spec := range kinds() {
		r, _ := poolKeyOf(spec)
		b.pool.LeaseItem(r) // so that two are wanted
		makeReady(t, b, spec)
	}
	all := hosttest.Descendants(os.Getpid())
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	for pid := range before {
		delete(all, pid)
	}
	if left := hosttest.FilterLiving(all); len(all) < 5 || len(left) > 0 {
		t.Errorf("of %d processes %v are alive", len(all), left)
	}
	for _, p := range b.Pools() {
		if p.Ready > 0 {
			t.Errorf("afterwards stands ready: %+v", p)
		}
	}
	if _, err := b.Start(t.Context(), kinds()[0]); err == nil {
		t.Error("it still starts sandboxes")
	}
}

// serveReady is a server with idle sandboxes.
func serveReady() {
	b := New(process.New(process.Config{StateDir: os.Getenv("SANDBOXMCP_TEST_STATE")}), Config{Max: 8})
	for _, spec := range kinds() {
		for len(idleSandboxes(b, spec)) == 0 {
			if s, err := b.Start(context.Background(), spec); err == nil {
				s.Close()
			}
			time.Sleep(time.Millisecond)
		}
	}
	fmt.Println("ready")
	select {}
}

// TestReadyServerKilled kills a server: its idle sandboxes end with it.
func TestReadyServerKilled(t *testing.T) {
	cmd := hosttest.Role(t, "ready")
	hosttest.StartServer(t, cmd)
	descendants := hosttest.Descendants(cmd.Process.Pid)
	if len(descendants) < 6 {
		t.Errorf("there are only %d processes below the server", len(descendants))
	}
	hosttest.KillServer(t, cmd, descendants)
}

// TestPoolTellsWhy makes zygotes fail: a caller without an idle sandbox gets the reason.
func TestPoolTellsWhy(t *testing.T) {
	b := pooled(t)
	spec := announced("python", readyPython)
	python := interpreter(t, "python")
	b.zygotes.PauseFirst, b.zygotes.PauseMax = time.Hour, time.Hour
	b.zygotes.Acquire(t.Context(), scriptKind(python, "main.py"), func(context.Context) (*process.Template, error) {
		return nil, errors.New("no\npython")
	})
	r, _ := poolKeyOf(spec)
	b.pool.Prepare(r)
	if r := checkWorks(t, b, spec); r.Warm || r.Cold != "no idle sandbox: no python" {
		t.Errorf("warm: %v, why not: %q", r.Warm, r.Cold)
	}
}

// TestPoolFollowsTheHost changes the host below idle sandboxes: the next caller gets none of them.
func TestPoolFollowsTheHost(t *testing.T) {
	home, err := os.UserHomeDir() // each sandbox has its own /tmp
	if err != nil {
		t.Skip(err)
	}
	dir, err := os.MkdirTemp(home, "TestPool")
	if err != nil || strings.HasPrefix(dir, "/tmp/") {
		t.Skip("no directory outside of /tmp: ", err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	visible := dir + "/visible"
	b := newBackend(t, process.Config{Runtimes: interpreters(t, visible)}, Config{Max: 8})
	for _, spec := range kinds() {
		if err := errors.Join(os.RemoveAll(visible), os.Mkdir(visible, 0o755)); err != nil {
			t.Fatal(err)
		}
		makeReady(t, b, spec)
		if err := errors.Join(os.Rename(visible, dir+"/"+spec.Language), os.Mkdir(visible, 0o755)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(200 * time.Millisecond) // the minimum time between comparisons with the host
		r, _ := poolKeyOf(spec)
		if taken, _ := b.pool.LeaseItem(r); taken != nil {
			t.Errorf("%s: what stood ready shows the host as it was", spec.Language)
			taken.Close()
		}
	}
}
