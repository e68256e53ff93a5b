package control

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"reflect"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/run"
)

// maxOffer bounds the time for all servers to accept the run. A live server does so at once, even on a busy machine;
// a stopped one, as when Ctrl-Z stops an agent with its server, is not asked.
const maxOffer = time.Second

// RemoteRun is a run that a server has accepted.
type RemoteRun struct {
	conn  *net.UnixConn
	files [3]*os.File // our ends of the pipes
	acks  chan bool   // whether the program received a signal
	ended chan struct{}

	mu sync.Mutex
}

// Submit hands a run over to a server of this very user whose socket is in dir, and that has the same fingerprint. It
// returns nil if no server accepts the run at once; then none runs it later. The caller must call Wait on the result;
// no input is read before.
func Submit(ctx context.Context, dir string, alike func() string, q run.Request) *RemoteRun {
	names, err := sockets(dir)
	if len(names) == 0 || err != nil || checkPrivate(dir) != nil {
		return nil
	}
	own := alike()
	h := Submission{Request: q, Beside: q.Beside != nil}
	if q.Stop != nil {
		h.Grace = q.Stop.Grace
	}
	body, ok := marshalLossless(h)
	if !ok || own == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, maxOffer)
	defer cancel()
	for _, name := range names {
		conn, err := dial(ctx, dir, name)
		if errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, fs.ErrNotExist) {
			removeStale(dir, name)
		}
		if err != nil {
			continue
		}
		t := &RemoteRun{conn: conn.(*net.UnixConn), acks: make(chan bool, 1), ended: make(chan struct{})}
		if t.submit(ctx, own, body) == nil && t.sendPipes(q.Stop) == nil {
			return t
		}
		t.conn.Close()
	}
	return nil
}

// marshalLossless encodes a run as JSON, and returns false if JSON can't hold it: text may not be UTF-8.
func marshalLossless(h Submission) ([]byte, bool) {
	q := &h.Request
	q.Stdin, q.Terminal, q.Ask, q.Stop, q.Stdout, q.Stderr, q.Beside = nil, nil, nil, nil, nil, nil, nil
	body, err := json.Marshal(h)
	if err != nil {
		return nil, false
	}
	var same Submission
	return body, json.Unmarshal(body, &same) == nil && reflect.DeepEqual(h, same)
}

// submit offers the run to one server.
func (t *RemoteRun) submit(ctx context.Context, alike string, body []byte) error {
	server, err := credentials(t.conn)
	if err != nil || int(server.Uid) != os.Geteuid() || stopped(server.Pid) { // root's server has more rights than this user's process
		return errors.Join(errUnlike, err)
	}
	deadline, _ := ctx.Deadline()
	_ = t.conn.SetDeadline(deadline)
	defer t.conn.SetDeadline(time.Time{})
	_, err = fmt.Fprintf(t.conn, "POST /v1/runs HTTP/1.1\r\nHost: server\r\nConnection: Upgrade\r\nUpgrade: %s\r\n%s: "+
		"%s\r\nContent-Length: %d\r\n\r\n%s",
		upgrade, alikeHeader, alike, len(body), body)
	if err != nil {
		return err
	}
	answer := make([]byte, len(ready))
	if _, err := io.ReadFull(t.conn, answer); err != nil || string(answer) != ready {
		return errors.Join(errUnlike, err)
	}
	return nil
}

// stopped reports whether a process is stopped by a signal, or by a debugger.
func stopped(pid int32) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	state := stat[bytes.LastIndexByte(stat, ')')+1:] // the name before it may contain anything
	return err == nil && (bytes.HasPrefix(state, []byte(" T")) || bytes.HasPrefix(state, []byte(" t")))
}

