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

// maxOffer is how long servers may take to take a run on, all together. One that is alive does so at once, even on a
// busy machine; one that is stopped, as Ctrl-Z stops an agent with its server, is not asked.
const maxOffer = time.Second

// RemoteRun is a run that a server has taken on.
type RemoteRun struct {
	conn  *net.UnixConn
	files [3]*os.File // our ends of the pipes
	acks  chan bool   // whether a signal was taken
	ended chan struct{}

	mu sync.Mutex
}

// Submit hands a run over to a server of this very user whose socket is in dir, and that goes by the same as alike says.
// It returns nil if none takes it at once, and then none runs it later. What it returns runs it, and must be told to Do
// the rest; nothing of its input is read before.
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

// marshalLossless writes a run as JSON, if JSON can hold all of it: text that is not UTF-8 can't be.
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

// submit asks one server whether it takes the run on.
func (t *RemoteRun) submit(ctx context.Context, alike string, body []byte) error {
	server, err := credentials(t.conn)
	if err != nil || int(server.Uid) != os.Geteuid() || stopped(server.Pid) { // root's server does more than this user's own process could
		return errors.Join(errUnlike, err)
	}
	deadline, _ := ctx.Deadline()
	_ = t.conn.SetDeadline(deadline)
	defer t.conn.SetDeadline(time.Time{})
	_, err = fmt.Fprintf(t.conn, "POST /v1/runs HTTP/1.1\r\nHost: server\r\nConnection: Upgrade\r\nUpgrade: %s\r\n%s: %s\r\nContent-Length: %d\r\n\r\n%s",
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
	state := stat[bytes.LastIndexByte(stat, ')')+1:] // before it is the name, which may hold anything
	return err == nil && (bytes.HasPrefix(state, []byte(" T")) || bytes.HasPrefix(state, []byte(" t")))
}

// sendPipes makes the pipes, and sends the server its ends. The program may begin before this returns, and signals are
// its own from then on.
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

// Wait is pipeline.Do for the request that was offered. An error that is no *pipeline.Error is ErrLost.
func (t *RemoteRun) Wait(ctx context.Context, q run.Request) (pipeline.Outcome, error) {
	defer t.conn.Close()
	defer close(t.ended)
	go t.sendInput(q.Stdin) // ends with the program, or with its input
	var buffered [2]bytes.Buffer
	var copies sync.WaitGroup
	for i, to := range []io.Writer{q.Stdout, q.Stderr} {
		if to == nil {
			to = &buffered[i]
		}
		copies.Go(func() {
			_, _ = io.Copy(to, t.files[1+i])
			t.files[1+i].Close() // what nobody wants is not written any more
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
	case <-ctx.Done(): // as in a process of its own, a reader that hangs is not waited for then
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

// signal hands a signal on, and says whether a program got it.
func (t *RemoteRun) signal(sig syscall.Signal) bool {
	t.send(runMessage{Signal: int(sig)})
	select {
	case taken := <-t.acks:
		return taken
	case <-t.ended:
	case <-time.After(time.Second): // it hangs: what is told next is the end
	}
	select {
	case taken := <-t.acks: // and the program ended because of it
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
	_, _ = t.conn.Write(append(b, '\n')) // that the server has gone is seen where it is read from
}
