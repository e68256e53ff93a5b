package process

import (
	"bytes"
	"context"
	"errors"
	"os"
	"runtime"
	"slices"
	"strconv"

	"github.com/sandboxmcp/sandboxmcp/backends"
)

// launchWarm has the process that stands ready run a command; without it, why it does not. warm says that
// the sandbox at least stood ready for a program that is started when it comes.
func (s *sandbox) launchWarm(ctx context.Context, cmd backends.Command, streams backends.Streams) (one *launched, warm bool, why string) {
	s.mu.Lock()
	k := s.parked
	s.parked = nil
	s.mu.Unlock()
	switch {
	case k == nil:
		return nil, false, ""
	case k.pid == 0:
		return nil, k.cold == "", k.cold
	}
	switch {
	case ctx.Err() != nil:
		why = "it was cancelled"
	case streams.Channel != nil:
		why = "it has a private stream"
	case streams.Terminal != nil:
		why = "it has a terminal"
	case !s.announced(k, cmd):
		why = "another command was announced"
	default:
		why = s.claim(k, cmd, func() {
			k.pipes.attach(streams, nil)
			if streams.Begun != nil {
				streams.Begun(k.contained)
			}
		})
	}
	if why != "" {
		s.unpark(k)
		s.backend.ahead.pool.Missed(s.runtime.Name, s.limits.RAM, why)
		return nil, false, why
	}
	k.process.Close()
	return &launched{pid: k.pid, contained: k.contained, pipes: k.pipes, warm: true}, true, ""
}

// announced says whether a command is what a sandbox was made ready for. In a container it was only guessed.
func (s *sandbox) announced(k *parked, cmd backends.Command) bool {
	if s.boxed {
		spec := k.recipe.spec()
		spec.Program = &cmd
		r, why := recipeOf(spec)
		return why == "" && r == k.recipe
	}
	return !cmd.Main && cmd.Dir == k.program.Dir && slices.Equal(cmd.Args, k.program.Args) && slices.Equal(cmd.Env, k.program.Env)
}

// claim gives the process that stands ready a command's arguments and environment. begin, which is
// called while nothing of the program runs yet, says that it will. When why is not empty, begin was
// not called, and the process has to go.
func (s *sandbox) claim(k *parked, cmd backends.Command, begin func()) (why string) {
	if why := s.hindered(k); why != "" {
		return why
	}
	args := slices.Clone(cmd.Args)
	env := s.environ(cmd.Env)
	s.resolve(args, env)
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
	if k.dressed && k.doomed() {
		return "it ended"
	}
	begin()
	if k.fifo != "" {
		s.removeFifo(k)
	}
	if t != nil {
		t.release()
	}
	if k.channel != nil {
		k.channel.Write(k.recipe.claim(cmd, env))
		k.channel.Close()
	}
	return ""
}

// claim is what tells an interpreter that waits to go on.
func (r recipe) claim(cmd backends.Command, env []string) []byte {
	if r.language == "shell" {
		return bashClaim(cmd.Env)
	}
	return claimBytes(cmd.Args[len(r.args()):], env)
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

// hindered says what in the workspace an interpreter would have looked at that came after it did.
func (s *sandbox) hindered(k *parked) string {
	info, err := s.files.root.Lstat(k.recipe.script)
	if err != nil || !info.Mode().IsRegular() || k.stand != nil && os.SameFile(info, k.stand) {
		return "the program is not there"
	}
	if _, err := s.files.root.Lstat(".local"); k.recipe.language == "python" && err == nil {
		return "packages lie in .local"
	}
	return ""
}

// unpark ends the process that stands ready, for a command that can't have it.
func (s *sandbox) unpark(k *parked) {
	s.killBelow(int(k.pid))
	s.buried(k.pid)
	if k.fifo != "" {
		s.removeFifo(k)
	}
	if k.stand != nil {
		if info, err := s.files.root.Lstat(k.recipe.script); err == nil && os.SameFile(info, k.stand) {
			s.files.root.Remove(k.recipe.script)
		}
	}
	k.close()
}