// sendPipes creates the pipes and sends their ends to the server. The program may begin before this returns, and then
// gets the signals.
func (t *RemoteRun) sendPipes(stop *pipeline.Stopper) error {
	var theirs []*os.File
	defer func() { backends.CloseAll(theirs) }()
	for i := range t.files {
		r, w, err := os.Pipe()
		if err != nil {
			backends.CloseAll(t.files[:i])
			return err
		}
		if i == 0 {
			r, w = w, r
		}
		t.files[i], theirs = r, append(theirs, w)
	}
	var fds []int
	for _, f := range theirs {
		fds = append(fds, int(f.Fd()))
	}
	stop.ForwardTo(t.signal)
	_, _, err := t.conn.WriteMsgUnix([]byte{'\n'}, unix.UnixRights(fds...), nil)
	if err != nil {
		stop.ForwardTo(nil)
		backends.CloseAll(t.files[:])
	}
	return err
}

// Wait is pipeline.Do for the submitted request. An error other than a *pipeline.Error is ErrLost.
func (t *RemoteRun) Wait(ctx context.Context, q run.Request) (pipeline.Outcome, error) {
	defer t.conn.Close()
	defer close(t.ended)
	go t.sendInput(q.Stdin) // ends with the program or its input
	var buffered [2]bytes.Buffer
	var copies sync.WaitGroup
	for i, to := range []io.Writer{q.Stdout, q.Stderr} {
		if to == nil {
			to = &buffered[i]
		}
		copies.Go(func() {
			_, _ = io.Copy(to, t.files[1+i])
			t.files[1+i].Close() // stop output that is not read
		})
	}
	defer context.AfterFunc(ctx, func() { t.send(runMessage{Cancel: context.Cause(ctx).Error()}) })()
	last, err := t.readResult(q)
	copied := make(chan struct{})
	go func() { copies.Wait(); close(copied) }()
	var up <-chan time.Time
	if last.Result != nil {
		if wait := q.Stop.ReaderTimeout(last.Result.Ended); wait > 0 {
			up = time.After(wait)
		}
	}
	select {
	case <-copied:
	case <-up:
	case <-ctx.Done(): // a hanging reader is not waited for, as in a process of its own
		select {
		case <-copied:
		case <-time.After(200 * time.Millisecond):
		}
	}
	if err != nil {
		return pipeline.Outcome{}, err
	}
	res := *last.Result
	if q.Stdout == nil {
		backends.CloseAll(t.files[1:])
		<-copied
		res.Stdout, res.Stderr = buffered[0].String(), buffered[1].String()
	}
	switch {
	case last.Failed && last.NoProgram != nil:
		return res, errors.Join(res.Refused, last.NoProgram)
	case last.Failed:
		return res, res.Refused
	}
	return res, nil
}

// sendInput writes the program's input.
func (t *RemoteRun) sendInput(from io.Reader) {
	if from != nil {
		_, _ = io.Copy(t.files[0], from)
	}
	t.files[0].Close()
}

// readResult answers the server until it has the result.
func (t *RemoteRun) readResult(q run.Request) (runMessage, error) {
	piece := &io.LimitedReader{R: t.conn}
	for messages := json.NewDecoder(piece); ; {
		var m runMessage
		piece.N = maxAnswer
		if messages.Decode(&m) != nil || m.Failed && (m.Result == nil || m.Result.Refused == nil) {
			return m, ErrLost
		}
		switch {
		case m.Result != nil:
			return m, nil
		case m.Taken != nil:
			select {
			case t.acks <- *m.Taken:
			default:
			}
		case m.Beside != nil:
			var b lintResults
			if q.Beside != nil {
				b.Path, b.OK = q.Beside(*m.Beside)
			}
			t.send(runMessage{Found: &b})
		}
	}
}

// signal forwards a signal, and reports whether a program received it.
func (t *RemoteRun) signal(sig syscall.Signal) bool {
	t.send(runMessage{Signal: int(sig)})
	select {
	case taken := <-t.acks:
		return taken
	case <-t.ended:
	case <-time.After(time.Second): // the server hangs: the next message ends the run
	}
	select {
	case taken := <-t.acks: // the program got it
		return taken
	default:
		return false
	}
}

func (t *RemoteRun) send(m runMessage) {
	b, err := json.Marshal(m)
	if err != nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	_, _ = t.conn.Write(append(b, '\n')) // readResult notices a lost server
}
