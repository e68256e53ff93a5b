//go:build linux

package backendtest

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/sandboxmcp/sandboxmcp/backends"
)

// testSessions: with Keep, processes and files live from one command to the next, and end with the sandbox.
func testSessions(t *testing.T, b *bench) {
	spec := b.spec("python")
	spec.Keep = true
	b.runParallel(t, "lives on", func(t *testing.T) {
		s := b.start(t, spec)
		putPrograms(t, s, "descendants.py")
		word := ulid.Make().String()
		o := mustExec(t, s, "python", "descendants.py", word, "leave").mustSucceed(t)
		if !strings.Contains(o.Stdout, "ready") || len(processesWith(word)) == 0 {
			t.Fatalf("nothing was left running: %q %q", o.Stdout, o.Stderr)
		}
		if b.promises(backends.LayerPID) {
			o = mustExec(t, s, "bash", "-c", "cat /proc/[0-9]*/cmdline | tr '\\0' '\\n' | grep -c "+word).mustSucceed(t)
			if strings.TrimSpace(o.Stdout) == "0" {
				t.Error("the second command does not see what the first left")
			}
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		checkGone(t, outcome{Stdout: "descendants ready"}, word)
	})
	b.runParallel(t, "files stay", func(t *testing.T) {
		b.needLayer(t, backends.LayerMount)
		s := b.start(t, spec)
		mustExec(t, s, "bash", "-c", "echo one >file; echo two >/tmp/file; echo three >/dev/shm/file").mustSucceed(t)
		putText(t, s, "put", "four")
		if o := mustExec(t, s, "bash", "-c", "cat file /tmp/file /dev/shm/file put").mustSucceed(t); o.Stdout != "one\ntwo\nthree\nfour" {
			t.Errorf("got %q", o.Stdout)
		}
	})
	b.runParallel(t, "home", func(t *testing.T) {
		b.needLayer(t, backends.LayerMount)
		spec := b.spec("shell")
		spec.Keep, spec.Home, spec.Guest = true, "/home/user", true
		spec.Limits.Wall = 300 * time.Millisecond
		s := b.start(t, spec)
		o, err := tryExec(t, s, backends.Command{Endless: true, Args: []string{"bash", "-c",
			"pwd; echo $HOME $USER; echo one >file; cat ~/file; chmod +x file && ls -d /workspace; test -x " + backends.GuestPath +
				" && echo shown; sleep 1; echo after its time"}}, nil)
		want := "/home/user\n/home/user user\none\n/workspace\nshown\nafter its time\n"
		if err != nil || o.Ended != backends.EndedOK || o.Stdout != want || o.Contained.PID < 2 {
			t.Errorf("got %q, %s, %q, %v", o.Stdout, o.Ended, o.Stderr, err)
		}
		for _, home := range []string{"/", "/home", "/home/a/b", "/home/..", "/home/A", "/tmp/x"} {
			spec.Home = home
			if b.startRefused(t, spec) == nil {
				t.Errorf("a sandbox has its home directory at %s", home)
			}
		}
	})
	b.runParallel(t, "after each end", func(t *testing.T) {
		// A session outlives every end of its commands.
		s := b.start(t, spec)
		for _, c := range []struct{ code, want string }{
			{"import sys; sys.exit(3)", backends.EndedExit},
			{"import os; os.kill(os.getpid(), 9)", backends.EndedSignal},
			{"import os, time\nif os.fork() == 0: time.sleep(100)\nos.kill(-1, 15)", backends.EndedOK},
			{"print(1)", backends.EndedOK},
		} {
			if strings.Contains(c.code, "kill(-1") && !slices.Contains(b.o.Layers, backends.LayerPID) {
				continue // it would kill processes of the tests' user
			}
			o, err := tryExec(t, s, backends.Command{Args: []string{"python", "-c", c.code}}, nil)
			if err != nil || o.Ended != c.want {
				t.Errorf("%s: ended %s %s, %v; want %s", c.code, o.Ended, o.Signal, err, c.want)
			}
		}
	})
	b.runParallel(t, "after a timeout", func(t *testing.T) {
		spec := spec
		for spec.Limits.Wall = 500 * time.Millisecond; ; spec.Limits.Wall *= 2 {
			s := b.start(t, spec)
			for _, script := range []string{"sleep 100", "while :; do :; done"} {
				if o := mustExec(t, s, "bash", "-c", script); o.Ended != backends.EndedTimeout {
					t.Errorf("%s: ended %s %s", script, o.Ended, o.Signal)
				}
			}
			o := mustExec(t, s, "bash", "-c", "echo alive")
			if o.Ended == backends.EndedTimeout {
				continue // this machine is slow
			}
			if o.mustSucceed(t).Stdout != "alive\n" {
				t.Errorf("got %q", o.Stdout)
			}
			return
		}
	})
	b.runParallel(t, "out of memory", func(t *testing.T) {
		// The command may end the session, but then the next command reports that.
		s := b.start(t, spec)
		o := mustExec(t, s, "python", "-c", "a = [bytearray(b'x' * (8 << 20)) for _ in range(100)]")
		if o.Ended != backends.EndedOOM || o.Limit != "ram" {
			t.Errorf("ended %s %s", o.Ended, o.Limit)
		}
		if o, err := tryExec(t, s, backends.Command{Args: []string{"python", "-c", "print(1)"}}, nil); err == nil && o.Stdout != "1\n" {
			t.Errorf("afterwards: ended %s, %q", o.Ended, o.Stdout)
		}
	})
	b.runParallel(t, "the limits are the session's", func(t *testing.T) {
		b.needLayer(t, backends.LayerMount)
		s := b.start(t, spec)
		putPrograms(t, s, "bombs.py")
		mustExec(t, s, "python", "bombs.py", "disk_workspace", "40000000").mustSucceed(t)
		o := mustExec(t, s, "python", "bombs.py", "disk_tmp", "60000000")
		if b.o.OwnDisks {
			checkOverDisk(t, o, bombReport{Made: 40_000_000}, spec.Limits.Disk)
			return
		}
		if !strings.Contains(o.mustSucceed(t).Stdout, "ENOSPC") {
			t.Errorf("a second command got a disk of its own: %.200s", o.Stdout)
		}
	})
	b.runParallel(t, "two at once", func(t *testing.T) {
		s := b.start(t, spec)
		var out lockedBuffer
		done := make(chan error)
		go func() {
			_, err := s.Exec(t.Context(), backends.Command{Args: []string{"bash", "-c",
				"echo begun; until [ -e flag ]; do sleep 0.05; done; echo seen"}}, backends.Streams{Stdout: &out})
			done <- err
		}()
		out.waitFor(t, "begun")
		mustExec(t, s, "touch", "flag").mustSucceed(t)
		if err := <-done; err != nil || out.String() != "begun\nseen\n" {
			t.Errorf("the first command got %q, %v", out.String(), err)
		}
	})
	b.runParallel(t, "after Close", func(t *testing.T) {
		s := b.start(t, spec)
		for range 3 {
			if err := s.Close(); err != nil {
				t.Errorf("close: %v", err)
			}
		}
		if _, err := tryExec(t, s, backends.Command{Args: []string{"true"}}, nil); err == nil {
			t.Error("a closed sandbox ran a command")
		}
		if err := s.Files().Put("x", 0o644, strings.NewReader("x")); err == nil {
			t.Error("a closed sandbox took a file")
		}
		if _, err := s.Files().Each(t.Context(), func(backends.File) error { return nil }); err == nil {
			t.Error("a closed sandbox listed files")
		}
	})
}
