package process

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/process/launch"
)

// Exec implements [backends.Sandbox].
func (s *sandbox) Exec(ctx context.Context, cmd backends.Command, streams backends.Streams) (backends.Result, error) {
	if err := checkCommand(cmd); err != nil {
		return backends.Result{}, err
	}
	done, err := s.use()
	if err != nil {
		return backends.Result{}, err
	}
	defer done()
	w := s.watch(cmd.Main)
	defer w.stop()
	begun := time.Now()
	one, err := s.launch(ctx, cmd, streams, w)
	if err != nil {
		return backends.Result{}, s.backend.diagnose(s, err)
	}
	defer one.pipes.close()
	end, failed := s.await(ctx, one.pid, w, cmd.Main, streams)
	switch {
	case !s.keep && end.alone && !s.shared():
		s.exited.Store(true)
		s.initHandle.end()
	case !s.keep:
		s.kill()
	case cmd.Main:
		s.killAll()
	}
	one.pipes.drain(s.keep && !cmd.Main)
	if failed != nil {
		return backends.Result{}, s.notExecuted(cmd, one.plan.explain(*failed))
	}
	r := s.outcome(end, w)
	r.Contained, r.Wall = one.contained, time.Since(begun)
	r.Warm, r.Cold = one.warm, one.cold
	return r, nil
}

// launched is a command's process.
type launched struct {
	pid       int32 // inside
	contained backends.Containment
	pipes     *pipes
	plan      *plan  // that it followed
	warm      bool   // it stood ready
	cold      string // why not
}

// launch has a command begin, in the process that stands ready for it if there is one.
func (s *sandbox) launch(ctx context.Context, cmd backends.Command, streams backends.Streams, w *watcher) (*launched, error) {
	one, warm, why := s.launchWarm(ctx, cmd, streams)
	if one != nil {
		return one, nil
	}
	pipes := &pipes{terminal: streams.Terminal, closed: make(chan struct{})}
	if streams.Terminal == nil {
		var err error
		if pipes, err = s.newPipes(); err != nil {
			return nil, err
		}
	}
	channel, err := connectChannel(streams.Channel, w.poke)
	if err != nil {
		pipes.started()
		pipes.close()
		return nil, err
	}
	defer channel.Close()
	p := s.backend.execPlan(s, cmd, pipes, channel)
	pid, contained, err := s.begin(ctx, p, launch.ForProgram)
	pipes.started()
	if p.master != nil {
		pipes.ours[1] = p.master
	}
	if err != nil {
		pipes.close()
		return nil, err
	}
	if streams.Begun != nil {
		streams.Begun(contained)
	}
	pipes.attach(streams, p.master) // not before: a caller who cancels at the first output cancels no start
	return &launched{pid: pid, contained: contained, pipes: pipes, plan: p, warm: warm, cold: why}, nil
}

// checkCommand refuses what execve can't be given.
func checkCommand(cmd backends.Command) error {
	if len(cmd.Args) == 0 || cmd.Args[0] == "" {
		return errors.New("no command")
	}
	for _, s := range slices.Concat(cmd.Args, cmd.Env, []string{cmd.Dir}) {
		if strings.ContainsRune(s, 0) {
			return errors.New("an argument, an environment variable or the working folder contains a NUL byte")
		}
	}
	for _, kv := range cmd.Env {
		if i := strings.IndexByte(kv, '='); i <= 0 {
			return errors.New("an environment variable is not of the form KEY=VALUE")
		}
	}
	return nil
}

// begin has PID 1 fork a process that follows p, and waits until that says how it is contained.
func (s *sandbox) begin(ctx context.Context, p *plan, whom byte) (int32, backends.Containment, error) {
	s.starting.Lock()
	defer s.starting.Unlock()
	ctx, cancel := s.backend.starting(ctx)
	defer cancel()
	s.begun.Add(1)
	if err := send(s.initHandle, p, whom); err != nil {
		return 0, backends.Containment{}, fmt.Errorf("send to PID 1: %w", err)
	}
	var pid int32
	var contained *backends.Containment
	var failed error
	for failed == nil && contained == nil || pid == 0 {
		select {
		case m := <-s.starts:
			switch m.Kind {
			case launch.Started:
				pid = m.Pid
			case launch.Failed:
				if failed = p.explain(m.Message); m.Index < 0 {
					pid = -1 // it was not even forked
				}
			case launch.Status:
				c := s.contained(m.text)
				contained = &c
				if len(m.files) > 0 {
					p.master = m.files[0]
				}
			}
		case <-s.gone:
			return 0, backends.Containment{}, errors.New("PID 1 of the sandbox is dead")
		case <-ctx.Done():
			at := "PID 1's fork"
			if host, err := s.hostPid(); err == nil {
				at = p.whereabouts(host)
			}
			s.kill()
			return 0, backends.Containment{}, fmt.Errorf("start the program: %w: it is in %s", stopped(ctx), at)
		}
	}
	if failed != nil {
		if pid > 0 {
			s.awaitExit(pid)
		}
		return 0, backends.Containment{}, failed
	}
	if err := s.satisfies(*contained); err != nil {
		s.kill()
		return 0, *contained, err
	}
	return pid, *contained, nil
}

