package control

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

func TestDial(t *testing.T) {
	t.Parallel() // it mostly waits for a server that hangs
	dir := directory(t)
	dialed := func(name string) (*Client, error) {
		c, err := Dial(t.Context(), dir, name)
		if c != nil {
			t.Cleanup(c.Close)
		}
		return c, err
	}
	if _, err := dialed(""); !errors.Is(err, ErrNone) {
		t.Errorf("no directory: %v", err)
	}
	must(t, os.MkdirAll(dir, 0o700))
	if _, err := dialed(""); !errors.Is(err, ErrNone) {
		t.Errorf("an empty directory: %v", err)
	}
	for _, name := range []string{"notes.txt", "12.sock", "x.sock"} {
		must(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
	}
	dead(t, filepath.Join(dir, "99.sock"))
	dead(t, filepath.Join(dir, "strange.sock"))
	if _, err := dialed(""); !errors.Is(err, ErrNone) {
		t.Errorf("nothing that lives: %v", err)
	}
	for name, want := range map[string]bool{"99.sock": false, "strange.sock": true, "12.sock": true, "x.sock": true, "notes.txt": true} {
		if _, err := os.Lstat(filepath.Join(dir, name)); (err == nil) != want {
			t.Errorf("%s: there is %v, want %v", name, err == nil, want)
		}
	}

	silent, err := net.Listen("unix", filepath.Join(dir, "5.sock"))
	must(t, err)
	defer silent.Close()
	if _, err := dialed(""); err == nil || !strings.Contains(err.Error(), "server 5 does not answer") {
		t.Errorf("a server that hangs: %v", err)
	}
	serveIn(t, dir, Config{Server: Server{PID: 7}}, patient)
	if c, err := dialed(""); err != nil || c.server.PID != 7 {
		t.Errorf("one that hangs and one that lives: %v", err)
	}
	if _, err := dialed("5"); err == nil || !strings.Contains(err.Error(), "server 5 does not answer") {
		t.Errorf("the one that hangs, by name: %v", err)
	}
	serveIn(t, dir, Config{Server: Server{PID: 123}}, patient)
	_, err = dialed("")
	var several *Several
	if !errors.Is(err, ErrSeveral) || !errors.As(err, &several) || len(several.Servers) != 2 ||
		err.Error() != "several servers are running: 7, 123" {
		t.Errorf("got %v", err)
	}
	for _, name := range []string{"7", "123"} {
		if c, err := dialed(name); err != nil || fmt.Sprint(c.server.PID) != name {
			t.Errorf("by name: %v", err)
		}
	}
	if _, err := dialed("8"); !errors.Is(err, ErrNone) {
		t.Errorf("a wrong name: %v", err)
	}
	if _, err := dialed("../7"); !errors.Is(err, ErrNone) {
		t.Errorf("a path: %v", err)
	}
}

// dead leaves a socket to which nobody listens.
func dead(t *testing.T, path string) {
	t.Helper()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	must(t, err)
	l.SetUnlinkOnClose(false)
	must(t, l.Close())
}

// A server that was killed leaves its socket, and the next client removes it.
func TestKilledServer(t *testing.T) {
	dir := directory(t)
	c := child(t, "serve", dir)
	in, err := c.StdinPipe()
	must(t, err)
	defer in.Close()
	out, err := c.StdoutPipe()
	must(t, err)
	must(t, c.Start())
	var name, response string
	fmt.Fscan(out, &name, &response)
	if name != fmt.Sprintf("%d.sock", c.Process.Pid) || response != "<nil>" {
		t.Fatalf("the server says %s %s", name, response)
	}
	client, err := Dial(t.Context(), dir, "")
	must(t, err)
	client.Close()
	must(t, c.Process.Kill())
	c.Wait()
	if _, err := os.Lstat(filepath.Join(dir, name)); err != nil {
		t.Fatal("nothing was left, so nothing is tested")
	}
	if _, err := Dial(t.Context(), dir, ""); !errors.Is(err, ErrNone) {
		t.Errorf("got %v", err)
	}
	if _, err := os.Lstat(filepath.Join(dir, name)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("its socket is still there: %v", err)
	}
}

// Servers of several containers can have the same process id, and start at the same moment.
func TestSameProcessID(t *testing.T) {
	dir := directory(t)
	must(t, os.MkdirAll(dir, 0o700))
	dead(t, filepath.Join(dir, "1.sock"))
	var all sync.WaitGroup
	var mu sync.Mutex
	var names []string
	for range 5 {
		all.Go(func() {
			l := serveIn(t, dir, Config{Server: Server{PID: 1}}, patient)
			for range 3 {
				_, err := Dial(t.Context(), dir, "")
				if errors.Is(err, ErrNone) {
					t.Error("a living server was not found")
				}
			}
			mu.Lock()
			defer mu.Unlock()
			names = append(names, filepath.Base(l.socket.path))
		})
	}
	all.Wait()
	slices.Sort(names)
	if want := []string{"1-2.sock", "1-3.sock", "1-4.sock", "1-5.sock", "1.sock"}; !slices.Equal(names, want) {
		t.Errorf("got %v, want %v", names, want)
	}
	for _, name := range names {
		c, err := Dial(t.Context(), dir, strings.TrimSuffix(name, socketSuffix))
		must(t, err)
		c.Close()
	}
}

// A server that says nonsense is an error, not a crash or a hang.
func TestBadServers(t *testing.T) {
	for name, tt := range map[string]struct{ answer, want string }{
		"no HTTP":    {"hello\n", "malformed HTTP"},
		"no JSON":    {"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", "invalid character"},
		"an error":   {"HTTP/1.1 500 X\r\nContent-Length: 2\r\n\r\nhi", "500 Internal Server Error"},
		"our error":  {"HTTP/1.1 409 X\r\nContent-Length: 15\r\n\r\n" + `{"error":"why"}`, "why"},
		"hangs up":   {"", "EOF"},
		"half of it": {"HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\n{", "EOF"},
		"a redirect": {"HTTP/1.1 302 X\r\nLocation: /v1/server\r\nContent-Length: 0\r\n\r\n", "redirect"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := directory(t)
			must(t, os.MkdirAll(dir, 0o700))
			l, err := net.Listen("unix", filepath.Join(dir, "1.sock"))
			must(t, err)
			defer l.Close()
			go func() {
				for {
					conn, err := l.Accept()
					if err != nil {
						return
					}
					http.ReadRequest(bufio.NewReader(conn))
					io.WriteString(conn, tt.answer)
					conn.Close()
				}
			}()
			if _, err := Dial(t.Context(), dir, ""); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}
