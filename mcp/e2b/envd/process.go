package envd

import (
	"cmp"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/sandboxmcp/sandboxmcp/pipeline/session"

	"github.com/sandboxmcp/sandboxmcp/pipeline/inside"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/door"
)

// listProcesses answers with the running processes.
func (c *call) listProcesses(*empty) (any, error) {
	var list listResponse
	for _, r := range inside.Processes(c.pipeline, c.Namespace, c.Session) {
		info := &processInfo{PID: uint32(r.PID), Config: &processConfig{Cmd: r.Args[0], Args: r.Args[1:], Envs: map[string]string{}}}
		for _, kv := range r.Env {
			name, value, _ := strings.Cut(kv, "=")
			info.Config.Envs[name] = value
		}
		if r.Dir != "" {
			info.Config.Cwd = &r.Dir
		}
		if r.Tag != "" {
			info.Tag = &r.Tag
		}
		list.Processes = append(list.Processes, info)
	}
	return &list, nil
}

// start starts a process and sends its output. The process outlives the client, but not the client's time limit.
func (c *call) start(q *startRequest) error {
	if q.Process == nil || q.Process.Cmd == "" {
		return faultf(invalidArgument, "the command is missing")
	}
	p := inside.StartProcess{
		Process: inside.Process{Namespace: c.Namespace, Session: c.Target.Session, Args: append([]string{q.Process.Cmd}, q.Process.Args...)},
		Input:   q.Stdin == nil || *q.Stdin,
	}
	for name, value := range q.Process.Envs {
		p.Env = append(p.Env, name+"="+value)
	}
	slices.Sort(p.Env)
	if q.Process.Cwd != nil {
		p.Dir = *q.Process.Cwd
	}
	if q.Tag != nil {
		p.Tag = *q.Tag
	}
	if q.PTY != nil {
		size := q.PTY.backends()
		p.Size = &size
	}
	r, reader, err := inside.Start(c.ctx, c.pipeline, p)
	if err != nil && p.Dir != "" && strings.Contains(err.Error(), "chdir ") {
		return faultf(invalidArgument, "cwd '%s' does not exist", p.Dir)
	}
	if err != nil {
		return err
	}
	c.remember(r)
	defer reader.Close()
	if c.limit > 0 {
		up := time.AfterFunc(c.limit, func() { r.Signal(syscall.SIGKILL) })
		go func() {
			<-r.Done()
			up.Stop()
		}()
	}
	return c.sendEvents(r, reader)
}

func (t terminal) backends() backends.Size {
	size := terminalSize{}
	if t.Size != nil {
		size = *t.Size
	}
	return backends.Size{Columns: uint16(min(size.Cols, 1<<16-1)), Rows: uint16(min(size.Rows, 1<<16-1))}
}

// connect sends the output of a running process from now on.
func (c *call) connect(q *selected) error {
	r, err := c.lookupProcess(q.Process)
	if err != nil {
		if e, known := c.recall(q.Process); known {
			return cmp.Or(c.send(&processResponse{&processEvent{Start: &startEvent{e.pid}}}), c.send(&processResponse{&processEvent{End: &e.end}}))
		}
		return err
	}
	reader := r.Attach()
	defer reader.Close()
	return c.sendEvents(r, reader)
}

// sendEvents sends the events of a process until it ends.
func (c *call) sendEvents(r *inside.RunningProcess, reader *inside.Reader) error {
	c.keepalive = &processResponse{&processEvent{Keepalive: &empty{}}}
	if err := c.send(&processResponse{&processEvent{Start: &startEvent{uint32(r.PID)}}}); err != nil {
		return err
	}
	for {
		part, err := reader.Next(c.ctx)
		event := &processEvent{}
		switch {
		case err == io.EOF && c.sandboxEnded():
			panic(http.ErrAbortHandler) // the broken connection, and the health check, tell clients that the sandbox has ended
		case err == io.EOF:
			end := endOf(r)
			event.End = &end
		case err != nil:
			return c.contextFault()
		case part.Terminal:
			event.Data = &dataEvent{PTY: part.Data}
		case part.Stderr:
			event.Data = &dataEvent{Stderr: part.Data}
		default:
			event.Data = &dataEvent{Stdout: part.Data}
		}
		if err := c.send(&processResponse{event}); err != nil || event.End != nil {
			return err
		}
	}
}

// sandboxEnded reports whether the sandbox has ended.
func (c *call) sandboxEnded() bool {
	info, err := session.InfoOf(c.pipeline, c.Namespace, c.Session)
	return err != nil || info.State == "dead"
}

// endOf returns the end event of a process.
func endOf(r *inside.RunningProcess) endEvent {
	res, err := r.Result()
	e := endEvent{ExitCode: -1}
	var none *backends.NoProgram
	switch {
	case errors.As(err, &none): // the message of the daemon's shell
		e.ExitCode, e.Exited, e.Status = 127, true, none.Error()
	case err != nil:
		e.Status = "the sandbox has ended"
		if p, is := errors.AsType[*pipeline.Error](err); is && p.Denied {
			e.Status = p.Reason
		}
	case res.Ended == backends.EndedOK:
		return endEvent{Exited: true, Status: "exit status 0"}
	case res.Ended == backends.EndedExit:
		e.ExitCode, e.Exited, e.Status = int32(res.ExitCode), true, "exit status "+strconv.Itoa(res.ExitCode)
	case res.ExitCode > 128:
		e.Status = "signal: " + syscall.Signal(res.ExitCode-128).String()
	default:
		e.Status = "signal: killed"
	}
	e.Error = &e.Status
	return e
}

