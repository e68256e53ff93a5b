package warm

import (
	"bytes"
	"context"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/process"
)

// Exec implements [backends.Sandbox], with the idle process if that fits.
func (s *sandbox) Exec(ctx context.Context, cmd backends.Command, streams backends.Streams) (backends.Result, error) {
	var warm bool
	var why string
	r, err := s.Run(ctx, cmd, func(poke func()) (p *process.Program, err error) {
		if p, warm, why = s.launchWarm(ctx, cmd, streams); p != nil {
			return p, nil
		}
		return s.StartProgram(ctx, cmd, streams, poke)
	}, streams)
	if err == nil {
		r.Warm, r.Cold = warm, why
	}
	return r, err
}

// launchWarm has the idle process run a command; without one, it returns the reason. warm reports that at least the
// sandbox was idle, and that the interpreter is to be started for the command.
func (s *sandbox) launchWarm(ctx context.Context, cmd backends.Command, streams backends.Streams) (one *process.Program, warm bool,
	why string) {
	k := s.takeIdle()
	switch {
	case k == nil:
		return nil, false, ""
	case k.interpreter == nil:
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
	case s.inside && k.key.language == "python" && len(cmd.Args) > len(k.key.args()):
		why = "python was started without arguments" // its cmdline in /proc would show none
	default:
		why = s.assign(k, cmd, streams)
	}
	if why != "" {
		s.endIdle(k)
		s.missed(s.Runtime().Name, s.ram, why)
		return nil, false, why
	}
	k.process.Close()
	return k.interpreter, true, ""
}

// announced reports whether a command is the leased program. In a container, that was only a prediction.
func (s *sandbox) announced(k *idleProcess, cmd backends.Command) bool {
	if s.inside {
		spec := k.key.spec()
		spec.Program = &cmd
		r, why := poolKeyOf(spec)
		return why == "" && r == k.key
	}
	return !cmd.Main && cmd.Dir == k.program.Dir && slices.Equal(cmd.Args, k.program.Args) && slices.Equal(cmd.Env, k.program.Env)
}

// assign passes its command to the idle process, and connects it to the streams just before the program can run. If
// why is not empty, it was not connected, and must be ended.
func (s *sandbox) assign(k *idleProcess, cmd backends.Command, streams backends.Streams) (why string) {
	if why := s.workspaceHindrance(k); why != "" {
		return why
	}
	if k.isDoomed() {
		return "it ended"
	}
	k.interpreter.Attach(streams)
	if k.fifo != "" {
		s.removeFifo(k)
		k.resume() // fails only if it has ended
		return ""
	}
	k.channel.Write(k.key.assignment(cmd, s.Environ(cmd.Env)))
	k.channel.Close()
	return ""
}

// assignment returns the bytes that make a waiting interpreter continue.
func (r poolKey) assignment(cmd backends.Command, env []string) []byte {
	if r.language == "shell" {
		return bashAssignment(cmd.Env)
	}
	return assignmentBytes(cmd.Args[len(r.args()):], env)
}

// assignmentBytes encodes the assignment that an idle Python reads from descriptor 3 to the end: the number of
// arguments after the script's name, these arguments, and the complete environment; each ends with NUL.
func assignmentBytes(args, env []string) []byte {
	var b bytes.Buffer
	b.WriteString(strconv.Itoa(len(args)) + "\x00")
	for _, s := range slices.Concat(args, env) {
		b.WriteString(s)
		b.WriteByte(0)
	}
	return b.Bytes()
}

// workspaceHindrance returns a change of the workspace that the interpreter would have read at its start; "" if
// there is none.
func (s *sandbox) workspaceHindrance(k *idleProcess) string {
	info, err := s.Workspace().Lstat(k.key.script)
	if err != nil || !info.Mode().IsRegular() || k.placeholder != nil && os.SameFile(info, k.placeholder) {
		return "the program is not there"
	}
	if _, err := s.Workspace().Lstat(".local"); k.key.language == "python" && err == nil {
		return "there are packages in .local"
	}
	return ""
}

// endIdle ends the idle process, for a command that can't use it.
func (s *sandbox) endIdle(k *idleProcess) {
	s.KillProgram(k.pid())
	if k.fifo != "" {
		s.removeFifo(k)
	}
	if k.placeholder != nil {
		if info, err := s.Workspace().Lstat(k.key.script); err == nil && os.SameFile(info, k.placeholder) {
			s.Workspace().Remove(k.key.script)
		}
	}
	k.close()
}

// bashWaits makes bash read its assignment.
const bashWaits = "BASH_ENV=/proc/self/fd/3"

// bashAssignment makes an idle bash equal to a new one with these variables: no time has passed, and no trace of
// the wait is left. The last word is the value of _ at the start of a script.
func bashAssignment(env []string) []byte {
	var b strings.Builder
	for _, kv := range env {
		name, value, _ := strings.Cut(kv, "=")
		b.WriteString("export " + name + "='" + strings.ReplaceAll(value, "'", `'\''`) + "'\n")
	}
	b.WriteString("SECONDS=0\nunset -v BASH_ENV\nexec 3<&-\n: \"$BASH\"\n")
	return []byte(b.String())
}
