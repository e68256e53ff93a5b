package door

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/audit/statefile"
)

// TestMain is a server that systemd has started where childEnv is set.
func TestMain(m *testing.M) {
	if address := os.Getenv(childEnv); address != "" {
		os.Exit(child(address))
	}
	os.Exit(m.Run())
}

func TestSocketFile(t *testing.T) {
	group := fmt.Sprint(os.Getgid())
	for name, tt := range map[string]struct {
		make  func(path string) error
		group string
		want  string // in the error
		mode  os.FileMode
	}{
		"new":           {func(string) error { return nil }, "", "", 0o600},
		"group":         {func(string) error { return nil }, group, "", 0o660},
		"unknown group": {func(string) error { return nil }, "no-such-group", "unknown group", 0},
		"dead": {func(path string) error {
			l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path})
			if err == nil {
				l.SetUnlinkOnClose(false)
				err = l.Close()
			}
			return err
		}, "", "", 0o600},
		"alive": {func(path string) error {
			l, err := net.Listen("unix", path)
			if err == nil {
				t.Cleanup(func() { l.Close() })
			}
			return err
		}, "", "another server listens", 0},
		"file":                  {func(path string) error { return os.WriteFile(path, nil, 0o600) }, "", "is not a socket", 0},
		"link":                  {func(path string) error { return os.Symlink("elsewhere", path) }, "", "is not a socket", 0},
		"FIFO":                  {func(path string) error { return syscall.Mkfifo(path, 0o600) }, "", "is not a socket", 0},
		"directory of all":      {func(path string) error { return os.Chmod(filepath.Dir(path), 0o777) }, "", "chmod go-w", 0},
		"directory of a group":  {func(path string) error { return os.Chmod(filepath.Dir(path), 0o770) }, "", "chmod go-w", 0},
		"sticky directory":      {func(path string) error { return os.Chmod(filepath.Dir(path), 0o777|os.ModeSticky) }, "", "chmod go-w", 0},
		"no directory":          {func(path string) error { return os.Remove(filepath.Dir(path)) }, "", "no such file", 0},
		"directory that serves": {func(path string) error { return os.Chmod(filepath.Dir(path), 0o755) }, "", "", 0o600},
	} {
		path := filepath.Join(t.TempDir(), "d", "s")
		if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := tt.make(path); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		before, _ := os.Lstat(path)
		d, err := Listen(t.Context(), Config{Address: unixPrefix + path, Group: tt.group})
		after, _ := os.Lstat(path)
		if tt.want != "" {
			if err == nil || !strings.Contains(err.Error(), tt.want) || before != nil && !os.SameFile(before, after) {
				t.Errorf("%s: got %v, want %s; the file was %v and is %v", name, err, tt.want, before, after)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if after.Mode().Perm() != tt.mode || fmt.Sprint(after.Sys().(*syscall.Stat_t).Gid) != group || d.Address() != unixPrefix+path {
			t.Errorf("%s: got %v at %s", name, after.Mode(), d.Address())
		}
		if status, _, _ := request(t, d, "GET", "/healthz"); status != 200 {
			t.Errorf("%s: got %d", name, status)
		}
		if err := d.Drain(context.Background()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := os.Lstat(path); err == nil {
			t.Errorf("%s: the file is there yet", name)
		}
	}
	if d, err := Listen(t.Context(), Config{Address: unixPrefix + "/" + strings.Repeat("x", maxPath)}); err == nil ||
		!strings.Contains(err.Error(), "107 bytes") {
		t.Errorf("got %v, %v", d, err)
	}
}

// A file that took the socket's place is not removed.
func TestSocketReplaced(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	d, err := Listen(t.Context(), Config{Address: unixPrefix + path})
	if err != nil {
		t.Fatal(err)
	}
	other := path + "2"
	write(t, other, nil)
	if err := os.Rename(other, path); err != nil {
		t.Fatal(err)
	}
	if err := d.Drain(context.Background()); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(path); err != nil {
		t.Error(err)
	}
}

// Of servers that start at the same time one gets the place of a dead one.
func TestSocketRace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l := must(net.ListenUnix("unix", &net.UnixAddr{Name: path}))
	l.SetUnlinkOnClose(false)
	l.Close()
	type result struct {
		d   *Door
		err error
	}
	results := make(chan result)
	for range 8 {
		go func() {
			d, err := Listen(context.Background(), Config{Address: unixPrefix + path})
			results <- result{d, err}
		}()
	}
	var doors []*Door
	for range 8 {
		if r := <-results; r.err == nil {
			doors = append(doors, r.d)
		}
	}
	if len(doors) != 1 {
		t.Errorf("%d servers listen", len(doors))
	}
	dir := must(os.Open(filepath.Dir(path)))
	defer dir.Close()
	if err := statefile.TryLock(dir, false); err != nil {
		t.Fatal(err)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if d, err := Listen(over, Config{Address: unixPrefix + path + "2"}); !errors.Is(err, statefile.ErrLocked) {
		t.Errorf("while another server starts: got %v, %v", d, err)
	}
	for _, d := range doors {
		if err := d.Drain(context.Background()); err != nil {
			t.Error(err)
		}
	}
}

const childEnv = "DOOR_TEST_ADDRESS"

// child serves at an address until stdin ends.
func child(address string) int {
	if os.Getenv("LISTEN_FDS") != "" {
		os.Setenv("LISTEN_PID", strconv.Itoa(os.Getpid()))
	}
	d, err := Listen(context.Background(), Config{Address: address})
	if err != nil {
		fmt.Println("failed:", err)
		return 1
	}
	fmt.Println(d.Address(), os.Getenv("LISTEN_FDS"))
	_, _ = io.Copy(io.Discard, os.Stdin)
	if err := d.Drain(context.Background()); err != nil {
		fmt.Println("failed:", err)
	}
	return 0
}

func TestSystemd(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	file := func(l net.Listener) *os.File {
		t.Cleanup(func() { l.Close() })
		return must(l.(interface{ File() (*os.File, error) }).File())
	}
	tcp, onUnix := must(net.Listen("tcp", "127.0.0.1:0")), must(net.Listen("unix", path))
	other := must(os.Open(os.DevNull))
	for name, tt := range map[string]struct {
		files []*os.File
		want  string
	}{
		"TCP":       {[]*os.File{file(tcp)}, "http://" + tcp.Addr().String()},
		"Unix":      {[]*os.File{file(onUnix)}, "unix:" + path},
		"exposed":   {[]*os.File{file(must(net.Listen("tcp", "0.0.0.0:0")))}, "failed: listen at \"systemd\": other machines can reach"},
		"none":      {nil, "passed 0 sockets"},
		"two":       {[]*os.File{file(tcp), file(onUnix)}, "passed 2 sockets"},
		"no socket": {[]*os.File{other}, "passed 1 sockets"},
	} {
		cmd := exec.Command(must(os.Executable()))
		cmd.Env, cmd.ExtraFiles = append(os.Environ(), childEnv+"=systemd"), tt.files
		if len(tt.files) > 0 {
			cmd.Env = append(cmd.Env, fmt.Sprint("LISTEN_FDS=", len(tt.files)))
		}
		stdin := must(cmd.StdinPipe())
		stdout := must(cmd.StdoutPipe())
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		line := make([]byte, 1000)
		n, _ := stdout.Read(line)
		got := strings.TrimSpace(string(line[:n]))
		if !strings.Contains(got, tt.want) {
			t.Errorf("%s: got %s, want %s", name, got, tt.want)
		}
		if d := (&Door{address: got, onUnix: name == "Unix"}); name == "TCP" || name == "Unix" {
			if status, body, _ := request(t, d, "GET", "/healthz"); status != 200 {
				t.Errorf("%s: got %d %s", name, status, body)
			}
		}
		stdin.Close()
		rest, _ := io.ReadAll(stdout)
		if err := cmd.Wait(); len(rest) > 0 || (err != nil) != strings.HasPrefix(got, "failed") {
			t.Errorf("%s: %s, %v", name, rest, err)
		}
	}
	if _, err := os.Lstat(path); err != nil {
		t.Errorf("systemd's socket: %v", err)
	}
}