// processKey is a process of one sandbox.
type processKey struct {
	session string
	pid     uint32
}

// endedProcess is the end of a process, for clients that connect a little late.
type endedProcess struct {
	pid uint32
	tag string
	end endEvent
	at  time.Time
}

// retention is how long the end of a process is kept.
const retention = 30 * time.Second

// remember keeps the end of a process for a while.
func (c *call) remember(r *inside.RunningProcess) {
	s, key := c.Server, processKey{c.Target.Session, uint32(r.PID)}
	s.mu.Lock()
	delete(s.ended, key)
	s.mu.Unlock()
	go func() {
		<-r.Done()
		e := endedProcess{key.pid, r.Tag, endOf(r), time.Now()}
		s.mu.Lock()
		defer s.mu.Unlock()
		for k, old := range s.ended {
			if time.Since(old.at) > retention {
				delete(s.ended, k)
			}
		}
		s.ended[key] = e
	}()
}

// recall returns the end of a process that ended recently.
func (c *call) recall(which *selector) (endedProcess, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key, e := range c.ended {
		if which != nil && key.session == c.Target.Session && time.Since(e.at) <= retention &&
			(which.PID != nil && *which.PID == key.pid || which.Tag != nil && *which.Tag == e.tag && e.tag != "") {
			return e, true
		}
	}
	return endedProcess{}, false
}

// lookupProcess returns the running process that a client selects.
func (c *call) lookupProcess(which *selector) (*inside.RunningProcess, error) {
	if which == nil || which.PID == nil && which.Tag == nil {
		return nil, faultf(unimplemented, "invalid input type: select a process by its pid or tag")
	}
	for _, r := range inside.Processes(c.pipeline, c.Namespace, c.Session) {
		if which.PID != nil && uint32(r.PID) == *which.PID || which.PID == nil && r.Tag == *which.Tag {
			return r, nil
		}
	}
	if which.PID != nil {
		return nil, faultf(notFound, "process with pid %d not found", *which.PID)
	}
	return nil, faultf(notFound, "process with tag %s not found", *which.Tag)
}

// update resizes the terminal of a process.
func (c *call) update(q *updateRequest) (any, error) {
	r, err := c.lookupProcess(q.Process)
	if err != nil {
		return nil, err
	}
	if q.PTY != nil {
		if r.Size == nil {
			return nil, faultf(failed, "tty not assigned to process")
		}
		r.Resize(q.PTY.backends())
	}
	return &empty{}, nil
}

// input sends input to a process.
func (c *call) input(r *inside.RunningProcess, in *processInput) error {
	if in == nil {
		return faultf(unimplemented, "invalid input type")
	}
	data := in.Stdin
	switch {
	case in.PTY != nil && r.Size == nil:
		return faultf(failed, "tty not assigned to process")
	case in.PTY != nil:
		data = in.PTY
	case r.Size != nil:
		return faultf(failed, "tty assigned to process: send pty input")
	}
	switch err := r.Send(c.ctx, data); {
	case errors.Is(err, inside.ErrNoInput), errors.Is(err, inside.ErrEnded):
		return faultf(failed, "stdin not enabled or closed")
	default:
		return err
	}
}

func (c *call) sendInput(q *inputRequest) (any, error) {
	r, err := c.lookupProcess(q.Process)
	if err == nil {
		err = c.input(r, q.Input)
	}
	return &empty{}, err
}

// maxQuiet bounds the silence of a client that streams input: it sends keepalives more often.
const maxQuiet = 10 * time.Minute

// streamInput sends the parts of a stream to a process, in order.
func (c *call) streamInput() error {
	var r *inside.RunningProcess
	door.AllowSlowBody(c.r, maxQuiet)
	for {
		var q streamInputRequest
		err := c.receive(&q)
		if err == io.EOF {
			return c.reply(&empty{})
		}
		if err == nil && q.Start != nil {
			r, err = c.lookupProcess(q.Start.Process)
		}
		if err == nil && q.Data != nil && r == nil {
			err = faultf(failed, "the stream does not begin with a process")
		} else if err == nil && q.Data != nil {
			err = c.input(r, q.Data.Input)
		}
		if err != nil {
			return err
		}
		door.VisitOf(c.ctx).ReleaseBody()
	}
}

func (c *call) sendSignal(q *signalRequest) (any, error) {
	r, err := c.lookupProcess(q.Process)
	if err != nil {
		return nil, err
	}
	if q.Signal != 2 && q.Signal != 9 && q.Signal != 15 {
		return nil, faultf(unimplemented, "invalid signal: %d", q.Signal)
	}
	if err := r.Signal(syscall.Signal(q.Signal)); err != nil {
		return nil, faultf(internal, "error sending signal: %v", err)
	}
	if q.Signal == 9 { // so that it is no longer listed
		select {
		case <-r.Done():
		case <-c.ctx.Done():
		}
	}
	return &empty{}, nil
}

func (c *call) closeStdin(q *selected) (any, error) {
	r, err := c.lookupProcess(q.Process)
	switch {
	case err != nil:
		return nil, err
	case r.Size != nil:
		return nil, faultf(failed, "a terminal's stdin can't be closed: send Ctrl+D (0x04) instead")
	case r.CloseInput() != nil:
		return nil, faultf(failed, "stdin not enabled or closed")
	}
	return &empty{}, nil
}
