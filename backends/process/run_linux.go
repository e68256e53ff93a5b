package process

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/process/launch"
)

// Exec implements [backends.Sandbox].
func (s *Sandbox) Exec(ctx context.Context, cmd backends.Command, streams backends.Streams) (backends.Result, error) {
	return s.Run(ctx, cmd, func(poke func()) (*Program, error) { return s.StartProgram(ctx, cmd, streams, poke) }, streams)
}

// Run runs a command. start starts its program, and calls poke when the program receives input.
func (s *Sandbox) Run(
	ctx context.Context, cmd backends.Command, start func(poke func()) (*Program, error), streams backends.Streams,
) (backends.Result, error) {
	if err := CheckCommand(cmd); err != nil {
		return backends.Result{}, err
	}
	done, err := s.keepOpen()
	if err != nil {
		return backends.Result{}, err
	}
	defer done()
	w := s.startWatcher(cmd.Lasting())
	defer w.stop()
	begun := time.Now()
	one, err := start(w.inputReceived)
	if err != nil {
		return backends.Result{}, s.backend.diagnose(s, err)
	}
	defer one.pipes.close()
	end, failed := s.await(ctx, one.PID, w, cmd.Lasting(), streams)
	switch {
	case !s.keep && end.alone && s.HasNamespaces():
		s.exited.Store(true)
		s.Init.startKill()
	case !s.keep:
		s.kill()
	case cmd.Main:
		s.killAll()
	}
	one.pipes.drain(s.keep && !cmd.Main)
	if failed != nil {
		return backends.Result{}, s.noProgram(cmd, one.plan.explain(*failed))
	}
	r := s.resultOf(end, w)
	r.Contained, r.Wall = one.Contained, time.Since(begun)
	return r, nil
}

// StartProgram starts a command's program.
func (s *Sandbox) StartProgram(ctx context.Context, cmd backends.Command, streams backends.Streams, poke func()) (*Program, error) {
	pipes := &pipes{terminal: streams.Terminal, closed: make(chan struct{})}
	if streams.Terminal == nil {
		var err error
		if pipes, err = s.newPipes(); err != nil {
			return nil, err
		}
	}
	channel, err := ConnectChannel(streams.Channel, poke)
	if err != nil {
		pipes.closeProgramEnds()
		pipes.close()
		return nil, err
	}
	defer channel.Close()
	p := s.backend.execPlan(s, cmd, pipes, channel)
	begun, err := s.startProcess(ctx, p, pipes, launch.ForProgram)
	pipes.closeProgramEnds()
	if p.master != nil {
		pipes.ours[1] = p.master
	}
	if err != nil {
		pipes.close()
		return nil, err
	}
	if streams.Begun != nil {
		streams.Begun(begun.Contained)
	}
	pipes.attach(streams, p.master) // after the start: a caller that cancels at the first output cancels no start
	return &begun, nil
}

// programEnd describes how a command ended.
type programEnd struct {
	reason string // one of backends.Ended, if the server ended it
	limit  string
	status unix.WaitStatus
	known  bool // status is valid
	alone  bool // it was the last process
	cpu    time.Duration
	rss    int64
	lost   int64 // see lost
}

// await waits for the program's end, or causes it. failed is set if its execve failed after its status was sent.
func (s *Sandbox) await(ctx context.Context, pid int32, w *watcher, lasting bool, streams backends.Streams) (e programEnd,
	failed *launch.Message) {
	var up <-chan time.Time
	if !lasting {
		up = time.After(s.limits.Wall)
	}
	life := s.record(pid)
	defer s.forget(pid)
	for waiting := true; waiting; {
		waiting = false
		select {
		case m := <-life.exit:
			return s.endOf(m), life.failed
		case <-streams.Interrupt:
			s.signal(s.processGroup(int(pid)), unix.SIGINT)
			waiting = true
		case <-streams.Terminate:
			s.signal(s.processGroup(int(pid)), unix.SIGTERM)
			waiting = true
		case <-up:
			e = programEnd{reason: backends.EndedTimeout, limit: "wall"}
		case <-ctx.Done():
			e = programEnd{reason: backends.EndedCancelled}
		case limit := <-w.exceeded:
			e = programEnd{reason: backends.EndedLimit, limit: limit}
			if limit == "ram" {
				e.reason = backends.EndedOOM
			}
		case <-s.gone:
		}
	}
	select { // it may have ended by itself at the same moment
	case m := <-life.exit:
		return s.endOf(m), life.failed
	default:
	}
	e.lost = s.lostPackets()
	if !s.keep {
		s.kill()
		return e, nil
	}
	s.killTree(int(pid))
	s.awaitExit(pid)
	return e, nil
}

