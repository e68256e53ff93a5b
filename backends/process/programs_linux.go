package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/process/launch"
)

// Program is a command's process.
type Program struct {
	PID       int32 // in the sandbox
	Contained backends.Containment
	pipes     *pipes
	plan      *plan // that it executed
}

// Attach connects a program that StartAhead has started to a caller's streams.
func (p *Program) Attach(streams backends.Streams) {
	p.pipes.attach(streams, nil)
	if streams.Begun != nil {
		streams.Begun(p.Contained)
	}
}

// Close closes the server's descriptors of a program that has no caller; the program does not end.
func (p *Program) Close() { p.pipes.close() }

// StartAhead starts a program without streams. whom is launch.ForProgram, or launch.ForHeld if PID 1 is a forker's.
func (s *Sandbox) StartAhead(ctx context.Context, cmd backends.Command, channel *os.File, whom byte) (*Program, error) {
	pipes, err := s.newPipes()
	if err != nil {
		return nil, err
	}
	one, err := s.startProcess(ctx, s.backend.execPlan(s, cmd, pipes, channel), pipes, whom)
	pipes.closeProgramEnds()
	if err != nil {
		pipes.close()
		return nil, err
	}
	return &one, nil
}

// HasEnded reports whether a program, or PID 1, has ended.
func (s *Sandbox) HasEnded(pid int32) bool {
	select {
	case <-s.gone:
		return true
	default:
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	life := s.lives[pid]
	return life != nil && len(life.exit) > 0
}

// KillProgram kills a program and its descendants.
func (s *Sandbox) KillProgram(pid int32) {
	s.killTree(int(pid))
	s.awaitExit(pid)
}

// receiveMessages dispatches PID 1's messages until PID 1 is gone.
func (s *Sandbox) receiveMessages() {
	defer s.hooks.Ended(0)
	defer close(s.gone)
	buf := make([]byte, int(messageSize)+linkSize*len(namespaceLinks)+statusSize)
	for {
		n, files, err := receive(s.control, buf)
		if err != nil || n < int(messageSize) {
			backends.CloseAll(files)
			return
		}
		var m launch.Message
		copy(messageBytes(&m), buf)
		if s.storeMessage(m) {
			continue
		}
		select {
		case s.starts <- report{m, append([]byte(nil), buf[messageSize:n]...), files}:
		case <-time.After(time.Second): // nobody receives it: an Exec that gave up
			backends.CloseAll(files)
		}
	}
}

// storeMessage stores a message about a program after its status, or about one whose start knows its failure, and
// reports whether m was one. Other messages are for the start in progress, including the end of a process that was
// killed before it could send any.
func (s *Sandbox) storeMessage(m launch.Message) bool {
	switch l := s.record(m.Pid); m.Kind {
	case launch.Status:
		l.ready = true
	case launch.Failed:
		if l.ready {
			l.failed = &m
		}
		l.denied = !l.ready
		return l.ready
	case launch.Exited:
		if !l.ready && !l.denied {
			s.forget(m.Pid)
			return false
		}
		select {
		case l.exit <- m:
			s.hooks.Ended(m.Pid)
		default: // nobody has waited for the last program with that PID
			s.forget(m.Pid)
		}
		return true
	}
	return false
}

// record returns the record of the program pid, and creates one for a new PID.
func (s *Sandbox) record(pid int32) *programRecord {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lives[pid] == nil {
		s.lives[pid] = &programRecord{exit: make(chan launch.Message, 1)}
	}
	return s.lives[pid]
}

// forget removes the record of the program pid, which may be reused.
func (s *Sandbox) forget(pid int32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.lives, pid)
}

// statusTime bounds a cancelled start's wait for a status that was already sent.
const statusTime = 100 * time.Millisecond

// startProcess has PID 1 fork a process that executes p, and waits for its status. With an error, only the pipes
// and the plan are valid.
func (s *Sandbox) startProcess(ctx context.Context, p *plan, pipes *pipes, whom byte) (Program, error) {
	one := Program{pipes: pipes, plan: p}
	s.starting.Lock()
	defer s.starting.Unlock()
	ctx, cancel := s.backend.WithDeadline(ctx)
	defer cancel()
	s.begun.Add(1)
	if err := send(s.Init, p, whom); err != nil {
		return one, fmt.Errorf("send to PID 1: %w", err)
	}
	var pid int32
	var failed, killed error
	var late <-chan time.Time
	for done := ctx.Done(); failed == nil && killed == nil && one.PID == 0; {
		select {
		case m := <-s.starts:
			switch pid = m.Pid; m.Kind {
			case launch.Failed:
				failed = p.explain(m.Message)
			case launch.Status:
				one.PID, one.Contained = pid, s.parseContainment(m.text)
				one.Contained.PID = int(pid)
				if len(m.files) > 0 {
					p.master = m.files[0]
				}
			case launch.Exited:
				killed = fmt.Errorf("start the program: its process ended before it became the program: %s", waitText(m.Wait))
			}
		case <-s.gone:
			return one, errors.New("PID 1 of the sandbox is dead")
		case <-done: // perhaps by a caller that saw the program run: then its status is on the way, and the program has ended
			done, late = nil, time.After(statusTime)
		case <-late:
			at := "PID 1's fork"
			if host, err := s.HostPID(); err == nil {
				at = p.whereabouts(host)
			}
			s.kill()
			return one, fmt.Errorf("start the program: %w: it is in %s", stopReason(ctx), at)
		}
	}
	if killed != nil {
		s.distrust()
		return one, killed
	}
	if failed != nil {
		if step, is := errors.AsType[*stepError](failed); is && !strings.HasPrefix(step.step, execve) {
			s.distrust()
		}
		if pid > 0 { // otherwise it was not even forked
			s.awaitExit(pid)
		}
		return one, failed
	}
	err := s.checkRequired(one.Contained)
	if err != nil { // a layer is missing
		s.distrust()
		s.kill()
	}
	return one, err
}

// waitText describes how a process with a wait status has ended.
func waitText(status int32) string {
	if w := unix.WaitStatus(status); w.Signaled() {
		return unix.SignalName(w.Signal())
	}
	return fmt.Sprintf("exit %d", unix.WaitStatus(status).ExitStatus())
}

// awaitExit waits for the end of a process that did not become a program, so that its PID is free before it is
// reused.
func (s *Sandbox) awaitExit(pid int32) {
	select {
	case <-s.record(pid).exit:
	case <-s.gone:
	case <-time.After(s.backend.config.KillTimeout):
		s.kill() // it does not end by itself: no further program can run here
	}
	s.forget(pid)
}

// kill ends every process of the sandbox and returns when they are gone.
func (s *Sandbox) kill() {
	if s.Init != nil {
		s.Init.kill()
	}
}
