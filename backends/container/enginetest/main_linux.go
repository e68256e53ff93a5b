package enginetest

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends/container"
	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
)

// Variables that make a test binary a supervisor: its engine, and its directory.
const (
	roleVariable = "SANDBOXMCP_TEST_ENGINE"
	dirVariable  = "SANDBOXMCP_TEST_DIR"
)

// mine are the engines of this process. All tests share them, because an engine takes a second to start and its
// images several.
var mine struct {
	mu      sync.Mutex
	running bool // Main has been called
	engines map[string]*engine
	layers  map[string]layer // of images
}

// engine is a running engine, or the reason why it could not start.
type engine struct {
	kind, dir  string
	held       *os.File // the locked dir
	supervisor *exec.Cmd
	in         io.WriteCloser
	out        *bufio.Reader
	address    string // of an sshd
	images     map[string]bool
	missing    error // reason why the machine can't run the engine
}

// Main runs the tests and ends their engines. TestMain must pass its result to os.Exit, and must do nothing before
// that a supervisor should not do, too.
func Main(m *testing.M) int {
	if kind := os.Getenv(roleVariable); kind != "" {
		return supervise(kind, os.Getenv(dirVariable))
	}
	if os.Args[0] == container.InitPath { // a program in a container started it as init; the tests must not run there
		return 1
	}
	sweep()
	// Tests of another engine may run at the same time, and some look for new temporary files.
	dir, held, err := newDir(temporaryDirs)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer held.Close()
	defer os.RemoveAll(dir)
	os.Chmod(dir, 0o777|os.ModeSticky) // ordinary users need it, too
	os.Setenv("TMPDIR", dir)
	mine.running = true
	defer stopEngines()
	return m.Run()
}

func stopEngines() {
	mine.mu.Lock()
	defer mine.mu.Unlock()
	for _, e := range mine.engines {
		if e.supervisor != nil {
			e.in.Close()
		}
	}
	for _, e := range mine.engines {
		if e.supervisor != nil {
			e.supervisor.Wait()
		}
	}
}

// engineOf returns the engine of a kind, and starts it at the first call.
func engineOf(t testing.TB, kind string) *engine {
	t.Helper()
	mine.mu.Lock()
	defer mine.mu.Unlock()
	if !mine.running {
		t.Fatal("TestMain does not call enginetest.Main")
	}
	e := mine.engines[kind]
	if e == nil {
		e = &engine{kind: kind, images: map[string]bool{}}
		if e.missing = checkMachine(kind); e.missing == nil {
			e.missing = e.start()
		}
		if e.missing == nil && e.address == "" {
			e.missing = e.checkRuns()
		}
		if mine.engines == nil {
			mine.engines = map[string]*engine{}
		}
		mine.engines[kind] = e
	}
	if e.missing != nil {
		thing, _, _ := strings.Cut(kind, " ")
		hosttest.SkipMissing(t, thing, e.missing.Error())
	}
	return e
}

// start starts a supervisor and waits until its engine answers. The supervisor does not inherit this process's
// environment, which tests may have poisoned, nor its standard streams, for which go test waits.
func (e *engine) start() (err error) {
	if e.dir, e.held, err = newDir(engineDirs); err != nil {
		return err
	}
	if err := os.Chmod(e.dir, 0o711); err != nil {
		return err
	}
	if strings.HasPrefix(e.kind, "ssh ") {
		if err := e.configureSSH(); err != nil {
			return err
		}
	}
	k := exec.Command("/proc/self/exe")
	k.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8",
		"HOME=" + e.dir + "/home", "XDG_RUNTIME_DIR=" + e.dir + "/xdg", roleVariable + "=" + e.kind, dirVariable + "=" + e.dir}
	k.Dir = "/"
	k.ExtraFiles = []*os.File{e.held}
	k.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if os.Geteuid() == 0 {
		k.SysProcAttr.Cloneflags = syscall.CLONE_NEWNS // its mounts are not the host's
	}
	if e.in, err = k.StdinPipe(); err != nil {
		return err
	}
	out, err := k.StdoutPipe()
	if err != nil {
		return err
	}
	e.out = bufio.NewReader(out)
	if err := k.Start(); err != nil {
		return fmt.Errorf("start supervisor: %w", err)
	}
	e.supervisor = k
	return e.awaitReady()
}

// awaitReady waits for the supervisor's report: "ready", or an error.
func (e *engine) awaitReady() error {
	if line, err := e.out.ReadString('\n'); line != "ready\n" {
		return fmt.Errorf("start %s: %s %v", e.kind, strings.ReplaceAll(strings.TrimSpace(line), "\t", "\n"), err)
	}
	return nil
}

// Stop signals an engine of this process to end, and waits until it has. Restart starts it again.
func Stop(t testing.TB, url string) { command(t, url, "stop") }

// Restart kills an engine of this process with SIGKILL and starts it again.
func Restart(t testing.TB, url string) { command(t, url, "restart") }

func command(t testing.TB, url, word string) {
	t.Helper()
	e := engineAt(t, url)
	fmt.Fprintln(e.in, word)
	if err := e.awaitReady(); err != nil {
		t.Fatalf("%s: %v", word, err)
	}
}

// engineAt returns the engine with a URL.
func engineAt(t testing.TB, url string) *engine {
	t.Helper()
	mine.mu.Lock()
	defer mine.mu.Unlock()
	for _, e := range mine.engines {
		if e.url() == url {
			return e
		}
	}
	t.Fatalf("%s is not an engine of this test", url)
	return nil
}