// awaitExit waits for the end of a process that did not become a program, or its number would still
// be taken when it comes again.
func (s *sandbox) awaitExit(pid int32) {
	select {
	case <-s.life(pid).exit:
	case <-s.gone:
	case <-time.After(s.backend.config.killTimeout()):
		s.kill() // it does not end by itself alone: nothing more can run here
	}
	s.forget(pid)
}

// satisfies checks the layers that policy requires against those that the kernel confirmed.
func (s *sandbox) satisfies(c backends.Containment) error {
	for _, name := range s.require {
		i := slices.IndexFunc(c.Layers, func(l backends.Layer) bool { return l.Name == name })
		if i < 0 {
			return refusal(name, "the process backend has no such layer")
		}
		if !c.Layers[i].InForce {
			return refusal(name, c.Layers[i].Detail)
		}
	}
	return nil
}

// end is why and how a command ended.
type end struct {
	reason string // one of backends.Ended, where we ended it
	limit  string
	status unix.WaitStatus
	known  bool // status is
	alone  bool // no other process was alive then
	cpu    time.Duration
	rss    int64
	lost   int64 // see lost
}

// await waits for the program's end, or brings it about. failed is set when its execve did not
// succeed: its process had said before that it was ready.
func (s *sandbox) await(ctx context.Context, pid int32, w *watcher, main bool, streams backends.Streams) (e end, failed *launch.Message) {
	var up <-chan time.Time
	if !main {
		wall := time.NewTimer(s.limits.Wall)
		defer wall.Stop()
		up = wall.C
	}
	life := s.life(pid)
	defer s.forget(pid)
	for waiting := true; waiting; {
		waiting = false
		select {
		case m := <-life.exit:
			return s.ended(m), life.failed
		case <-streams.Interrupt:
			s.signal(s.group(int(pid)), unix.SIGINT)
			waiting = true
		case <-streams.Terminate:
			s.signal(s.group(int(pid)), unix.SIGTERM)
			waiting = true
		case <-up:
			e = end{reason: backends.EndedTimeout, limit: "wall"}
		case <-ctx.Done():
			e = end{reason: backends.EndedCancelled}
		case limit := <-w.exceeded:
			e = end{reason: backends.EndedLimit, limit: limit}
			if limit == "ram" {
				e.reason = backends.EndedOOM
			}
		case <-s.gone:
		}
	}
	select { // it may have ended by itself at the same moment
	case m := <-life.exit:
		return s.ended(m), life.failed
	default:
	}
	e.lost = s.lost()
	if !s.keep {
		s.kill()
		return e, nil
	}
	s.killTree(int(pid))
	s.awaitExit(pid)
	return e, nil
}

func (s *sandbox) ended(m launch.Message) end {
	return end{
		lost:   s.lost(),
		status: unix.WaitStatus(m.Wait), known: true, alone: m.Alone == 1,
		cpu: time.Duration(m.CPU) * time.Microsecond, rss: m.MaxRSS << 10,
	}
}