// endOf converts PID 1's message about the end of a program.
func (s *Sandbox) endOf(m launch.Message) programEnd {
	return programEnd{
		lost:   s.lostPackets(),
		status: unix.WaitStatus(m.Wait), known: true, alone: m.Alone == 1,
		cpu: time.Duration(m.CPU) * time.Microsecond, rss: m.MaxRSS << 10,
	}
}

// resultOf converts the end to a Result.
func (s *Sandbox) resultOf(e programEnd, w *watcher) backends.Result {
	r := backends.Result{End: backends.End{Ended: e.reason, Limit: e.limit}, CPU: max(e.cpu, time.Duration(w.cpu.Load())),
		PeakMemory: max(e.rss, w.peak.Load()), Lost: e.lost}
	kills := int64(0)
	if s.cgroup != nil {
		kills = s.cgroup.OOMKills()
		if !s.inContainer { // there it counts us, too
			r.PeakMemory = max(r.PeakMemory, s.cgroup.Peak()) // v2 has it since 5.19
		}
		if s.cgroup.ForksRefused() > 0 {
			r.Hit = append(r.Hit, "processes")
		}
		if cpu := s.cgroup.CPU(); cpu > 0 {
			r.CPU = cpu
		}
	}
	if w.crowded.Load() {
		r.Hit = append(r.Hit, "processes")
	}
	if s.diskFull() {
		r.Hit = append(r.Hit, "disk")
	}
	switch {
	case r.Ended != "":
		r.ExitCode, r.Signal = 128+int(unix.SIGKILL), "SIGKILL"
		if r.Ended == backends.EndedTimeout {
			r.ExitCode = 124
		}
	// The kernel may have killed a child, and the program ended before the watcher could end it.
	case kills > 0 && (!e.known || e.status.Signaled() && e.status.Signal() == unix.SIGKILL || !s.keep && e.status.Exited() &&
		e.status.ExitStatus() != 0):
		r.Ended, r.Limit, r.ExitCode, r.Signal = backends.EndedOOM, "ram", 128+int(unix.SIGKILL), "SIGKILL"
	case !e.known:
		r.Ended, r.ExitCode, r.Signal = backends.EndedSignal, 128+int(unix.SIGKILL), "SIGKILL"
	case e.status.Signaled():
		sig := e.status.Signal()
		r.Ended, r.ExitCode, r.Signal = backends.EndedSignal, 128+int(sig), cmp.Or(unix.SignalName(sig), fmt.Sprintf("signal %d", sig))
		// The program can send itself these signals, too: check that the usage fits.
		if sig == unix.SIGXCPU && r.CPU >= s.limits.Wall {
			r.Ended, r.Limit = backends.EndedLimit, "cpu"
		} else if sig == unix.SIGXFSZ && s.diskFull() {
			r.Ended, r.Limit = backends.EndedLimit, "disk"
		}
	case e.status.ExitStatus() != 0:
		r.Ended, r.ExitCode = backends.EndedExit, e.status.ExitStatus()
	default:
		r.Ended = backends.EndedOK
	}
	if kills > 0 && r.Limit != "ram" {
		r.Hit = append(r.Hit, "ram")
	}
	return r
}
