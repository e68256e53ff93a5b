package control

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandboxmcp/sandboxmcp/audit"
	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/event"
	"github.com/sandboxmcp/sandboxmcp/pipeline/run"
)

// alike is the fingerprint of the servers of tests.
const alike = "the same"

func (r *running) offer(own string, q run.Request) *RemoteRun {
	return Submit(r.t.Context(), filepath.Dir(r.listener.socket.path), func() string { return own }, q)
}

// A run that was handed over has the outcome, and the error, that the pipeline of this process would return.
func TestHandedOver(t *testing.T) {
	r := serveRuns(t)
	tests := []struct {
		name, stdin, out, errs, ended, refused string
		q                                      run.Request
	}{
		{name: "streams", stdin: "in", out: "in\xff", errs: "err", ended: "exit",
			q: run.Request{Code: []byte("cat; printf '\\377'; printf err >&2; exit 3")}},
		{name: "no input", out: "none", ended: "ok", q: run.Request{Code: []byte("cat; printf none")}},
		{name: "no such layer", ended: "refused", refused: "nosuch",
			q: run.Request{Code: []byte("echo"), Where: run.Where{Require: []string{"nosuch"}}}},
		{name: "no such program", ended: "refused", refused: "there is no program x", q: run.Request{Command: []string{"x"}}},
		{name: "nothing may be reached", out: "0", ended: "ok", q: run.Request{Code: []byte("printf $#"), Reach: run.Reach{Allow: []string{}}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			q := tt.q
			if q.Command == nil {
				q.Language = "shell"
			}
			if tt.stdin != "" {
				q.Stdin = strings.NewReader(tt.stdin)
			}
			for _, live := range []bool{true, false} {
				var out, errs bytes.Buffer
				if live {
					q.Stdout, q.Stderr, q.Whole = &out, &errs, true
				} else {
					q.Stdout, q.Stderr, q.Whole = nil, nil, false
					q.Stdin = strings.NewReader(tt.stdin)
				}
				taken := r.offer(alike, q)
				if taken == nil {
					t.Fatal("nobody took it")
				}
				res, err := taken.Wait(t.Context(), q)
				response := [2]string{out.String(), errs.String()}
				if !live {
					response = [2]string{res.Stdout, res.Stderr}
				}
				var refused *pipeline.Error
				_, none := errors.AsType[*backends.NoProgram](err)
				if response != [2]string{tt.out, tt.errs} || res.Ended != tt.ended || errors.As(err, &refused) != (tt.refused != "") ||
					none != (q.Command != nil) {
					t.Errorf("live %v: got %q, %s, %v", live, response, res.Ended, err)
				}
				if refused != nil && !strings.Contains(refused.Reason, tt.refused) {
					t.Errorf("got %v", refused)
				}
			}
		})
	}
}

// A client hands no run to a server with another configuration, to one that would make the run wait, or if JSON can't
// hold the request.
func TestNotHandedOver(t *testing.T) {
	r := serveRuns(t)
	simple := run.Request{Language: "shell", Code: []byte("echo")}
	for name, taken := range map[string]*RemoteRun{
		"another server":   r.offer("another", simple),
		"nothing is known": r.offer("", simple),
		"not UTF-8":        r.offer(alike, run.Request{Language: "shell", Code: []byte("echo"), Args: []string{"\xff"}}),
	} {
		if taken != nil {
			t.Errorf("%s: it was taken", name)
		}
	}
	unknown := serve(t, Config{Pipeline: r.pipeline, Runs: r.pipeline, Alike: func() string { return "" }})
	if Submit(t.Context(), filepath.Dir(unknown.socket.path), func() string { return "" }, simple) != nil {
		t.Error("a server that knows nothing of itself took it")
	}
	if rows := r.rows(); rows != 0 {
		t.Errorf("the log has %d rows", rows)
	}
}

func (r *running) rows() (n int) {
	for range r.log.Rows(r.t.Context(), audit.Filter{}) {
		n++
	}
	return n
}

// If a client takes its request back, or sends descriptors that are not pipes, nothing runs, and the server keeps
// nothing of it.
func TestHostileClient(t *testing.T) {
	r := serveRuns(t)
	file, err := os.CreateTemp(t.TempDir(), "")
	must(t, err)
	defer file.Close()
	reader, writer, err := os.Pipe()
	must(t, err)
	defer reader.Close()
	defer writer.Close()
	before := descriptors(t)
	for name, fds := range map[string][]int{
		"nothing":   nil,
		"two pipes": {int(reader.Fd()), int(writer.Fd())},
		"files":     {int(file.Fd()), int(file.Fd()), int(file.Fd())},
		"many":      {int(reader.Fd()), int(writer.Fd()), int(writer.Fd()), int(writer.Fd()), int(writer.Fd())},
	} {
		for _, hangUp := range []bool{true, false} {
			conn, err := net.Dial("unix", r.listener.socket.path)
			must(t, err)
			body := `{"Request":{"Language":"shell","Code":"ZWNobw=="}}`
			fmt.Fprintf(conn, "POST /v1/runs HTTP/1.1\r\nHost: x\r\n%s: %s\r\nContent-Length: %d\r\n\r\n%s", alikeHeader, alike, len(body), body)
			from := bufio.NewReader(conn)
			resp, err := http.ReadResponse(from, nil)
			must(t, err)
			if resp.StatusCode != http.StatusSwitchingProtocols {
				t.Fatalf("%s: %s", name, resp.Status)
			}
			if !hangUp {
				var control []byte
				if fds != nil {
					control = unix.UnixRights(fds...)
				}
				_, _, err = conn.(*net.UnixConn).WriteMsgUnix([]byte("\n"), control, nil)
				must(t, err)
				if response, err := io.ReadAll(from); err != nil || len(response) > 0 {
					t.Errorf("%s: the server says %q, %v", name, response, err)
				}
			}
			conn.Close()
		}
	}
	hosttest.Until(t, "the server keeps nothing of them", func() bool { return descriptors(t) == before })
	if rows := r.rows(); rows != 0 {
		t.Errorf("the log has %d rows", rows)
	}
}

