package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sandboxmcp/sandboxmcp/audit"
	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/approval"
)

const childVar = "CONTROL_TEST_CHILD"

// TestMain lets the test binary be another process: a server that is killed, or a client of another user.
func TestMain(m *testing.M) {
	dir := os.Getenv("CONTROL_TEST_DIR")
	switch os.Getenv(childVar) {
	case "serve":
		l, err := Listen(dir, New(Config{Server: Server{PID: os.Getpid()}}))
		fmt.Println(filepath.Base(l.socket.path), err)
		io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	case "guarded":
		guarded(dir)
		os.Exit(0)
	case "connect":
		s, err := getServer.Call(context.Background(), newClient(dir, os.Getenv("CONTROL_TEST_NAME")).at, NoArguments{})
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

func directory(t *testing.T) string { return filepath.Join(t.TempDir(), "run", "sandboxmcp") }

func serve(t *testing.T, c Config) *Listener {
	t.Helper()
	return serveAt(t, c, patient)
}

// patient is the pace of a server that waits for whatever comes.
var patient = pace{read: time.Hour, work: time.Hour, write: time.Hour, close: time.Second}

// impatient is the pace of a server that gives a request little time to arrive.
var impatient = pace{read: 200 * time.Millisecond, work: time.Hour, write: time.Hour}

func serveAt(t *testing.T, c Config, p pace) *Listener {
	t.Helper()
	return serveIn(t, directory(t), c, p)
}

func serveIn(t *testing.T, dir string, c Config, p pace) *Listener {
	t.Helper()
	if c.Server.PID == 0 {
		c.Server.PID = os.Getpid()
	}
	l, err := Listen(dir, newAPI(c, p))
	must(t, err)
	t.Cleanup(func() { l.Close() })
	return l
}

// connect does as Dial does, except that Dial gives a server two seconds to identify itself.
func connect(t *testing.T, l *Listener) *Client {
	t.Helper()
	name := strings.TrimSuffix(filepath.Base(l.socket.path), socketSuffix)
	c := newClient(filepath.Dir(l.socket.path), name)
	var err error
	c.server, err = getServer.Call(t.Context(), c.at, NoArguments{})
	must(t, err)
	c.server.Name = name
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

func openQuestion(t *testing.T, b *approval.Broker, what string) *approval.Pending {
	t.Helper()
	p, err := b.Open(t.Context(), approval.Question{Kind: approval.Egress, What: what, Namespace: "team"})
	must(t, err)
	return p
}

func TestShow(t *testing.T) {
	began := time.Now().UTC().Truncate(time.Second)
	b, _ := broker(t)
	l := serve(t, Config{
		Approvals: b,
		Server:    Server{PID: 77, Version: "1.2", Began: began, Database: "/x.db"},
		Pipeline:  pipeline.New(pipeline.Config{Queue: pipeline.NewQueue(3, 7)}),
	})
	c := connect(t, l)
	if want := (Server{Name: "77", PID: 77, Version: "1.2", Began: began, Database: "/x.db"}); c.server != want {
		t.Errorf("got %+v, want %+v", c.server, want)
	}
	if got, err := Call(t.Context(), c, ListSessions, InNamespace{}); err != nil || got == nil || len(got) != 0 {
		t.Errorf("sessions: %v, %v", got, err)
	}
	if got, err := Call(t.Context(), c, GetStats, NoArguments{}); err != nil || got.Slots != 3 {
		t.Errorf("stats: %v, %v", got, err)
	}
	if got, err := Call(t.Context(), c, GetQueue, NoArguments{}); err != nil || got.Slots != 3 || got.Room != 7 || len(got.Namespaces) != 0 {
		t.Errorf("queue: %+v, %v", got, err)
	}
	if got, err := c.Approvals(t.Context()); err != nil || len(got) != 0 {
		t.Errorf("approvals: %v, %v", got, err)
	}
	if _, err := Call(t.Context(), c, AnswerApproval, Verdict{ID: "x", Allow: true}); !errors.Is(err, approval.ErrUnknown) {
		t.Errorf("got %v", err)
	}
}

func TestAnswers(t *testing.T) {
	b, log := broker(t)
	c := connect(t, serve(t, Config{Approvals: b}))
	me, err := user.Current()
	must(t, err)
	yes, no := openQuestion(t, b, "a.example"), openQuestion(t, b, "b.example")
	if got, err := c.Approvals(t.Context()); err != nil || len(got) != 2 || got[0].What != "a.example" || got[0].For != approval.DefaultFor {
		t.Errorf("got %+v, %v", got, err)
	}
	out, err := Call(t.Context(), c, AnswerApproval, Verdict{ID: strings.ToLower(yes.Question.ID), Allow: true, Reason: "fine"})
	if a, _ := yes.Wait(t.Context()); err != nil || !a.Allowed || a.User != me.Username || a.By.String() != "cli" || a.Reason != "fine" {
		t.Errorf("got %+v, %v", a, err)
	} else if !out.Allowed || !out.Until.Equal(a.Until) || out.Question.What != "a.example" {
		t.Errorf("the client is told %+v", out)
	}
	out, err = Call(t.Context(), c, AnswerApproval, Verdict{ID: no.Question.ID, Allow: false})
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
		if _, err := Call(t.Context(), c, AnswerApproval, Verdict{ID: tt.id, Allow: tt.allow}); !errors.Is(err, tt.want) {
			t.Errorf("%s: got %v, want %v", name, err, tt.want)
		}
	}
	out, err = Call(t.Context(), c, AnswerApproval, Verdict{ID: yes.Question.ID, Allow: false, Reason: "changed my mind"})
	if ok := slices.ContainsFunc(b.Grants(), func(g approval.Grant) bool { return g.Question.What == "a.example" }); ok || err != nil ||
		!out.Revoked || out.Question.What != "a.example" {
		t.Errorf("no to the yes: granted %v, %v, %+v", ok, err, out)
	}
	if _, err := Call(t.Context(), c, AnswerApproval, Verdict{ID: yes.Question.ID, Allow: false}); !errors.Is(err, approval.ErrAnswered) {
		t.Errorf("a second no to the yes: %v", err)
	}
	last := openQuestion(t, b, "c.example")
	must(t, log.Close())
	if _, err := Call(t.Context(), c, AnswerApproval, Verdict{ID: last.Question.ID, Allow: true}); err == nil ||
		err.Error() != audit.UnwrittenText {
		t.Errorf("an answer that can't be recorded: %v", err)
	}
}

// raw sends a request as it is, and returns the answer's status and body.
func raw(t *testing.T, l *Listener, text string) (int, string) {
	t.Helper()
	conn, err := dial(t.Context(), filepath.Dir(l.socket.path), strings.TrimSuffix(filepath.Base(l.socket.path), socketSuffix))
	must(t, err)
	defer conn.Close()
	go io.WriteString(conn, text)
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
	l := serve(t, Config{Approvals: b, Pipeline: onWrite(func() { panic("ours") })})
	p := openQuestion(t, b, "a.example")
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
		"a panic of ours":    {request("POST", "/v1/limits", `{"limits":{"max_ram_mb":64}}`), 0},
		"a body that is not": {"POST " + path + " HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{", 503}, // its sender has had its time
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := l
			if tt.status == http.StatusServiceUnavailable {
				l = serveAt(t, Config{Approvals: b}, impatient)
			}
			status, body := raw(t, l, tt.text)
			if status != tt.status {
				t.Errorf("got %d %s, want %d", status, body, tt.status)
			}
			if status >= 400 && status != 503 && strings.HasPrefix(tt.text, "POST") && !json.Valid([]byte(body)) {
				t.Errorf("%s is not JSON", body)
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
	l := serveAt(t, Config{}, impatient)
	dir, name := filepath.Dir(l.socket.path), strings.TrimSuffix(filepath.Base(l.socket.path), socketSuffix)
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
		_, _ = io.Copy(io.Discard, conn) // ends when the server has had enough
	}
	hosttest.Until(t, "another client is let in", func() bool {
		c, err := Dial(t.Context(), dir, name)
		if err == nil {
			c.Close()
		}
		return err == nil
	})
}

func TestClose(t *testing.T) {
	began, finish := make(chan bool), make(chan bool)
	l := serveAt(t, Config{Pipeline: onWrite(func() {
		close(began)
		<-finish
	})}, pace{read: time.Hour, work: time.Hour, write: time.Hour, close: time.Hour})
	c := connect(t, l)
	answered := make(chan error)
	go func() {
		_, err := Call(t.Context(), c, SetLimits, Change{Limits: pipeline.Limits{RAM: 64}})
		answered <- err
	}()
	<-began
	go func() { // once Close has begun
		defer close(finish)
		hosttest.Until(t, "the socket is gone", func() bool { _, err := os.Lstat(l.socket.path); return err != nil })
	}()
	must(t, l.Close())
	if err := <-answered; err != nil {
		t.Errorf("an answer under way: %v", err)
	}
	if _, err := os.Lstat(l.socket.path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the socket is left: %v", err)
	}
	l.Close()

	// A socket that has the name by now belongs to another server.
	first := serve(t, Config{})
	must(t, os.Remove(first.socket.path))
	second := serveIn(t, filepath.Dir(first.socket.path), Config{}, patient)
	must(t, first.Close())
	if second.socket.path != first.socket.path || connect(t, second) == nil {
		t.Error("another server's socket was removed")
	}
}

// A server whose functions hang still ends.
func TestCloseWhileHanging(t *testing.T) {
	began, finish := make(chan bool), make(chan bool)
	defer close(finish)
	l := serve(t, Config{Pipeline: onWrite(func() { close(began); <-finish })})
	c := connect(t, l)
	go Call(t.Context(), c, SetLimits, Change{Limits: pipeline.Limits{RAM: 64}})
	<-began
	l.Close() // waits for ever if it waits for what hangs
}

// TestRemoveLeft: sockets of dead servers are removed, those of living ones and other files stay.
func TestRemoveLeft(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir) // the path of a socket is short
	for _, name := range []string{"99999999.sock", fmt.Sprintf("%d-2.sock", os.Getpid()), "other.sock"} {
		l, err := net.ListenUnix("unix", &net.UnixAddr{Name: name, Net: "unix"})
		if err != nil {
			t.Fatal(err)
		}
		l.SetUnlinkOnClose(false)
		l.Close()
	}
	RemoveLeft(dir)
	if _, err := os.Lstat("99999999.sock"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a dead server's socket: %v", err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 2 {
		t.Errorf("%v, %v", entries, err)
	}
}
