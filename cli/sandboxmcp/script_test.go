package main

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	_ "modernc.org/sqlite" // damages audit logs

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
	"github.com/sandboxmcp/sandboxmcp/backends/process"
	"github.com/sandboxmcp/sandboxmcp/cli"
	"github.com/sandboxmcp/sandboxmcp/egress/web/browser"
)

// TestMain makes the test binary act as sandboxmcp in the scripts. The sandbox's child takes over earlier, in an init
// that main.go imports.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"sandboxmcp":  func() { os.Exit(cli.Main(os.Args, os.Stdin, os.Stdout, os.Stderr)) },
		"await":       await,
		"small-agent": runSmallAgent,
	})
}

// await runs a command until it succeeds or the test ends: await COMMAND ARGS...
func await() {
	pid, _ := strconv.Atoi(os.Getenv("TEST_PID"))
	test, err := os.FindProcess(pid)
	for exec.Command(os.Args[1], os.Args[2:]...).Run() != nil {
		if err != nil || test.Signal(syscall.Signal(0)) != nil {
			os.Exit(1)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func TestScripts(t *testing.T) {
	handleSignals(t)
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup:               setup,
		Condition:           condition,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": exits, "sql": runSQL, "bytes": writeBytes, "website": serveWebsite, "site": serveSite,
		},
	})
}

// setup creates a home for each script. Interpreters in the real home are found by PATH.
func setup(e *testscript.Env) error {
	home := filepath.Join(e.WorkDir, "home")
	e.Setenv("HOME", home)
	e.Setenv("XDG_STATE_HOME", filepath.Join(home, "state"))
	e.Setenv("XDG_CONFIG_HOME", filepath.Join(home, "config"))
	e.Setenv("DB", filepath.Join(home, "state/sandboxmcp/sandboxmcp.db"))
	e.Setenv("PYENV_ROOT", pyenvRoot())
	e.Setenv("TEST_PID", strconv.Itoa(os.Getpid()))
	program, err := exec.LookPath("sandboxmcp") // testscript put it on PATH
	if err != nil {
		return err
	}
	examples, err := filepath.Abs("../examples")
	if err != nil {
		return err
	}
	e.Setenv("BIN", filepath.Dir(program))
	e.Setenv("EXAMPLES", examples)
	// Scripts must not use this machine's engines: a request may start one.
	none := "unix://" + filepath.Join(e.WorkDir, "none.sock")
	e.Setenv("DOCKER_HOST", none)
	e.Setenv("CONTAINER_HOST", none)
	return os.MkdirAll(home, 0o755)
}

// pyenvRoot keeps pyenv's shims working with another HOME.
func pyenvRoot() string {
	if root := os.Getenv("PYENV_ROOT"); root != "" {
		return root
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return ""
	}
	return filepath.Join(home, ".pyenv")
}

// condition reports whether this machine has a feature. A feature named in SANDBOXMCP_TEST_REQUIRE must be there: a
// test that would be skipped for its lack fails instead.
func condition(name string) (bool, error) {
	var ok bool
	switch name {
	case "root":
		return os.Geteuid() == 0, nil
	case "python":
		ok = isInstalled("python3")
	case "node":
		ok = isInstalled("node")
	case "bash", "zsh", "fish", "git", "curl", "openssl", "cosign", "perl", "gcc":
		ok = isInstalled(name)
	case "typescript": // Node runs it from 22.18 on
		ok = exec.Command("node", "--input-type=module-typescript", "-e", "let x: number = 1").Run() == nil
	case "keyring":
		ok = isInstalled("dbus-daemon") && isInstalled("gnome-keyring-daemon") && isInstalled("setpriv")
	case "sandbox":
		ok = sandboxWorks()
	case "chromium":
		_, err := browser.FindProgram("")
		ok = err == nil
	default:
		return false, fmt.Errorf("there is no condition %q", name)
	}
	if !ok && hosttest.IsRequired(name) {
		return false, fmt.Errorf("%s is required by SANDBOXMCP_TEST_REQUIRE and is not here", name)
	}
	return ok, nil
}

// requireFeatures skips a test if this machine lacks features: see condition.
func requireFeatures(t testing.TB, things ...string) {
	t.Helper()
	for _, name := range things {
		ok, err := condition(name)
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			hosttest.SkipMissing(t, name, "it is not here")
		}
	}
}

func isInstalled(program string) bool {
	_, err := exec.LookPath(program)
	return err == nil
}

// sandboxWorks reports whether the hardened profile can run here: on Linux, with user namespaces.
var sandboxWorks = sync.OnceValue(func() bool {
	b := process.New(process.Config{StateDir: os.TempDir()})
	defer b.Close()
	probe, err := b.Probe(context.Background(), backends.Spec{Require: backends.ContainmentLayers})
	return err == nil && probe.Usable
})

// exits runs a command and expects one exit code: exits CODE PROGRAM ARGS...
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE PROGRAM ARGS...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		exit, ok := err.(*exec.ExitError)
		if !ok {
			ts.Fatalf("%s: %v", args[1], err)
		}
		if got = exit.ExitCode(); got < 0 {
			ts.Fatalf("%s: %v", args[1], err)
		}
	}
	if got != want {
		ts.Fatalf("%s ended with exit code %d, want %d", args[1], got, want)
	}
}

// runSQL changes a database behind the program's back: sql DB STATEMENT
func runSQL(ts *testscript.TestScript, neg bool, args []string) {
	db, err := sql.Open("sqlite", args[0])
	ts.Check(err)
	defer db.Close()
	_, err = db.Exec(strings.ReplaceAll(args[1], `\n`, "\n"))
	ts.Check(err)
}

// writeBytes creates a file from a Go string literal, repeated: bytes FILE LITERAL [TIMES]
func writeBytes(ts *testscript.TestScript, neg bool, args []string) {
	text, err := strconv.Unquote(`"` + args[1] + `"`)
	ts.Check(err)
	times := 1
	if len(args) > 2 {
		times, err = strconv.Atoi(args[2])
		ts.Check(err)
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(strings.Repeat(text, times)), 0o644))
}
