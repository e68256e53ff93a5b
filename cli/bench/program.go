package bench

import (
	"context"
	"slices"

	"github.com/sandboxmcp/sandboxmcp/backends/process/runtimes"
)

// program is the small program of one language.
type program struct {
	language string
	what     string   // as it is typed
	args     []string // of the interpreter
	command  string   // the interpreter, where only a name is known: in containers
	code     string   // the same as a script
	suffix   string   // of the script's file
	cell     string   // as little as can be sent to a session
	version  string   // of the interpreter, and where it is

	runtimes.Runtime // the real interpreter: a shim would be measured, too
}

func programs() []program {
	return []program{
		{language: "python", what: "python3 -I -S -c 'print(1)'", command: "python3", args: []string{"-I", "-S", "-c", "print(1)"}, code: "print(1)", suffix: ".py", cell: "1"},
		{language: "node", what: "node -e 'console.log(1)'", command: "node", args: []string{"-e", "console.log(1)"}, code: "console.log(1)", suffix: ".js", cell: "1"},
		{language: "shell", what: "bash -c 'echo 1'", command: "bash", args: []string{"-c", "echo 1"}, code: "echo 1", suffix: ".sh", cell: ":"},
	}
}

// find returns a language's program with the interpreter that sandboxes get.
func find(ctx context.Context, language string) (*program, error) {
	all := programs()
	p := &all[slices.IndexFunc(all, func(p program) bool { return p.language == language })]
	var err error
	if p.Runtime, err = runtimes.Find(ctx, language, runtimes.FromOS()); err != nil {
		return nil, err
	}
	p.version = p.Path
	if v, err := runtimes.Version(ctx, p.Runtime); err == nil && v != "" {
		p.version = v + " at " + p.Path
	}
	return p, nil
}

// bare is the command line of the program on the host.
func (p *program) bare() []string { return append([]string{p.Path}, p.args...) }

// inside is its command line where the interpreter is another system's.
func (p *program) inside() []string { return append([]string{p.command}, p.args...) }
