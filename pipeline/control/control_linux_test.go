package control

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sandboxmcp/sandboxmcp/audit"
	"github.com/sandboxmcp/sandboxmcp/pipeline/approval"
)

const childVar = "CONTROL_TEST_CHILD"

// TestMain lets the test binary be another process: a server that is killed, or a client of another user.
func TestMain(m *testing.M) {
	dir := os.Getenv("CONTROL_TEST_DIR")
	switch os.Getenv(childVar) {
	case "serve":
		l, err := Listen(Config{Dir: dir, Server: Server{PID: os.Getpid()}})
		fmt.Println(filepath.Base(l.Path()), err)
		io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	case "connect":
		var s Server
		err := newClient(dir, os.Getenv("CONTROL_TEST_NAME")).do(context.Background(), "GET", "/v1/server", nil, &s)
		fmt.Println(s.PID, err)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func child(t *testing.T, what, dir string) *exec.Cmd {
	t.Helper()
	c := exec.CommandContext(t.Context(), os.Args[0])
	c.Env = append(os.Environ(), childVar+"="+what, "CONTROL_TEST_DIR="+dir)
	c.Stderr = os.Stderr
	return c
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func folder(t *testing.T) string { return filepath.Join(t.TempDir(), "run", "sandboxmcp") }

func serve(t *testing.T, c Config) *Listener {
	t.Helper()
	if c.Dir == "" {
		c.Dir = folder(t)
	}
	if c.Server.PID == 0 {
		c.Server.PID = os.Getpid()
	}
	l, err := Listen(c)
	must(t, err)
	t.Cleanup(func() { l.Close() })
	return l
}

func connect(t *testing.T, l *Listener) *Client {
	t.Helper()
	c, err := Dial(t.Context(), filepath.Dir(l.Path()), "")
	must(t, err)
	t.Cleanup(c.Close)
	return c
}

// broker has a real log. Closing it closes that, too.
func broker(t *testing.T) (*approval.Broker, *audit.Log) {
	t.Helper()
	log, err := audit.Open(t.Context(), filepath.Join(t.TempDir(), "audit.db"))
	must(t, err)
	b := approval.New(approval.Config{Audit: log})
	t.Cleanup(func() {
		b.Close()
		log.Close()
	})
	return b, log
}

func ask(t *testing.T, b *approval.Broker, what string) *approval.Pending {
	t.Helper()
	p, err := b.Open(t.Context(), approval.Question{Kind: approval.Egress, What: what, Namespace: "team"})
	must(t, err)
	return p
}

func TestShow(t *testing.T) {
	began := time.Now().UTC().Truncate(time.Second)
	l := serve(t, Config{
		Server:   Server{PID: 77, Version: "1.2", Began: began, Database: "/x.db"},
		Sessions: func() any { return []map[string]string{{"id": "a"}} },
		Stats:    func() any { return map[string]int{"running": 3} },
	})
	c := connect(t, l)
	if want := (Server{Name: "77", PID: 77, Version: "1.2", Began: began, Database: "/x.db"}); c.Server() != want {
		t.Errorf("got %+v, want %+v", c.Server(), want)
	}
	if got, err := c.Sessions(t.Context()); err != nil || string(bytes.TrimSpace(got)) != `[{"id":"a"}]` {
		t.Errorf("sessions: %s, %v", got, err)
	}
	if got, err := c.Stats(t.Context()); err != nil || string(bytes.TrimSpace(got)) != `{"running":3}` {
		t.Errorf("stats: %s, %v", got, err)
	}
	if got, err := c.Approvals(t.Context()); err != nil || len(got) != 0 {
		t.Errorf("approvals: %v, %v", got, err)
	}
	if _, err := c.Answer(t.Context(), "x", true, ""); !errors.Is(err, approval.ErrUnknown) {
		t.Errorf("got %v", err)
	}
}

func TestAnswers(t *testing.T) {
	b, log := broker(t)
	c := connect(t, serve(t, Config{Approvals: b}))
	me, err := user.Current()
	must(t, err)
	yes, no := ask(t, b, "a.example"), ask(t, b, "b.example")
	if got, err := c.Approvals(t.Context()); err != nil || len(got) != 2 || got[0].What != "a.example" || got[0].For != approval.DefaultFor {
		t.Errorf("got %+v, %v", got, err)
	}
	out, err := c.Answer(t.Context(), strings.ToLower(yes.Question.ID), true, "fine")
	if a, _ := yes.Wait(t.Context()); err != nil || !a.Allowed || a.User != me.Username || a.By != approval.CommandLine() || a.Reason != "fine" {
		t.Errorf("got %+v, %v", a, err)
	} else if !out.Allowed || !out.Until.Equal(a.Until) || out.Question.What != "a.example" {
		t.Errorf("the client is told %+v", out)
	}
	out, err = c.Answer(t.Context(), no.Question.ID, false, "")
	if a, _ := no.Wait(t.Context()); err != nil || a.Allowed || a.User != me.Username || out.Allowed || !out.Until.IsZero() {
		t.Errorf("got %+v, %v, and the client is told %+v", a, err, out)
	}
	for name, tt := range map[string]struct {
		id    string
		allow bool
		want  error
	}{
		"yes to the yes": {yes.Question.ID, true, approval.ErrAnswered},
		"yes to the no":  {no.Question.ID, true, approval.ErrAnswered},
		"no to the no":   {no.Question.ID, false, approval.ErrAnswered},
		"unknown":        {"01K9ZB5W7Q3M8Y2D4F6H8J0K2M", true, approval.ErrUnknown},
		"no id":          {"../../v1/server", true, approval.ErrUnknown},
		"a strange id":   {"a b\n?x=%00", false, approval.ErrUnknown},
	} {
		if _, err := c.Answer(t.Context(), tt.id, tt.allow, ""); !errors.Is(err, tt.want) {
			t.Errorf("%s: got %v, want %v", name, err, tt.want)
		}
	}
	out, err = c.Answer(t.Context(), yes.Question.ID, false, "changed my mind")
	if _, ok := b.Granted(approval.Egress, "team", "a.example", ""); ok || err != nil || !out.Revoked || out.Question.What != "a.example" {
		t.Errorf("no to the yes: granted %v, %v, %+v", ok, err, out)
	}
	if _, err := c.Answer(t.Context(), yes.Question.ID, false, ""); !errors.Is(err, approval.ErrAnswered) {
		t.Errorf("a second no to the yes: %v", err)
	}
	last := ask(t, b, "c.example")
	must(t, log.Close())
	if _, err := c.Answer(t.Context(), last.Question.ID, true, ""); err == nil || !strings.Contains(err.Error(), "closed") {
		t.Errorf("an answer that can't be recorded: %v", err)
	}
}

// raw sends a request as it is, and returns the answer's status and body.
func raw(t *testing.T, l *Listener, text string) (int, string) {
	t.Helper()
	conn, err := dial(t.Context(), filepath.Dir(l.Path()), strings.TrimSuffix(filepath.Base(l.Path()), ending))
	must(t, err)
	defer conn.Close()
	go io.WriteString(conn, text)
	conn.SetReadDeadline(time.Now().Add(20 * time.Second))
	b, _ := io.ReadAll(conn)
	var status int
	fmt.Sscanf(string(b), "HTTP/1.1 %d", &status)
	_, body, _ := strings.Cut(string(b), "\r\n\r\n")
	return status, body
}

func request(method, path, body string) string {
	return fmt.Sprintf("%s %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s", method, path, len(body), body)
}

func TestBadRequests(t *testing.T) {
	b, _ := broker(t)
	l := serve(t, Config{Approvals: b, Stats: func() any { panic("ours") }, Sessions: func() any { return func() {} }})
	p := ask(t, b, "a.example")
	path := "/v1/approvals/" + p.Question.ID
	for name, tt := range map[string]struct {
		text   string
		status int
	}{
		"no such thing":      {request("GET", "/", ""), 404},
		"other method":       {request("DELETE", path, ""), 404},
		"get an answer":      {request("GET", path, ""), 404},
		"nothing":            {request("POST", path, ""), 400},
		"empty object":       {request("POST", path, "{}"), 400},
		"null":               {request("POST", path, `{"allow":null}`), 400},
		"text":               {request("POST", path, `{"allow":"true"}`), 400},
		"number":             {request("POST", path, `{"allow":1}`), 400},
		"typing error":       {request("POST", path, `{"alow":true}`), 400},
		"who answers":        {request("POST", path, `{"allow":true,"user":"root"}`), 400},
		"two answers":        {request("POST", path, `{"allow":true}{"allow":false}`), 400},
		"no JSON":            {request("POST", path, "allow=true"), 400},
		"deep":               {request("POST", path, strings.Repeat("[", 20000)), 400},
		"large":              {request("POST", path, `{"allow":true,"reason":"`+strings.Repeat("x", maxBody)+`"}`), 400},
		"large head":         {"GET / HTTP/1.1\r\nHost: x\r\nX: " + strings.Repeat("x", 1<<20) + "\r\n\r\n", 431},
		"no HTTP":            {"hello\r\n\r\n", 400},
		"a panic of ours":    {request("GET", "/v1/stats", ""), 0},
		"what is no JSON":    {request("GET", "/v1/sessions", ""), 500},
		"a body that is not": {"POST " + path + " HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{", 503}, // its sender has had its time
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			status, body := raw(t, l, tt.text)
			if status != tt.status {
				t.Errorf("got %d %s, want %d", status, body, tt.status)
			}
			if status >= 400 && status != 503 && strings.HasPrefix(tt.text, "POST") && !json.Valid([]byte(body)) {
				t.Errorf("%s is no JSON", body)
			}
		})
	}
	t.Cleanup(func() {
		if len(b.Pending()) != 1 {
			t.Error("one of them answered the question")
		}
	})
}

// Clients that hang, as many as there may be, hold others up for some seconds at most.
func TestSlowClients(t *testing.T) {
	l := serve(t, Config{})
	dir, name := filepath.Dir(l.Path()), strings.TrimSuffix(filepath.Base(l.Path()), ending)
	began := time.Now()
	var conns []net.Conn
	for i := range 2 * maxClients {
		conn, err := dial(t.Context(), dir, name)
		must(t, err)
		defer conn.Close()
		if i%2 == 0 {
			io.WriteString(conn, "POST /v1/approvals/x HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{")
		}
		conns = append(conns, conn)
	}
	for _, conn := range conns {
		conn.SetReadDeadline(began.Add(2*readTime + 2*time.Second))
		if _, err := io.Copy(io.Discard, conn); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("a client that hangs is still connected after %v", time.Since(began))
		}
	}
	connect(t, l)
}

