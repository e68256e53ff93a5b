package process

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandboxmcp/sandboxmcp/backends"
)

//go:embed parked
var holds embed.FS

// parked is a program's process that is contained already, and waits for its program.
//
// Python waits in a sitecustomize.py that removes itself, reading its descriptor 3: that is the claim,
// see claimBytes. Node waits without any help: it opens the package.json beside its program before it
// reads that, and finds a fifo, on which open(2) waits. When the fifo is gone and the call begins
// again, Node finds what is there by then. Nothing of Node's own is changed, but it reads its arguments
// before it comes that far, so that there can be no more of them.
type parked struct {
	pid       int32    // inside; 0 where only the sandbox stands ready
	host      int      // the same, as we see it,
	process   *os.File // and for certain: numbers come again
	contained backends.Containment
	pipes     *pipes
	channel   io.ReadWriteCloser // python's claim goes there
	fifo      string             // that node waits on
	stand     os.FileInfo        // an empty file in the place of node's program
	dressed   bool               // nothing has to be done to it from here: it puts on the claim by itself
	left      chan struct{}      // closed when nobody needs to wait for its end any more
	leaving   sync.Once
	watching  sync.WaitGroup // until then somebody waits for its end
	dead      bool           // which came; set before watching is done
}

// parkingTime bounds how long an interpreter may take until it waits.
const parkingTime = 20 * time.Second

// stand makes a sandbox whose interpreter waits for a program.
func (b *Backend) stand(ctx context.Context, r recipe) (*sandbox, error) {
	s, err := b.plan(ctx, r.spec())
	if err == nil {
		err = s.start(ctx)
	}
	if err == nil {
		err = s.park(ctx, r)
	}
	if err != nil {
		if s != nil {
			s.Close()
		}
		return nil, err
	}
	return s, nil
}

// park starts the interpreter of a sandbox that nobody has asked for yet, and returns when it waits.
func (s *sandbox) park(ctx context.Context, r recipe) (err error) {
	k := &parked{left: make(chan struct{})}
	s.recipe, s.parked = r, k // whom Close dismisses
	if r.script == "" {
		return nil
	}
	var theirs *os.File
	env := spare()
	switch r.language {
	case "python":
		if theirs, err = connectChannel(func(c io.ReadWriteCloser) { k.channel = c }, func() {}); err != nil {
			return err
		}
		defer theirs.Close()
		env = append(env, "PYTHONPATH="+path.Join(workspace, hold))
		code, err := s.backend.pool.bytecode(ctx, s.runtime.Path)
		if err != nil {
			return err
		}
		if err := s.files.Put(hold+"/sitecustomize.pyc", 0o600, bytes.NewReader(code)); err != nil {
			return err
		}
	case "node":
		if err := s.setFifo(k, r.script); err != nil {
			return err
		}
	}
	if k.pipes, err = s.newPipes(); err != nil {
		return err
	}
	p := s.backend.execPlan(s, backends.Command{Args: r.args(), Env: env}, k.pipes.theirs, theirs)
	k.pid, k.contained, err = s.begin(ctx, p)
	k.pipes.started()
	theirs.Close()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, parkingTime)
	defer cancel()
	if err := s.settled(ctx, k); err != nil {
		return fmt.Errorf("wait for %s to stand ready: %w", r.language, err)
	}
	return nil
}

// bytecode is parked/sitecustomize.py as an interpreter has compiled it, in a sandbox of its own.
func (p *pool) bytecode(ctx context.Context, interpreter string) ([]byte, error) {
	p.compiling.Lock()
	defer p.compiling.Unlock()
	if code := p.compiled[interpreter]; code != nil {
		return code, nil
	}
	source, err := holds.ReadFile("parked/sitecustomize.py")
	if err != nil {
		return nil, err
	}
	compiler, err := holds.ReadFile("parked/compile.py")
	if err != nil {
		return nil, err
	}
	s, err := p.backend.Start(ctx, backends.Spec{ID: "compile", Language: "python"})
	if err != nil {
		return nil, err
	}
	defer s.Close()
	var out, errs bytes.Buffer
	r, err := s.Exec(ctx, backends.Command{Args: []string{"python", "-I", "-S", "-c", string(compiler)}},
		backends.Streams{Stdin: bytes.NewReader(source), Stdout: &out, Stderr: &errs})
	if err != nil || r.Ended != backends.EndedOK {
		return nil, fmt.Errorf("compile what python waits in: %s %v %.500s", r.Ended, err, errs.String())
	}
	p.compiled[interpreter] = out.Bytes()
	return out.Bytes(), nil
}

// hold is where python finds what stops it, which removes the folder.
const hold = ".hold"