// descriptors counts those of this process that are pipes or sockets: others come and go.
func descriptors(t *testing.T) (n int) {
	t.Helper()
	all, err := filepath.Glob("/proc/self/fd/*")
	must(t, err)
	for _, name := range all {
		if to, _ := os.Readlink(name); strings.HasPrefix(to, "pipe:") || strings.HasPrefix(to, "socket:") {
			n++
		}
	}
	return n
}

// A client that reads nothing holds up its own run alone, and when it goes, the run ends, which the log says.
func TestClientThatHangs(t *testing.T) {
	r := serveRuns(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	stuck, free := io.Pipe()
	q := run.Request{Language: "shell", Code: []byte("head -c 10000000 /dev/zero; sleep 1000"),
		Streams: run.Streams{Stdout: free, Stderr: io.Discard, Whole: true, Stop: &pipeline.Stopper{Grace: time.Hour}}}
	taken := r.offer(alike, q)
	if taken == nil {
		t.Fatal("nobody took it")
	}
	type end struct {
		res pipeline.Outcome
		err error
	}
	ended := make(chan end, 1)
	go func() {
		res, err := taken.Wait(ctx, q)
		ended <- end{res, err}
	}()
	_, err := io.ReadFull(stuck, make([]byte, 1)) // the program has begun
	must(t, err)
	if _, err := Call(t.Context(), r.Client, GetQueue, NoArguments{}); err != nil {
		t.Errorf("the server does not answer others: %v", err)
	}
	hosttest.Until(t, "the program gets a signal", func() bool { return q.Stop.Signal(syscall.SIGINT) })
	cancel(errors.New("the reader has enough"))
	if e := <-ended; e.err != nil || e.res.Ended != backends.EndedCancelled {
		t.Errorf("got %s, %v", e.res.Ended, e.err)
	}
}

// A socket that another user listens on is told nothing, root's neither; nor is one told twice that does not answer.
func TestOfferToStrangers(t *testing.T) {
	dir := directory(t)
	must(t, os.MkdirAll(dir, 0o700))
	q := run.Request{Language: "shell", Code: []byte("echo")}
	listen := func(uid int) chan string {
		heard := make(chan string, 1)
		l := listenAs(t, filepath.Join(dir, "5.sock"), uid)
		go func() {
			conn, err := l.Accept()
			if err != nil {
				heard <- ""
				return
			}
			all, _ := io.ReadAll(conn)
			heard <- string(all)
		}()
		return heard
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	heard := listen(os.Geteuid())
	if Submit(ctx, dir, func() string { return alike }, q) != nil || !strings.HasPrefix(<-heard, "POST /v1/runs ") {
		t.Error("one that does not answer took it, or was not asked")
	}
	must(t, os.Remove(filepath.Join(dir, "5.sock")))
	heard = listen(65534)
	if Submit(t.Context(), dir, func() string { return alike }, q) != nil {
		t.Error("another user's server took it")
	}
	if response := <-heard; response != "" {
		t.Errorf("it was told %q", response)
	}
	must(t, os.Remove(filepath.Join(dir, "5.sock")))
	heard = listen(0)
	letIn(t, dir)
	must(t, errors.Join(os.Chmod(dir, 0o700), os.Chown(dir, 65534, 65534), os.Chmod(filepath.Join(dir, "5.sock"), 0o666)))
	defer become(t, 65534)()
	if Submit(t.Context(), dir, func() string { return alike }, q) != nil {
		t.Error("root's server took an ordinary user's")
	}
	if response := <-heard; response != "" {
		t.Errorf("it was told %q", response)
	}
}

// A client that is gone without a word has ended its run.
func TestClientThatIsKilled(t *testing.T) {
	r := serveRuns(t)
	began, begun := io.Pipe()
	q := run.Request{Language: "shell", Code: []byte("echo; sleep 1000"), Streams: run.Streams{Stdout: begun, Stderr: io.Discard, Whole: true}}
	taken := r.offer(alike, q)
	if taken == nil {
		t.Fatal("nobody took it")
	}
	ended := make(chan error, 1)
	go func() {
		_, err := taken.Wait(t.Context(), q)
		ended <- err
	}()
	_, err := io.ReadFull(began, make([]byte, 1))
	must(t, err)
	must(t, taken.conn.CloseWrite())
	hosttest.Until(t, "the log has its end", func() bool { return r.rows() == 2 })
	for row := range r.log.Rows(t.Context(), audit.Filter{}) {
		if row.Kind != event.ExecutionStarted && !strings.Contains(string(row.Data), `"ended":"cancelled"`) {
			t.Errorf("the log has %s %s", row.Kind, row.Data)
		}
	}
	<-ended
}