// outcome puts the end into the contract's words.
func (s *sandbox) outcome(e end, w *watcher) backends.Result {
	r := backends.Result{Ended: e.reason, Limit: e.limit, CPU: max(e.cpu, time.Duration(w.cpu.Load())), PeakMemory: max(e.rss, w.peak.Load()), Lost: e.lost}
	kills := int64(0)
	if s.cgroup != nil {
		kills = s.cgroup.OOMKills()
		if !s.inContainer { // where it counts us, too
			r.PeakMemory = max(r.PeakMemory, s.cgroup.Peak()) // v2 has told it since 5.19
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
	case kills > 0 && (!e.known || e.status.Signaled() && e.status.Signal() == unix.SIGKILL):
		r.Ended, r.Limit, r.ExitCode, r.Signal = backends.EndedOOM, "ram", 128+int(unix.SIGKILL), "SIGKILL"
	case !e.known:
		r.Ended, r.ExitCode, r.Signal = backends.EndedSignal, 128+int(unix.SIGKILL), "SIGKILL"
	case e.status.Signaled():
		sig := e.status.Signal()
		r.Ended, r.ExitCode, r.Signal = backends.EndedSignal, 128+int(sig), cmp.Or(unix.SignalName(sig), fmt.Sprintf("signal %d", sig))
		// The program can send itself these, too: believe only what fits.
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

// pipes connect a program's descriptors 0, 1 and 2 with the caller's streams.
type pipes struct {
	theirs   [3]*os.File
	ours     [3]*os.File
	copies   sync.WaitGroup
	terminal *backends.Terminal // that it has instead; the program's process makes it
	closed   chan struct{}      // by close, if there is a terminal
}

// newPipes makes them. An empty input is a pipe, too: what is kept ready does not know what it will get.
func (s *sandbox) newPipes() (*pipes, error) {
	p := &pipes{}
	var err error
	for i := range p.ours {
		if err == nil && i == 0 {
			p.theirs[i], p.ours[i], err = pipe(1)
		} else if err == nil {
			p.ours[i], p.theirs[i], err = pipe(0)
		}
		// A program may open /dev/stdout again, and the pipe is a file with an owner.
		if err == nil && s.uid != 0 {
			err = p.theirs[i].Chown(s.uid, s.uid)
		}
	}
	if err != nil {
		p.started()
		p.close()
		return nil, fmt.Errorf("make pipes: %w", err)
	}
	return p, nil
}

// pipe makes a pipe of which we poll only the end that we keep: 0, to read, or 1, to write.
func pipe(ours int) (r, w *os.File, err error) {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		return nil, nil, os.NewSyscallError("pipe2", err)
	}
	_, err = unix.FcntlInt(uintptr(fds[ours]), unix.F_SETFL, unix.O_NONBLOCK)
	r, w = os.NewFile(uintptr(fds[0]), "|0"), os.NewFile(uintptr(fds[1]), "|1")
	return r, w, err
}

// attach connects our ends, or a terminal's master, with the caller's streams.
func (p *pipes) attach(streams backends.Streams, master *os.File) {
	if master != nil {
		p.attachTerminal(master, streams)
		return
	}
	if streams.Stdin == nil {
		p.ours[0].Close()
	} else {
		go func(w *os.File) {
			io.Copy(w, streams.Stdin)
			w.Close()
		}(p.ours[0])
	}
	for i, to := range []io.Writer{streams.Stdout, streams.Stderr} {
		p.copy(to, p.ours[i+1])
	}
}

// copy moves what the program writes to the caller, and goes on when the caller does not want it.
func (p *pipes) copy(to io.Writer, from *os.File) {
	p.copies.Go(func() {
		if to == nil {
			to = io.Discard
		}
		buf := copyBuffers.Get().(*[32 << 10]byte)
		defer copyBuffers.Put(buf)
		// A file would make a buffer of its own.
		_, err := io.CopyBuffer(to, struct{ io.Reader }{from}, buf[:])
		if errors.Is(err, os.ErrDeadlineExceeded) {
			err = copyRemaining(to, from)
		}
		if err != nil {
			io.Copy(io.Discard, from)
		}
	})
}

var copyBuffers = sync.Pool{New: func() any { return new([32 << 10]byte) }}

// copyRemaining moves what is still in a pipe whose time is up: it was written in time, and to was slow to take what came
// before, as on a machine that is busy.
func copyRemaining(to io.Writer, from *os.File) error {
	raw, err := from.SyscallConn()
	if err != nil {
		return err
	}
	left := 0
	if e := raw.Control(func(fd uintptr) { left, err = unix.IoctlGetInt(int(fd), unix.TIOCINQ) }); e != nil || err != nil {
		return errors.Join(e, err)
	}
	if err := from.SetReadDeadline(time.Time{}); err != nil { // nobody else reads, so this does not wait
		return err
	}
	_, err = io.CopyN(to, from, int64(left))
	return errors.Join(err, from.SetReadDeadline(time.Unix(1, 0)))
}

// started closes the ends that the program has now.
func (p *pipes) started() {
	for _, f := range p.theirs {
		if f != nil {
			f.Close()
		}
	}
}

// drain waits until all that was written has arrived. Who holds the pipes then gets a moment: in a
// session, processes that the command left behind; else, a process of the host to which the program
// passed its descriptors through a socket in a folder that it was shown.
func (p *pipes) drain(keep bool) {
	timeout := 2 * time.Second
	if keep {
		timeout = 100 * time.Millisecond
	}
	for _, f := range p.ours[1:] {
		if f != nil {
			f.SetReadDeadline(time.Now().Add(timeout))
		}
	}
	p.copies.Wait()
}

func (p *pipes) close() {
	if p.closed != nil {
		close(p.closed)
	}
	for _, f := range p.ours {
		if f != nil {
			f.Close()
		}
	}
	p.copies.Wait()
}