// setFifo puts what node will wait on into the workspace.
func (s *sandbox) setFifo(k *parked, script string) error {
	if err := s.files.Put(script, 0o600, strings.NewReader("")); err != nil {
		return err
	}
	var err error
	if k.stand, err = s.files.root.Lstat(script); err != nil {
		return err
	}
	k.fifo = "package.json"
	dir, err := s.files.root.Open(".")
	if err != nil {
		return err
	}
	defer dir.Close()
	if err := unix.Mkfifoat(int(dir.Fd()), k.fifo, 0o600); err != nil {
		return fmt.Errorf("make a fifo: %w", err)
	}
	if s.uid != 0 {
		return s.files.root.Lchown(k.fifo, s.uid, s.uid)
	}
	return nil
}

// settled returns when the interpreter waits.
func (s *sandbox) settled(ctx context.Context, k *parked) error {
	var err error
	if k.host, err = s.hostPid(); err != nil {
		return err
	}
	fd, err := unix.PidfdOpen(k.host, 0)
	if err != nil {
		return fmt.Errorf("pidfd_open: %w", err)
	}
	k.process = os.NewFile(uintptr(fd), "process")
	if again, err := s.hostPid(); err != nil || again != k.host {
		return errors.New("it ended")
	}
	if k.channel != nil {
		if err := hello(ctx, k.channel); err != nil {
			return err
		}
	}
	tried := false
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		waits, err := k.waits()
		if err != nil {
			return err
		}
		if waits && tried {
			return nil
		}
		if waits {
			if err := k.try(); err != nil {
				return err
			}
			tried = true // and now it has to come to rest again
			continue
		}
		select {
		case <-time.After(pause):
		case <-s.life(k.pid).exit:
			return errors.New("it ended")
		case <-s.gone:
			return errors.New("PID 1 of the sandbox is dead")
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// hello reads the byte that python sends just before it waits.
func hello(ctx context.Context, channel io.ReadWriteCloser) error {
	said := make(chan error, 1)
	go func() {
		_, err := io.ReadFull(channel, make([]byte, 1))
		said <- err
	}()
	select {
	case err := <-said:
		return err
	case <-ctx.Done():
		channel.Close()
		<-said
		return ctx.Err()
	}
}

// waits says whether the interpreter's first thread is in the system call that it is to wait in, by
// proc_pid_syscall(5): python reads its descriptor 3, node opens the fifo.
func (k *parked) waits() (bool, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/syscall", k.host))
	if err != nil {
		return false, err
	}
	fields := strings.Fields(string(text))
	if len(fields) < 3 || fields[0] != strconv.FormatUint(k.call(), 10) {
		return false, nil
	}
	if k.fifo == "" {
		return fields[1] == "0x3", nil
	}
	at, err := strconv.ParseUint(fields[2], 0, 64)
	if err != nil {
		return false, nil
	}
	memory, err := os.Open(fmt.Sprintf("/proc/%d/mem", k.host))
	if err != nil {
		return false, err
	}
	defer memory.Close()
	want := path.Join(workspace, k.fifo) + "\x00"
	got := make([]byte, len(want))
	if _, err := memory.ReadAt(got, int64(at)); err != nil {
		return false, nil // it has gone on since
	}
	return string(got) == want, nil
}

// try sees that it will be possible to give it what a claim brings.
func (k *parked) try() error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	t, err := k.seize()
	if err != nil {
		return err
	}
	return errors.Join(t.try(), t.release())
}

// seize stops it where it waits.
func (k *parked) seize() (*tracee, error) {
	if over(k.process) {
		return nil, errElsewhere
	}
	t, err := seize(k.host, k.call())
	if err == nil && over(k.process) { // and the number is somebody else's
		err = errors.Join(errElsewhere, t.release())
	}
	return t, err
}

// over says whether the process of a pidfd has ended.
func over(pidfd *os.File) bool {
	poll := []unix.PollFd{{Fd: int32(pidfd.Fd()), Events: unix.POLLIN}}
	n, err := unix.Poll(poll, 0)
	return err == nil && n > 0
}

// call is the system call that it waits in.
func (k *parked) call() uint64 {
	if k.fifo != "" {
		return unix.SYS_OPENAT
	}
	return unix.SYS_READ
}

// hostPid is PID 1's only child, as we see it. PID 1's own number may be that of another namespace,
// but its descriptor tells ours.
func (s *sandbox) hostPid() (int, error) {
	s.birth.mu.Lock()
	defer s.birth.mu.Unlock()
	if s.pidfd == nil {
		return 0, errors.New("PID 1 of the sandbox is dead")
	}
	info, err := os.ReadFile(fmt.Sprintf("/proc/self/fdinfo/%d", s.pidfd.Fd()))
	if err != nil {
		return 0, err
	}
	one := statusFields(info)["Pid"]
	text, err := os.ReadFile(filepath.Join("/proc", one, "task", one, "children"))
	if err != nil {
		return 0, err
	}
	children := strings.Fields(string(text))
	if len(children) != 1 {
		return 0, fmt.Errorf("PID 1 of the sandbox has %d children", len(children))
	}
	return strconv.Atoi(children[0])
}

// claimBytes are what a process that stands ready reads from its private descriptor, up to the end: how
// many arguments there are behind the script's name, these, and the whole environment; each ends with NUL.
func claimBytes(args, env []string) []byte {
	var b bytes.Buffer
	b.WriteString(strconv.Itoa(len(args)) + "\x00")
	for _, s := range slices.Concat(args, env) {
		b.WriteString(s)
		b.WriteByte(0)
	}
	return b.Bytes()
}

// claim gives the process that stands ready a command's arguments and environment. begin, which is
// called while nothing of the program runs yet, says that it will. When why is not empty, begin was
// not called, and the process has to go.
func (s *sandbox) claim(k *parked, r recipe, cmd backends.Command, begin func()) (why string) {
	if why := s.hindered(k, r); why != "" {
		return why
	}
	args := slices.Clone(cmd.Args)
	s.resolve(args)
	env := s.environ(cmd.Env)
	var t *tracee
	if !k.dressed {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		var err error
		if t, err = k.seize(); err == nil {
			if err = t.dress(args, env); err != nil {
				t.release() // or nobody would hear of its end
			}
		}
		if errors.Is(err, errRoom) {
			return errRoom.Error()
		}
		if err != nil {
			return "it could not be given its arguments: " + err.Error()
		}
	}
	begin()
	if k.fifo != "" {
		s.removeFifo(k)
	}
	if t != nil {
		t.release()
	}
	if k.channel != nil {
		k.channel.Write(claimBytes(cmd.Args[len(r.args()):], env))
		k.channel.Close()
	}
	return ""
}

// hindered says what in the workspace an interpreter would have looked at that came after it did.
func (s *sandbox) hindered(k *parked, r recipe) string {
	info, err := s.files.root.Lstat(r.script)
	if err != nil || !info.Mode().IsRegular() || k.stand != nil && os.SameFile(info, k.stand) {
		return "the program is not there"
	}
	if _, err := s.files.root.Lstat(".local"); r.language == "python" && err == nil {
		return "packages lie in .local"
	}
	return ""
}

// removeFifo takes the fifo away, unless something has taken its place already.
func (s *sandbox) removeFifo(k *parked) {
	if info, err := s.files.root.Lstat(k.fifo); err == nil && info.Mode()&os.ModeNamedPipe != 0 {
		s.files.root.Remove(k.fifo)
	}
}

// unpark ends the process that stands ready, for a command that can't have it.
func (s *sandbox) unpark(k *parked) {
	s.killBelow(int(k.pid))
	s.buried(k.pid)
	if k.fifo != "" {
		s.removeFifo(k)
	}
	if k.stand != nil {
		if info, err := s.files.root.Lstat(s.recipe.script); err == nil && os.SameFile(info, k.stand) {
			s.files.root.Remove(s.recipe.script)
		}
	}
	k.close()
}

// leave ends the waiting for the process's end, and says whether it still runs.
func (k *parked) leave() bool {
	k.leaving.Do(func() { close(k.left) })
	k.watching.Wait()
	return !k.dead
}

// dismiss lets go of what stands ready, if that is still so.
func (s *sandbox) dismiss() {
	s.mu.Lock()
	k := s.parked
	s.parked = nil
	s.mu.Unlock()
	if k != nil {
		k.leave()
		k.close()
	}
}

// launchWarm has the process that stands ready run a command; without it, why it does not. warm says that
// the sandbox at least stood ready for a program that is started when it comes.
func (s *sandbox) launchWarm(ctx context.Context, cmd backends.Command, streams backends.Streams) (one *launched, warm bool, why string) {
	s.mu.Lock()
	k, why := s.parked, s.cold
	s.parked, s.cold = nil, ""
	s.mu.Unlock()
	if k == nil || k.pid == 0 {
		return nil, k != nil, why
	}
	switch {
	case ctx.Err() != nil:
		why = "it was cancelled"
	case streams.Channel != nil:
		why = "it has a private stream"
	case cmd.Main || cmd.Dir != s.program.Dir || !slices.Equal(cmd.Args, s.program.Args) || !slices.Equal(cmd.Env, s.program.Env):
		why = "another command was announced"
	default:
		why = s.claim(k, s.recipe, cmd, func() {
			k.pipes.attach(streams)
			if streams.Begun != nil {
				streams.Begun(k.contained)
			}
		})
	}
	if why != "" {
		s.unpark(k)
		s.backend.pool.missed(s, why)
		return nil, false, why
	}
	k.process.Close()
	return &launched{pid: k.pid, contained: k.contained, pipes: k.pipes, warm: true}, true, ""
}

// pss is what a sandbox that stands ready holds in RAM, in bytes, with shared pages by share. PID 1's
// memory is closed to an ordinary user.
func (s *sandbox) pss() int64 {
	var sum int64
	for _, pid := range []int{s.pid, s.parked.host} {
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
		sum += kib(statusFields(text)["Pss"])
	}
	return sum
}

func (k *parked) close() {
	if k.process != nil {
		k.process.Close()
	}
	if k.channel != nil {
		k.channel.Close()
	}
	if k.pipes != nil {
		k.pipes.started()
		k.pipes.close()
	}
}
