package control

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/operation"
)

// run runs a client's submission here if that makes no difference to the client.
func (a *API) run(w http.ResponseWriter, r *http.Request) {
	uid, known := r.Context().Value(peerKey{}).(int)
	if like := r.Header.Get(alikeHeader); a.c.Runs == nil || !known || uid != os.Geteuid() || like == "" || like != a.c.Alike() {
		deny(w, failure(http.StatusPreconditionFailed, "%v", errUnlike))
		return
	}
	var q Submission
	body := json.NewDecoder(r.Body)
	body.DisallowUnknownFields() // another version may have other fields
	if err := body.Decode(&q); err != nil {
		deny(w, operation.Invalid{"read the submission: " + err.Error()})
		return
	}
	if !a.c.Runs.HasFreeSlots(q.Request.Limits) {
		deny(w, failure(http.StatusServiceUnavailable, "%v", errFull)) // a process of its own would not queue
		return
	}
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		deny(w, err)
		return
	}
	h := &submittedRun{conn: conn, found: make(chan lintResults, 1)}
	defer h.obeying.Wait()
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(a.pace.read))
	_, err = io.WriteString(conn, ready)
	if err == nil {
		h.files, err = pipes(conn)
	}
	if err != nil { // the client has gone
		a.c.Log.Debug("control: a run was not begun", "error", err)
		return
	}
	_ = conn.SetDeadline(time.Time{})
	ctx := pipeline.WithCaller(r.Context(), pipeline.Caller{}) // its rows look as those of a process of its own
	a.c.Sweep(ctx)
	if answer := h.runSubmission(ctx, a.c.Runs, q); ctx.Err() == nil { // else the server is shutting down
		h.send(answer)
	}
}

// pipes receives the three pipes of a client. They are non-blocking, and must be pipes: a file or a device could
// block this process.
func pipes(conn net.Conn) (files []*os.File, err error) {
	known, ok := conn.(*known)
	if !ok {
		return nil, errors.New("unknown kind of connection")
	}
	socket, ok := known.Conn.(*net.UnixConn)
	if !ok {
		return nil, errors.New("the connection is not a Unix socket")
	}
	data, control := make([]byte, 1), make([]byte, unix.CmsgSpace(16*4))
	_, n, _, _, err := socket.ReadMsgUnix(data, control)
	if err != nil {
		return nil, err
	}
	messages, err := unix.ParseSocketControlMessage(control[:n])
	for _, m := range messages {
		fds, _ := unix.ParseUnixRights(&m)
		for _, fd := range fds {
			var stat unix.Stat_t
			if e := errors.Join(unix.Fstat(fd, &stat), unix.SetNonblock(fd, true)); e != nil || stat.Mode&unix.S_IFMT != unix.S_IFIFO {
				err = errors.Join(err, e, errors.New("a client sent a file that is not a pipe"))
			}
			files = append(files, os.NewFile(uintptr(fd), "pipe"))
		}
	}
	if err == nil && len(files) != 3 {
		err = errors.New("a client did not send three pipes")
	}
	if err != nil {
		backends.CloseAll(files)
		return nil, err
	}
	return files, nil
}

// submittedRun is a run of a client.
type submittedRun struct {
	conn    net.Conn
	files   []*os.File
	found   chan lintResults
	obeying sync.WaitGroup

	mu sync.Mutex
}

func (h *submittedRun) send(m runMessage) {
	b, err := json.Marshal(m)
	if err != nil { // the client notices the missing result
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	_, _ = h.conn.Write(append(b, '\n')) // handleMessages notices a lost client
}

// runSubmission runs it, and returns the last message. It closes the pipes before.
func (h *submittedRun) runSubmission(ctx context.Context, p *pipeline.Pipeline, q Submission) runMessage {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := &pipeline.Stopper{Grace: q.Grace}
	q.Request.Stop, q.Request.Stdin, q.Request.Stdout, q.Request.Stderr = stop, h.files[0], h.files[1], h.files[2]
	if q.Beside {
		q.Request.Beside = func(name string) (string, bool) {
			h.send(runMessage{Beside: &name})
			select {
			case b := <-h.found:
				return b.Path, b.OK
			case <-ctx.Done():
				return "", false
			}
		}
	}
	h.obeying.Go(func() { h.handleMessages(stop, cancel) }) // ends when the caller closes the connection
	_, res, err := pipeline.Do(ctx, p, q.Request)
	backends.CloseAll(h.files)
	res.Stdout, res.Stderr = "", ""
	last := runMessage{Result: &res, Failed: err != nil}
	if no, ok := errors.AsType[*backends.NoProgram](err); ok {
		last.NoProgram = no
	}
	return last
}

// handleMessages executes the client's messages, until its connection ends.
func (h *submittedRun) handleMessages(stop *pipeline.Stopper, cancel context.CancelCauseFunc) {
	for messages := json.NewDecoder(io.LimitReader(h.conn, maxBody)); ; {
		var m runMessage
		if messages.Decode(&m) != nil {
			cancel(errGone)
			return
		}
		switch {
		case m.Cancel != "":
			cancel(errors.New(m.Cancel))
		case m.Signal != 0:
			taken := stop.Signal(syscall.Signal(m.Signal))
			h.send(runMessage{Taken: &taken})
		case m.Found != nil:
			select {
			case h.found <- *m.Found:
			default: // unsolicited
			}
		}
	}
}
