package bench

import (
	"context"
	"os"
	"path/filepath"
	"slices"

	"github.com/sandboxmcp/sandboxmcp/backends/process/runtimes"
)

// Program is the small program of one language, a file that prints 1.
type Program struct {
	Language string
	What     string   // as it is typed
	Code     string   // in the file
	Script   string   // the file
	Typed    []string // the same without the file and this machine's interpreter: in containers
	file     string   // its name
	cell     string   // as little as can be sent to a session
	version  string   // of the interpreter, and where it is

	runtimes.Runtime // the real interpreter: a shim would be measured, too
}

func programs() []Program {
	return []Program{
		{Language: "python", What: "python3 main.py", file: "main.py", Code: "print(1)", Typed: []string{"python3", "-c", "print(1)"}, cell: "1"},
		{Language: "node", What: "node main.js", file: "main.js", Code: "console.log(1)", Typed: []string{"node", "-e", "console.log(1)"}, cell: "1"},
		{Language: "shell", What: "bash main.sh", file: "main.sh", Code: "echo 1", Typed: []string{"bash", "-c", "echo 1"}, cell: ":"},
	}
}

// find returns a language's program with the interpreter that sandboxes get, and puts its file into dir.
func find(ctx context.Context, language, dir string) (*Program, error) {
	all := programs()
	p := &all[slices.IndexFunc(all, func(p Program) bool { return p.Language == language })]
	var err error
	if p.Runtime, err = runtimes.Find(ctx, language, runtimes.FromOS()); err != nil {
		return nil, err
	}
	p.version = p.Path
	if v, err := runtimes.Version(ctx, p.Runtime); err == nil && v != "" {
		p.version = v + " at " + p.Path
	}
	p.Script = filepath.Join(dir, p.file)
	return p, os.WriteFile(p.Script, []byte(p.Code+"\n"), 0o644)
}

// Bare is the command line of the program on the host: what a sandbox does, and no more.
func (p *Program) Bare() []string { return []string{p.Path, p.Script} }
