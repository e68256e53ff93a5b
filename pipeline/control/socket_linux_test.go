package control

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
)

func TestPrivate(t *testing.T) {
	top := t.TempDir()
	dir := filepath.Join(top, "run", "sandboxmcp")
	must(t, os.MkdirAll(dir, 0o777))
	must(t, os.Chmod(dir, 0o777))
	l := serveIn(t, dir, Config{}, patient)
	for path, want := range map[string]fs.FileMode{dir: fs.ModeDir | 0o700, l.socket.path: fs.ModeSocket | 0o600} {
		if info, err := os.Lstat(path); err != nil || info.Mode() != want {
			t.Errorf("%s: mode %v, want %v", path, info.Mode(), want)
		}
	}
	link := filepath.Join(top, "link")
	must(t, os.Symlink(dir, link))
	file := filepath.Join(top, "file")
	must(t, os.WriteFile(file, nil, 0o600))
	bad := []string{link, file}
	if os.Geteuid() == 0 {
		other := filepath.Join(top, "other")
		must(t, os.Mkdir(other, 0o700))
		must(t, os.Chown(other, 65534, 65534))
		bad = append(bad, other)
	}
	for _, dir := range bad {
		if l, err := Listen(dir, New(Config{})); err == nil {
			l.Close()
			t.Errorf("it listens in %s", dir)
		}
		if _, err := Dial(t.Context(), dir, ""); err == nil || errors.Is(err, ErrNone) {
			t.Errorf("it looks for servers in %s: %v", dir, err)
		}
	}
}

// TestDeadServers: a server that starts removes the files of killed servers, and none of living ones.
func TestDeadServers(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "sandboxmcp")
	serveIn(t, dir, Config{Server: Server{PID: 9}}, patient)
	for _, name := range []string{"7.sock", "8-2.sock"} {
		dead, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, name), Net: "unix"})
		must(t, err)
		dead.SetUnlinkOnClose(false)
		must(t, dead.Close())
	}
	must(t, os.WriteFile(filepath.Join(dir, "file.sock"), nil, 0o600))
	serveIn(t, dir, Config{Server: Server{PID: 10}}, patient)
	left, err := os.ReadDir(dir)
	must(t, err)
	var names []string
	for _, e := range left {
		names = append(names, e.Name())
	}
	if got := strings.Join(names, " "); got != "10.sock 9.sock file.sock" {
		t.Errorf("left are %s", got)
	}
}

func TestLongPath(t *testing.T) {
	dir := filepath.Join(t.TempDir(), strings.Repeat("long", 40), "sandboxmcp")
	l := serveIn(t, dir, Config{Server: Server{PID: 9}}, patient)
	if c := connect(t, l); c.server.PID != 9 {
		t.Errorf("got %+v", c.server)
	}
	must(t, l.Close())
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("left are %v, %v", left, err)
	}
}

// Another user is refused even where the directory and the socket let everybody in.
func TestOtherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		hosttest.SkipMissing(t, "root", "to be somebody else")
	}
	dir := directory(t)
	var response bytes.Buffer
	l := serveIn(t, dir, Config{Log: slog.New(slog.NewTextHandler(&response, nil))}, patient)
	name := strings.TrimSuffix(filepath.Base(l.socket.path), socketSuffix)
	copied := forAll(t)
	as := func(uid uint32) string {
		c := child(t, "connect", dir)
		c.Path, c.Dir = copied, "/"
		c.Env = append(c.Env, "CONTROL_TEST_NAME="+name)
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
		out, err := c.Output()
		must(t, err)
		return string(out)
	}
	if got := as(65534); !strings.Contains(got, "permission denied") {
		t.Errorf("the directory lets another user in: %s", got)
	}
	letIn(t, dir)
	must(t, os.Chmod(l.socket.path, 0o666))
	if got := as(65534); !strings.HasPrefix(got, "0 ") || strings.Contains(got, "<nil>") || strings.Contains(got, "permission denied") {
		t.Errorf("another user: %s", got)
	}
	if got := as(0); got != fmt.Sprintf("%d <nil>\n", os.Getpid()) {
		t.Errorf("the same user: %s", got)
	}
	must(t, l.Close())
	if !strings.Contains(response.String(), "another user was refused") || !strings.Contains(response.String(), "uid=65534") {
		t.Errorf("the log has %s", response.String())
	}
	for uid, want := range map[int]bool{0: true, os.Geteuid(): true, 65534: false, -1: false} {
		if isAllowedUser(uid) != want {
			t.Errorf("uid %d: welcome %v", uid, !want)
		}
	}
}

// forAll is a copy of this test that everybody can run.
func forAll(t *testing.T) string {
	exe, err := os.ReadFile(os.Args[0])
	must(t, err)
	copied := filepath.Join(t.TempDir(), "control.test")
	must(t, os.WriteFile(copied, exe, 0o755))
	letIn(t, filepath.Dir(copied))
	return copied
}

// letIn lets everybody enter a temporary directory.
func letIn(t *testing.T, dir string) {
	for ; dir != filepath.Clean(os.TempDir()) && dir != "/"; dir = filepath.Dir(dir) {
		must(t, os.Chmod(dir, 0o755))
	}
}

func TestDir(t *testing.T) {
	runtime, state := t.TempDir(), "/state"
	file := filepath.Join(runtime, "file")
	must(t, os.WriteFile(file, nil, 0o600))
	elsewhere := "/state/run/sandboxmcp"
	tests := map[string]string{runtime: filepath.Join(runtime, "sandboxmcp"), "": elsewhere, "relative": elsewhere, file: elsewhere,
		"/nowhere": elsewhere}
	if os.Geteuid() == 0 {
		other := filepath.Join(runtime, "other")
		must(t, os.Mkdir(other, 0o755))
		must(t, os.Chown(other, 65534, 65534))
		tests[other] = elsewhere
	}
	for dir, want := range tests {
		if got := Dir(dir, state); got != want {
			t.Errorf("%q: got %s, want %s", dir, got, want)
		}
	}
}
