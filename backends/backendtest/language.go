//go:build linux

package backendtest

import (
	"encoding/hex"
	"errors"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sandboxmcp/sandboxmcp/backends"
)

// testProbe: a probe agrees with the report of a sandbox.
func testProbe(t *testing.T, b *bench) {
	p, err := b.backend.Probe(t.Context(), backends.Spec{Profile: b.o.Profile, Require: b.o.Layers})
	if err != nil {
		t.Fatal(err)
	}
	if p.Backend != b.backend.Name() || p.Backend == "" {
		t.Errorf("probe is of backend %q, want %q", p.Backend, b.backend.Name())
	}
	in := map[string]bool{}
	for _, l := range p.Layers {
		in[l.Name] = l.InForce
		if !l.InForce && l.Detail == "" {
			t.Errorf("layer %s is not to be had, and nothing says why", l.Name)
		}
	}
	for _, name := range b.o.Layers {
		if !in[name] {
			t.Errorf("layer %s is promised, and the probe says that it can't be had", name)
		}
	}
	for _, r := range p.Runtimes {
		t.Logf("%s %s %s: %s", r.Name, r.Version, r.Path, r.Why)
		if (r.Path == "" || r.Version == "") && r.Why.IsZero() {
			t.Errorf("runtime %s has no reason", r.Name)
		}
	}
	for _, name := range []string{"python", "node", "shell"} {
		if !slices.ContainsFunc(p.Runtimes, func(r backends.Runtime) bool { return r.Name == name }) {
			t.Errorf("runtime %s is not mentioned", name)
		}
	}
}

func testLanguage(t *testing.T, b *bench) {
	hello := []struct{ name, language, flag, code string }{
		{"python", "python", "-c", "print('hello ünï ☃ 😀')"},
		{"node", "node", "-e", "console.log('hello ünï ☃ 😀')"},
		{"bash", "shell", "-c", "echo 'hello ünï ☃ 😀'"},
	}
	for _, c := range hello {
		b.runParallel(t, c.name, func(t *testing.T) {
			o := mustExec(t, b.start(t, b.spec(c.language)), c.name, c.flag, c.code).mustSucceed(t)
			if o.Stdout != "hello ünï ☃ 😀\n" || o.Stderr != "" {
				t.Errorf("stdout %q, stderr %q", o.Stdout, o.Stderr)
			}
			if o.Wall <= 0 {
				t.Errorf("wall time %v", o.Wall)
			}
			if limit := time.Duration(runtime.NumCPU()) * (o.Wall + time.Second); o.CPU > limit {
				t.Errorf("processor time %v in %v: it is somebody else's", o.CPU, o.Wall)
			}
		})
	}
	b.runParallel(t, "argv", func(t *testing.T) { testArgv(t, b) })
	b.runParallel(t, "environment", func(t *testing.T) { testEnv(t, b) })
	for language, program := range map[string]string{"python": "surroundings.py", "node": "surroundings.js", "shell": "surroundings.sh"} {
		b.runParallel(t, "surroundings of "+language, func(t *testing.T) {
			b.needLayer(t, backends.LayerMount)
			b.runProgramFile(t, b.spec(language), program, b.surroundings()...).mustSucceed(t)
		})
	}
	b.runParallel(t, "commands", func(t *testing.T) { testCommands(t, b) })
}

// testArgv: arguments arrive unchanged, byte for byte.
func testArgv(t *testing.T, b *bench) {
	args := []string{"", " ", "a b", "-x", "--", "new\nline", "ünï ☃", "\xff\xfe not UTF-8", `"'\$(id)`, "*", strings.Repeat("x", 20_000)}
	o := b.python(t, "import sys, os; print(*[os.fsencode(a).hex() for a in sys.argv[1:]], sep=',')", args...).mustSucceed(t)
	var want []string
	for _, a := range args {
		want = append(want, hex.EncodeToString([]byte(a)))
	}
	if o.Stdout != strings.Join(want, ",")+"\n" {
		t.Errorf("argv changed: %.300s", o.Stdout)
	}
}