func TestDial(t *testing.T) {
	dir := folder(t)
	dialed := func(name string) (*Client, error) {
		c, err := Dial(t.Context(), dir, name)
		if c != nil {
			t.Cleanup(c.Close)
		}
		return c, err
	}
	if _, err := dialed(""); !errors.Is(err, ErrNone) {
		t.Errorf("no folder: %v", err)
	}
	must(t, os.MkdirAll(dir, 0o700))
	if _, err := dialed(""); !errors.Is(err, ErrNone) {
		t.Errorf("an empty folder: %v", err)
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
	serve(t, Config{Dir: dir, Server: Server{PID: 7}})
	if c, err := dialed(""); err != nil || c.Server().PID != 7 {
		t.Errorf("one that hangs and one that lives: %v", err)
	}
	if _, err := dialed("5"); err == nil || !strings.Contains(err.Error(), "server 5 does not answer") {
		t.Errorf("the one that hangs, by name: %v", err)
	}
	serve(t, Config{Dir: dir, Server: Server{PID: 123}})
	_, err = dialed("")
	var several *Several
	if !errors.Is(err, ErrSeveral) || !errors.As(err, &several) || len(several.Servers) != 2 || err.Error() != "several servers run: 7, 123" {
		t.Errorf("got %v", err)
	}
	for _, name := range []string{"7", "123"} {
		if c, err := dialed(name); err != nil || fmt.Sprint(c.Server().PID) != name {
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
	dir := folder(t)
	c := child(t, "serve", dir)
	in, err := c.StdinPipe()
	must(t, err)
	defer in.Close()
	out, err := c.StdoutPipe()
	must(t, err)
	must(t, c.Start())
	var name, said string
	fmt.Fscan(out, &name, &said)
	if name != fmt.Sprintf("%d.sock", c.Process.Pid) || said != "<nil>" {
		t.Fatalf("the server says %s %s", name, said)
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
	dir := folder(t)
	must(t, os.MkdirAll(dir, 0o700))
	dead(t, filepath.Join(dir, "1.sock"))
	var all sync.WaitGroup
	var mu sync.Mutex
	var names []string
	for range 5 {
		all.Go(func() {
			l := serve(t, Config{Dir: dir, Server: Server{PID: 1}})
			for range 3 {
				_, err := Dial(t.Context(), dir, "")
				if errors.Is(err, ErrNone) {
					t.Error("a living server was not found")
				}
			}
			mu.Lock()
			defer mu.Unlock()
			names = append(names, filepath.Base(l.Path()))
		})
	}
	all.Wait()
	slices.Sort(names)
	if want := []string{"1-2.sock", "1-3.sock", "1-4.sock", "1-5.sock", "1.sock"}; !slices.Equal(names, want) {
		t.Errorf("got %v, want %v", names, want)
	}
	for _, name := range names {
		c, err := Dial(t.Context(), dir, strings.TrimSuffix(name, ending))
		must(t, err)
		c.Close()
	}
}

func TestPrivate(t *testing.T) {
	top := t.TempDir()
	dir := filepath.Join(top, "run", "sandboxmcp")
	must(t, os.MkdirAll(dir, 0o777))
	must(t, os.Chmod(dir, 0o777))
	l := serve(t, Config{Dir: dir})
	for path, want := range map[string]fs.FileMode{dir: fs.ModeDir | 0o700, l.Path(): fs.ModeSocket | 0o600} {
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
		if l, err := Listen(Config{Dir: dir}); err == nil {
			l.Close()
			t.Errorf("it listens in %s", dir)
		}
		if _, err := Dial(t.Context(), dir, ""); err == nil || errors.Is(err, ErrNone) {
			t.Errorf("it looks for servers in %s: %v", dir, err)
		}
	}
}

func TestLongPath(t *testing.T) {
	dir := filepath.Join(t.TempDir(), strings.Repeat("long", 40), "sandboxmcp")
	l := serve(t, Config{Dir: dir, Server: Server{PID: 9}})
	if c := connect(t, l); c.Server().PID != 9 {
		t.Errorf("got %+v", c.Server())
	}
	must(t, l.Close())
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("left are %v, %v", left, err)
	}
}

func TestClose(t *testing.T) {
	began, finish := make(chan bool), make(chan bool)
	l := serve(t, Config{Stats: func() any {
		close(began)
		<-finish
		return 1
	}})
	c := connect(t, l)
	answered := make(chan error)
	go func() {
		_, err := c.Stats(t.Context())
		answered <- err
	}()
	<-began
	time.AfterFunc(100*time.Millisecond, func() { close(finish) })
	must(t, l.Close())
	if err := <-answered; err != nil {
		t.Errorf("an answer under way: %v", err)
	}
	if _, err := os.Lstat(l.Path()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the socket is left: %v", err)
	}
	l.Close()

	// What has the name by now is another server's.
	first := serve(t, Config{})
	must(t, os.Remove(first.Path()))
	second := serve(t, Config{Dir: filepath.Dir(first.Path())})
	must(t, first.Close())
	if second.Path() != first.Path() || connect(t, second) == nil {
		t.Error("another server's socket was removed")
	}
}

// A server whose functions hang still ends.
func TestCloseWhileHanging(t *testing.T) {
	began, finish := make(chan bool), make(chan bool)
	defer close(finish)
	l := serve(t, Config{Stats: func() any { close(began); <-finish; return nil }})
	c := connect(t, l)
	go c.Stats(t.Context())
	<-began
	done := make(chan error)
	go func() { done <- l.Close() }()
	select {
	case <-done:
	case <-time.After(5 * time.Second):
		t.Error("Close waits for what hangs")
	}
}

// Another user is refused even where the folder and the socket let everybody in.
func TestOtherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to be somebody else")
	}
	dir := folder(t)
	var said bytes.Buffer
	l := serve(t, Config{Dir: dir, Log: slog.New(slog.NewTextHandler(&said, nil))})
	name := strings.TrimSuffix(filepath.Base(l.Path()), ending)
	exe, err := os.ReadFile(os.Args[0])
	must(t, err)
	copied := filepath.Join(t.TempDir(), "control.test")
	must(t, os.WriteFile(copied, exe, 0o755))
	letIn(t, filepath.Dir(copied))
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
		t.Errorf("the folder lets another user in: %s", got)
	}
	letIn(t, dir)
	must(t, os.Chmod(l.Path(), 0o666))
	if got := as(65534); !strings.HasPrefix(got, "0 ") || strings.Contains(got, "<nil>") || strings.Contains(got, "permission denied") {
		t.Errorf("another user: %s", got)
	}
	if got := as(0); got != fmt.Sprintf("%d <nil>\n", os.Getpid()) {
		t.Errorf("the same user: %s", got)
	}
	must(t, l.Close())
	if !strings.Contains(said.String(), "another user was refused") || !strings.Contains(said.String(), "uid=65534") {
		t.Errorf("the log has %s", said.String())
	}
	for uid, want := range map[int]bool{0: true, os.Geteuid(): true, 65534: false, -1: false} {
		if welcome(uid) != want {
			t.Errorf("uid %d: welcome %v", uid, !want)
		}
	}
}

// letIn lets everybody enter a temporary folder.
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
	tests := map[string]string{runtime: filepath.Join(runtime, "sandboxmcp"), "": elsewhere, "relative": elsewhere, file: elsewhere, "/nowhere": elsewhere}
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
			dir := folder(t)
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
