package guest_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/guest"
	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
	"github.com/sandboxmcp/sandboxmcp/backends/process"
)

const home = "/home/user"

// start returns a sandbox and its agent.
func start(t *testing.T) (backends.Sandbox, *guest.Client) {
	t.Helper()
	b := process.New(process.Config{StateDir: t.TempDir()})
	t.Cleanup(func() { b.Close() })
	s, err := b.Start(t.Context(), backends.Spec{ID: "guest", Language: "shell", Keep: true, Home: home, Guest: true,
		Require: backends.ContainmentLayers})
	if refused, is := errors.AsType[*backends.Refusal](err); is {
		hosttest.SkipMissing(t, "sandbox", refused.Error())
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	c, err := guest.Start(t.Context(), s, guest.NewListSlots())
	if err != nil {
		t.Fatal(err)
	}
	return s, c
}

// shell runs a script and returns its output.
func shell(t *testing.T, s backends.Sandbox, script string) string {
	t.Helper()
	var out bytes.Buffer
	r, err := s.Exec(t.Context(), backends.Command{Args: []string{"bash", "-c", "exec 2>&1\n" + script}}, backends.Streams{Stdout: &out})
	if err != nil || r.ExitCode != 0 {
		t.Fatalf("%s: %v, %+v: %s", script, err, r.ExitCode, out.String())
	}
	return strings.TrimSpace(out.String())
}

func TestHome(t *testing.T) {
	s, c := start(t)
	if got, want := shell(t, s, "whoami; pwd; echo $HOME $USER; id -un; touch a; ls -A /workspace; stat -c %U:%G a"),
		"user\n/home/user\n/home/user user\nuser\na\nuser:user"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if e, err := c.Stat(t.Context(), home+"/a"); err != nil || e.Kind != guest.File || e.Owner != "user" || e.Text != "-rw-r--r--" {
		t.Errorf("got %+v, %v", e, err)
	}
}

func TestFiles(t *testing.T) {
	s, c := start(t)
	ctx := t.Context()
	big := make([]byte, 5<<20)
	rand.Read(big)
	for _, whole := range []bool{false, true} {
		name := home + "/a/b/c.bin"
		e, err := c.Write(ctx, guest.FileWrite{Path: name, Whole: whole, Metadata: map[string]string{"by": "me"}}, bytes.NewReader(big))
		if err != nil || e.Size != int64(len(big)) || e.Metadata["by"] != "me" {
			t.Fatalf("got %+v, %v", e, err)
		}
		e, r, err := c.Read(ctx, name)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(r)
		r.Close()
		if err != nil || !bytes.Equal(got, big) || e.Name != "c.bin" {
			t.Errorf("read %d bytes, %v", len(got), err)
		}
	}
	if e, err := c.Write(ctx, guest.FileWrite{Path: home + "/a/b/c.bin"}, strings.NewReader("")); err != nil || e.Metadata != nil ||
		e.Size != 0 {
		t.Errorf("got %+v, %v", e, err)
	}
	if _, err := c.Move(ctx, home+"/a/b", home+"/x/y"); err != nil {
		t.Error(err)
	}
	shell(t, s, "mkdir -p t/d; echo 1 >t/d/f; chmod 700 t/d/f; ln -s f t/d/l; echo 2 >one; echo old >/tmp/one")
	for _, name := range []string{"t", "one"} {
		if _, err := c.Move(ctx, home+"/"+name, "/tmp/"+name); err != nil {
			t.Error(err)
		}
	}
	if got := shell(t, s, "cat /tmp/t/d/l /tmp/one; stat -c %a /tmp/t/d/f; ls -A /tmp; ls"); got != "1\n2\n700\none\nt\na\nx" {
		t.Errorf("got %q", got)
	}
	shell(t, s, "ln -s y/c.bin x/link; ln -s loop x/loop; mkfifo x/fifo")
	list, _, err := c.List(ctx, home, 2)
	var names []string
	for _, e := range list {
		names = append(names, e.Name+" "+e.Kind)
	}
	if got, want := strings.Join(names, ", "), "a dir, x dir, fifo other, link file, loop symlink, y dir"; err != nil || got != want {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
	for _, tt := range []struct {
		name   string
		call   func() error
		reason string
	}{
		{"stat nothing", func() error { _, err := c.Stat(ctx, home+"/none"); return err }, guest.NotFound},
		{"read a directory", func() error { _, _, err := c.Read(ctx, home); return err }, guest.IsDirectory},
		{"read a fifo", func() error { _, _, err := c.Read(ctx, home+"/x/fifo"); return err }, guest.Invalid},
		{"read a device", func() error { _, _, err := c.Read(ctx, "/dev/zero"); return err }, guest.Invalid},
		{"write a device", func() error {
			_, err := c.Write(ctx, guest.FileWrite{Path: "/dev/null"}, strings.NewReader("x"))
			return err
		}, guest.Invalid},
		{"write to the system", func() error {
			_, err := c.Write(ctx, guest.FileWrite{Path: "/usr/x"}, strings.NewReader("x"))
			return err
		}, guest.Denied},
		{"make a directory twice", func() error { _, err := c.Mkdir(ctx, home+"/x"); return err }, guest.Exists},
		{"list a file", func() error { _, _, err := c.List(ctx, home+"/x/y/c.bin", 1); return err }, guest.NotDirectory},
		{"list a loop", func() error { _, _, err := c.List(ctx, home+"/x/loop", 1); return err }, guest.Invalid},
		{"remove nothing", func() error { return c.Remove(ctx, home+"/none") }, ""},
		{"bad metadata", func() error {
			_, err := c.Write(ctx, guest.FileWrite{Path: home + "/m", Metadata: map[string]string{"a": "\n"}}, strings.NewReader("x"))
			return err
		}, guest.Invalid},
		{"a closed port", func() error { _, err := c.Dial(ctx, 9); return err }, guest.NotFound},
	} {
		if err := tt.call(); guest.ReasonOf(err) != tt.reason || tt.reason == "" && err != nil {
			t.Errorf("%s: got %v, want %q", tt.name, err, tt.reason)
		}
	}
}

// TestHostFiles tries to make the agent open the host's files: by a link, by .. and by a link that is swapped all
// the time.
func TestHostFiles(t *testing.T) {
	s, c := start(t)
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("of the host"), 0o644); err != nil {
		t.Fatal(err)
	}
	shell(t, s, "ln -s "+secret+" link; ln -s / root; mkdir -p "+filepath.Dir(secret)+" 2>/dev/null || true")
	for _, path := range []string{secret, home + "/link", home + "/root" + secret, home + "/../.." + secret, "/proc/1/root" + secret,
		"/proc/self/root" + secret} {
		if _, r, err := c.Read(t.Context(), path); err == nil {
			got, _ := io.ReadAll(r)
			r.Close()
			t.Errorf("%s: read %q", path, got)
		}
	}
	swapping, stop := context.WithCancel(t.Context())
	swapped := make(chan struct{})
	go func() {
		defer close(swapped)
		s.Exec(swapping, backends.Command{Endless: true, Args: []string{"bash", "-c", "mkdir -p d; while :; do ln -sfn " + filepath.Dir(secret) +
			" d/s; rm d/s; mkdir d/s; rmdir d/s; done"}}, backends.Streams{})
	}()
	for range 300 {
		c.Write(t.Context(), guest.FileWrite{Path: home + "/d/s/secret", Whole: true}, strings.NewReader("changed"))
	}
	stop()
	<-swapped
	if got, _ := os.ReadFile(secret); string(got) != "of the host" {
		t.Errorf("the host's file holds %q", got)
	}
}

func TestWatch(t *testing.T) {
	s, c := start(t)
	shell(t, s, "mkdir -p w/sub")
	ctx, stop := context.WithCancel(t.Context())
	events, begun, ended := make(chan guest.Event, 100), make(chan func(context.Context) error, 1), make(chan error, 1)
	go func() {
		ended <- c.Watch(ctx, guest.Watch{Path: home + "/w", Recursive: true, Entries: true},
			func(caughtUp func(context.Context) error) error { begun <- caughtUp; return nil },
			func(e guest.Event) error {
				events <- e
				return nil
			})
	}()
	caughtUp := <-begun
	shell(t, s, "echo x > w/f; chmod 600 w/f; echo y > w/sub/g; mv w/f w/h; rm w/h; mkdir w/new")
	want := []string{"create f", "write f", "chmod f", "create sub/g", "write sub/g", "rename f", "create h", "remove h", "create new"}
	for len(want) > 0 {
		e := <-events
		if e.Op+" "+e.Name != want[0] {
			continue // a write may cause two events
		}
		if e.Name == "new" && (e.Entry == nil || e.Entry.Path != home+"/w/new") {
			t.Errorf("got %+v", e.Entry)
		}
		want = want[1:]
	}
	shell(t, s, "echo z > w/new/late")
	for e := range events {
		if e.Name == "new/late" && e.Op == guest.Written {
			break
		}
	}
	if _, err := c.Write(t.Context(), guest.FileWrite{Path: home + "/w/put", Mode: 0o644}, strings.NewReader("x")); err != nil ||
		caughtUp(t.Context()) != nil {
		t.Fatal(err)
	}
	ops := ""
	for len(events) > 0 {
		if e := <-events; e.Name == "put" {
			ops += e.Op + " "
		}
	}
	if ops != "create chmod write " {
		t.Errorf("a new file is told as %q", ops)
	}
	for range 100 {
		if _, err := c.Mkdir(t.Context(), home+"/w/now"); err != nil {
			t.Fatal(err)
		}
		if err := caughtUp(t.Context()); err != nil {
			t.Fatal(err)
		}
		notified := false
		for len(events) > 0 {
			e := <-events
			notified = notified || e.Op == guest.Created && e.Name == "now"
		}
		if !notified {
			t.Fatal("a change that was made before is not told")
		}
		if err := c.Remove(t.Context(), home+"/w/now"); err != nil {
			t.Fatal(err)
		}
	}
	stop()
	if err := caughtUp(t.Context()); err == nil {
		t.Error("what has ended catches up")
	}
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if err := c.Watch(t.Context(), guest.Watch{Path: home + "/none"}, nil, nil); guest.ReasonOf(err) != guest.NotFound {
		t.Errorf("got %v", err)
	}
}

// TestAgentEnds: no program can signal, trace or read the agent. An agent that has ended reports so, and another
// one can be started.
func TestAgentEnds(t *testing.T) {
	s, c := start(t)
	if _, err := c.Stat(t.Context(), home); err != nil { // waits for the agent's start
		t.Fatal(err)
	}
	found := shell(t, s, `for p in /proc/[0-9]*; do case $(tr '\0' ' ' < $p/cmdline) in */init\ guest*)
		echo found; kill -9 ${p#/proc/}; cat $p/environ; (: <$p/mem) && echo memory; readlink $p/fd/*;; esac; done 2>/dev/null; true`)
	if _, err := c.Stat(t.Context(), home); err != nil || found != "found" {
		t.Errorf("got %q, %v", found, err)
	}
	c.Close()
	if _, err := c.Stat(t.Context(), home); err == nil || !c.Ended() {
		t.Error("an agent that has ended answers")
	}
	again, err := guest.Start(t.Context(), s, guest.NewListSlots())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := again.Stat(t.Context(), home); err != nil {
		t.Error(err)
	}
}

func TestDial(t *testing.T) {
	s, c := start(t)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	go s.Exec(ctx, backends.Command{Endless: true, Args: []string{"python3", "-c",
		"import socket\ns=socket.create_server(('127.0.0.1',8000))\nwhile 1:\n  c,_=s.accept(); d=c.recv(99); c.sendall(d.upper()); c.close()"}},
		backends.Streams{})
	hosttest.Until(t, "an echo from a port", func() bool {
		conn, err := c.Dial(t.Context(), 8000)
		if err != nil {
			return false
		}
		defer conn.Close()
		io.WriteString(conn, "hello")
		got, _ := io.ReadAll(conn)
		return string(got) == "HELLO"
	})
}

// TestLongLists: the server holds a bounded number of long lists at a time, however many sandboxes send them, and
// short lists don't wait for them.
func TestLongLists(t *testing.T) {
	s, _ := start(t)
	places := guest.NewListSlots()
	c, err := guest.Start(t.Context(), s, places)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	shell(t, s, `mkdir few many; touch few/a; cd many; name=$(printf %0200d 0); for i in $(seq 4000); do : >$name$i; done`)
	list, release, err := c.List(t.Context(), home+"/many", 1)
	if err != nil || len(list) != 4000 || len(places) != 1 {
		t.Errorf("%d entries in %d places: %v", len(list), len(places), err)
	}
	if release(); len(places) != 0 {
		t.Error("its place is not given back")
	}
	for range cap(places) {
		places <- struct{}{}
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { _, _, err := c.List(ctx, home+"/many", 1); ended <- err }()
	if list, _, err := c.List(t.Context(), home+"/few", 1); err != nil || len(list) != 1 {
		t.Errorf("a short list: %v, %v", list, err)
	}
	select {
	case err := <-ended:
		t.Errorf("a long list without a place: %v", err)
	case <-time.After(100 * time.Millisecond):
	}
	cancel()
	if err := <-ended; err == nil {
		t.Error("it was given up, and came")
	}
}

// TestWatchBusy: a request for pending changes is answered while a program changes files without end, and many
// requests harm nobody.
func TestWatchBusy(t *testing.T) {
	s, c := start(t)
	shell(t, s, "mkdir w")
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	begun, ended := make(chan func(context.Context) error, 1), make(chan error, 1)
	var events atomic.Int64
	go func() {
		ended <- c.Watch(ctx, guest.Watch{Path: home + "/w", Entries: true},
			func(caughtUp func(context.Context) error) error { begun <- caughtUp; return nil },
			func(guest.Event) error { events.Add(1); return nil })
	}()
	caughtUp := <-begun
	var busy sync.WaitGroup
	for range 2 {
		busy.Go(func() {
			s.Exec(ctx, backends.Command{Endless: true, Args: []string{"perl", "-e",
				`while (1) { for (1 .. 50) { open F, ">", "w/$$-$_"; chmod 0600, "w/$$-$_" } }`}}, backends.Streams{})
		})
	}
	hosttest.Until(t, "there are changes", func() bool { return events.Load() > 0 })
	for range 5 {
		began, before := time.Now(), events.Load()
		if err := caughtUp(t.Context()); err != nil {
			t.Fatal(err)
		}
		t.Logf("answered after %v and %d events", time.Since(began), events.Load()-before)
	}
	var asking sync.WaitGroup
	for range 2000 {
		asking.Go(func() {
			if err := caughtUp(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	asking.Wait()
	stop()
	busy.Wait()
	<-ended
}

// TestLongPaths: a path longer than any file's is the caller's mistake, and costs the agent nothing.
func TestLongPaths(t *testing.T) {
	s, c := start(t)
	shell(t, s, "ln -s loop loop")
	long := "/" + strings.Repeat("a", 15<<20)
	_, stat := c.Stat(t.Context(), long)
	_, move := c.Move(t.Context(), home+"/a", strings.Repeat("/", 40<<10)) // each slash takes three characters in a query
	_, most := c.Stat(t.Context(), "/"+strings.Repeat("a", 60<<10-16))
	_, _, loop := c.Read(t.Context(), home+"/loop")
	for what, err := range map[string]error{"stat": stat, "move": move, "the most": most, "a loop": loop} {
		if guest.ReasonOf(err) != guest.Invalid {
			t.Errorf("%s: got %v", what, err)
		}
	}
}
