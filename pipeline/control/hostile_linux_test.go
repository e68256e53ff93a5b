package control

import (
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
	"github.com/sandboxmcp/sandboxmcp/pipeline/door"
)

// TestEndlessPart: a server that never ends one line of a stream is not listened to for ever.
func TestEndlessPart(t *testing.T) {
	for name, says := range map[string][2]string{"a text": {`{"stdout":"`, "aa"}, "nothing": {" ", "  "}} {
		t.Run(name, func(t *testing.T) {
			dir := directory(t)
			must(t, os.MkdirAll(dir, 0o700))
			l, err := net.Listen("unix", filepath.Join(dir, "5.sock"))
			must(t, err)
			response := make(chan int64, 1)
			mux := http.NewServeMux()
			mux.HandleFunc("GET /v1/server", func(w http.ResponseWriter, _ *http.Request) { door.Reply(w, http.StatusOK, Server{PID: 5}) })
			mux.HandleFunc("POST /v1/sessions/{id}/cells", func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.WriteString(w, says[0])
				n, _ := io.Copy(w, io.LimitReader(endless(says[1]), 4*maxAnswer))
				response <- n
			})
			s := http.Server{Handler: mux}
			go s.Serve(l)
			defer s.Close()
			c, err := Dial(t.Context(), dir, "")
			must(t, err)
			defer c.Close()
			if _, err := c.Exec(t.Context(), "x", Cell{Code: "1"}, unheard); err == nil || !strings.Contains(err.Error(), "in one part") {
				t.Errorf("got %v", err)
			}
			if n := <-response; n >= 2*maxAnswer {
				t.Errorf("%d MB were read", n>>20)
			}
		})
	}
}

// endless says the same again and again.
type endless string

func (e endless) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = e[i%len(e)]
	}
	return len(b) &^ 1, nil
}

// TestAnothersServer: a socket that another user listens on is not spoken to.
func TestAnothersServer(t *testing.T) {
	dir := directory(t)
	must(t, os.MkdirAll(dir, 0o700))
	listenAs(t, filepath.Join(dir, "5.sock"), 65534)
	if _, err := Dial(t.Context(), dir, ""); err == nil || !strings.Contains(err.Error(), "user 65534 listens at this socket") {
		t.Errorf("got %v", err)
	}
	if _, err := os.Lstat(filepath.Join(dir, "5.sock")); err != nil {
		t.Error("it was taken for a dead one")
	}
}

// listenAs listens as a user: the process that calls listen(2) is the peer of clients that connect.
func listenAs(t *testing.T, path string, uid int) net.Listener {
	t.Helper()
	if os.Geteuid() != 0 && os.Geteuid() != uid {
		hosttest.SkipMissing(t, "root", "to be somebody else")
	}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	must(t, err)
	file := os.NewFile(uintptr(fd), path)
	defer file.Close()
	must(t, unix.Bind(fd, &unix.SockaddrUnix{Name: path}))
	back := become(t, uid)
	err = unix.Listen(fd, 1)
	back()
	must(t, err)
	l, err := net.FileListener(file)
	must(t, err)
	t.Cleanup(func() { l.Close() })
	return l
}

// become has this goroutine act for another user, until back is called.
func become(t *testing.T, uid int) (back func()) {
	self := os.Geteuid()
	act := func(uid int) {
		if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, ^uintptr(0), uintptr(uid), ^uintptr(0)); errno != 0 {
			t.Fatal(errno)
		}
	}
	runtime.LockOSThread()
	act(uid)
	return func() { act(self); runtime.UnlockOSThread() }
}