// testEnv: the command's variables arrive and override the sandbox's own.
func testEnv(t *testing.T, b *bench) {
	s := b.start(t, b.spec("python"))
	cmd := backends.Command{
		Args: []string{"python", "-c", "import os; print([os.environb.get(k) for k in (b'A', b'MULTI', b'EMPTY', b'BYTES', b'HOME', b'LANG')])"},
		Env:  []string{"A=1", "MULTI=x\ny=z", "EMPTY=", "BYTES=\xff", "HOME=/tmp", "LANG=C"},
	}
	o, err := tryExec(t, s, cmd, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := "[b'1', b'x\\ny=z', b'', b'\\xff', b'/tmp', b'C']\n"
	if d := cmp.Diff(want, o.mustSucceed(t).Stdout); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
}

// testCommands: programs other than runtimes, working directories, and files that can't be executed.
func testCommands(t *testing.T, b *bench) {
	spec := b.spec("shell")
	spec.Keep = true
	s := b.start(t, spec)
	if err := s.Files().Put("bin/tool.sh", 0o755, strings.NewReader("#!/bin/sh\necho tool \"$1\" in $PWD\n")); err != nil {
		t.Fatal(err)
	}
	good := []struct {
		name string
		cmd  backends.Command
		want string
	}{
		{"on PATH", backends.Command{Args: []string{"uname", "-s"}}, "Linux\n"},
		{"relative", backends.Command{Args: []string{"bin/tool.sh", "1"}}, "tool 1 in /workspace\n"},
		{"absolute", backends.Command{Args: []string{"/workspace/bin/tool.sh", "2"}}, "tool 2 in /workspace\n"},
		{"in a directory", backends.Command{Args: []string{"./tool.sh", "3"}, Dir: "/workspace/bin"}, "tool 3 in /workspace/bin\n"},
		{"in /tmp", backends.Command{Args: []string{"pwd"}, Dir: "/tmp"}, "/tmp\n"},
	}
	for _, c := range good {
		if !b.promises(backends.LayerMount) {
			break // the workspace has another name there
		}
		if o, err := tryExec(t, s, c.cmd, nil); err != nil || o.Stdout != c.want {
			t.Errorf("%s: %q, want %q, stderr %q, %v", c.name, o.Stdout, c.want, o.Stderr, err)
		}
	}
	// The result must be an error or a failed program, never a hang; and the sandbox keeps working.
	for name, cmd := range map[string]backends.Command{
		"no such program":     {Args: []string{"no-such-program-anywhere"}},
		"no such path":        {Args: []string{"/no/such/program"}},
		"a directory":         {Args: []string{"/tmp"}},
		"not executable":      {Args: []string{"/etc/passwd"}},
		"no such directory":   {Args: []string{"true"}, Dir: "/no/such/directory"},
		"a file as directory": {Args: []string{"true"}, Dir: "/etc/passwd"},
		"NUL in argv":         {Args: []string{"echo", "a\x00b"}},
		"NUL in env":          {Args: []string{"true"}, Env: []string{"A=\x00"}},
		"nothing":             {},
		"empty name":          {Args: []string{""}},
		"argument too long":   {Args: []string{"echo", strings.Repeat("x", 3<<20)}},
	} {
		o, err := tryExec(t, s, cmd, nil)
		if err == nil && (o.ExitCode == 0 || o.Ended == backends.EndedOK) {
			t.Errorf("%s: ended %s, exit code %d, stdout %q", name, o.Ended, o.ExitCode, o.Stdout)
		}
		// A program that does not exist is distinguished from other errors.
		found, want := map[string]bool{"no such program": false, "no such path": false, "a directory": true, "not executable": true}[name]
		no, is := errors.AsType[*backends.NoProgram](err)
		if is != want || is && (no.Found != found || no.Name != cmd.Args[0]) {
			t.Errorf("%s: %T %v, a missing program: %v, and found: %v", name, err, err, want, found)
		}
	}
	if o := mustExec(t, s, "echo", "alive"); o.Stdout != "alive\n" {
		t.Errorf("afterwards: %q %q", o.Stdout, o.Stderr)
	}
}
