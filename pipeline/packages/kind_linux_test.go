package packages

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
	"github.com/sandboxmcp/sandboxmcp/pipeline/remedy"
)

// image is a backend whose interpreter reports the text of a test. No two images of different C libraries and machines
// are at hand.
type image struct {
	backends.Backend
	name, reported string
	asked          int
}

func (i *image) Name() string { return i.name }

func (i *image) Start(context.Context, backends.Spec) (backends.Sandbox, error) {
	i.asked++
	return inImage{reported: i.reported}, nil
}

func (i *image) Probe(context.Context, backends.Spec) (backends.Probe, error) {
	return backends.Probe{Runtimes: []backends.Runtime{{Name: "python", Why: remedy.Text{"the image has none"}}}}, nil
}

type inImage struct {
	backends.Sandbox
	reported string
}

func (i inImage) Exec(_ context.Context, _ backends.Command, to backends.Streams) (backends.Result, error) {
	if i.reported == "" {
		return backends.Result{}, errors.New("no such program")
	}
	io.WriteString(to.Stdout, i.reported+"\n")
	return backends.Result{End: backends.End{Ended: backends.EndedOK}}, nil
}

func (inImage) Close() error { return nil }

func openStore(t *testing.T) *Store {
	t.Helper()
	s, err := Open(Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// TestKinds: interpreters that differ in anything that compiled packages depend on have different layers.
func TestKinds(t *testing.T) {
	all := []image{
		{name: "process", reported: "3.12-cpython-312-x86_64-linux-gnu-glibc2.36"},
		{name: "docker", reported: "3.12-cpython-312-x86_64-linux-gnu-glibc2.36"},
		{name: "podman", reported: "3.12-cpython-312-x86_64-linux-gnu-glibc2.36"},
		{name: "docker", reported: "3.13-cpython-313-x86_64-linux-gnu-glibc2.36"},
		{name: "docker", reported: "3.13-cpython-313t-x86_64-linux-gnu-glibc2.36"},
		{name: "docker", reported: "3.12-cpython-312-x86_64-linux-gnu-glibc2.31"},
		{name: "docker", reported: "3.12-cpython-312-x86_64-linux-musl-musl1.2.5"},
		{name: "docker", reported: "3.12-cpython-312-aarch64-linux-gnu-glibc2.36"},
		{name: "docker", reported: "3.11-pypy311-pp73-x86_64-linux-gnu-glibc2.36"},
	}
	directories := map[layers]image{}
	for _, i := range all {
		s := openStore(t) // each has just started
		kind, err := s.kind(t.Context(), &i, "python")
		if err != nil {
			t.Fatal(err)
		}
		s.cfg.Dir = "/"
		at, err := s.layersOf("default", kind)
		if err != nil {
			t.Fatal(err)
		}
		if other, taken := directories[at]; taken {
			t.Errorf("%v and %v share %s", i, other, at)
		}
		directories[at] = i
	}
}

// TestKindIsAName: the words of an image lead nowhere else, and no interpreter is a refusal.
func TestKindIsAName(t *testing.T) {
	for _, reported := range []string{"", "3.12", "3.12-", "3.12-x/../../y", "..", "3.12-a\n3.12-b", "3.12-" + strings.Repeat("x", 200),
		"-3.12-x", "3.12-é"} {
		s := openStore(t)
		kind, err := s.kind(t.Context(), &image{name: "process", reported: reported}, "python")
		if err == nil {
			t.Errorf("%q: got %q, want an error", reported, kind)
		}
		if refused := errors.As(err, new(*backends.Refusal)); refused != (reported == "") {
			t.Errorf("%q: got %v, a refusal: %v", reported, err, refused)
		}
	}
}

// TestKindChanges: an image may be replaced by another one of the same name. Each install asks the interpreter again.
func TestKindChanges(t *testing.T) { synctest.Test(t, testKindChanges) }

func testKindChanges(t *testing.T) {
	s := openStore(t)
	i := &image{name: "docker", reported: "3.12-cpython-312-x86_64-linux-gnu-glibc2.36"}
	kind := func(ask func(context.Context, backends.Backend, string) (string, error)) string {
		t.Helper()
		got, err := ask(t.Context(), i, "python")
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	first := kind(s.kind)
	i.reported = "3.13-cpython-313-x86_64-linux-gnu-glibc2.36"
	if got := kind(s.kind); got != first || i.asked != 1 {
		t.Errorf("after a moment: %s, asked %d times", got, i.asked)
	}
	second := kind(s.freshKind)
	if second == first || kind(s.kind) != second {
		t.Errorf("asked again: %s, after %s", second, first)
	}
	i.reported = "3.14-cpython-314-x86_64-linux-gnu-glibc2.36"
	time.Sleep(2 * rememberFor)
	if got := kind(s.kind); got == second {
		t.Errorf("after a while it still is %s", got)
	}
}

// TestKindReportedByTheImage runs the scripts with this host's interpreters, and with a C library that it has not.
func TestKindReportedByTheImage(t *testing.T) {
	musl := filepath.Join(t.TempDir(), "ld-musl-x86_64.so.1")
	if err := os.WriteFile(musl, []byte("#!/bin/sh\nprintf 'musl libc (x86_64)\\nVersion 1.2.5\\nDynamic Program Loader\\n' >&2; exit 1\n"),
		0o755); err != nil {
		t.Fatal(err)
	}
	const noGlibc = "import os, glob\ndef no(_): raise ValueError\nos.confstr = no\nglob.glob = lambda p: "
	tests := []struct {
		name, want string
		args       []string
	}{
		{"python", "glibc2.", []string{"python3", "-I", "-S", "-c", pythonKind}},
		{"python with musl", "-musl1.2.5\n", []string{"python3", "-I", "-S", "-c", noGlibc + "['" + musl + "']\n" + pythonKind}},
		{"python with another", "-libc\n", []string{"python3", "-I", "-S", "-c", noGlibc + "[]\n" + pythonKind}},
		{"node", "-glibc2.", []string{"node", "-e", nodeKind}},
		{"node with musl", "-musl1.2.5\n", []string{"node", "-e",
			"process.report.getReport = () => ({ header: {} }); require('fs').readdirSync = () => ['x', 'ld-musl-x86_64.so.1']\n" +
				"const p = require('child_process'), spawn = p.spawnSync; p.spawnSync = () => spawn('" + musl + "')\n" + nodeKind}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			hosttest.Program(t, tt.args[0])
			out, err := exec.Command(tt.args[0], tt.args[1:]...).CombinedOutput()
			if err != nil || !strings.Contains(string(out), tt.want) || strings.Count(string(out), "\n") != 1 {
				t.Errorf("got %s %v, want %q", out, err, tt.want)
			}
		})
	}
}

// TestNotInImage: an image without a package manager is told from a host without one.
func TestNotInImage(t *testing.T) {
	s := openStore(t)
	t.Setenv("PATH", "")
	for language, program := range map[string]string{"python": "pip", "node": "npm"} {
		var refusal *backends.Refusal
		if err := missingManager("docker", language); !errors.As(err, &refusal) ||
			!strings.Contains(refusal.Reason, "the image of docker for "+language+" lacks "+program) ||
			!strings.Contains(refusal.Remedy.String(), "sandboxmcp image build "+language) {
			t.Errorf("%s: got %v", language, err)
		}
		if _, err := s.readConfiguration(t.Context(), language, ""); err == nil ||
			!strings.Contains(err.Error(), program+" is missing on this host") {
			t.Errorf("%s: got %v", language, err)
		}
	}
}
