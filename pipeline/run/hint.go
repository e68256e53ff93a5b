package run

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/cli/lazy"
	"github.com/sandboxmcp/sandboxmcp/egress"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/remedy"
	"github.com/sandboxmcp/sandboxmcp/validate"
)

// hints say what to type after a run that did not go as its caller wanted, where the reason is
// that the sandbox shows and allows less than the host.
func (e *execution) hints(out *pipeline.ProgramEnd) []pipeline.Remedy {
	p, res, q := e.Pipeline, &e.Outcome, e.request
	var list []pipeline.Remedy
	add := func(text ...any) { list = append(list, text) }
	if res.Limit != "" || len(res.Hit) > 0 {
		reached := func(limit string, text ...any) {
			if res.Limit == limit || slices.Contains(res.Hit, limit) {
				add(text...)
			}
		}
		reached("wall", "the time limit was ", pipeline.FormatNumber(e.limits.Wall.Seconds()), " s: give it more with ", remedy.Timeout.With("SECONDS"))
		reached("ram", "the program had ", e.limits.RAM>>20, " MB of memory for all of its processes: give it more with ", remedy.RAM.With("MB"))
		reached("processes", "the program may have ", e.limits.Processes, " processes and threads: allow more with ", remedy.Processes.With("N"))
		reached("disk", "/workspace, /tmp and /dev/shm hold ", e.limits.Disk>>20, " MB together: allow more with ", remedy.Disk.With("MB"))
	}
	for _, s := range []struct {
		name        string
		cached, cut int64
	}{{"stdout", int64(len(res.Stdout)), res.StdoutCut}, {"stderr", int64(len(res.Stderr)), res.StderrCut}} {
		switch limit, all := p.Config.Caps.Output, s.cached+s.cut; {
		case s.cut == 0, q.Whole: // then nothing is missing for the caller
		case all <= limit:
			add(s.name, " had ", all, " bytes, of which ", s.cached, " are kept: keep all with ", remedy.Output.With(fmt.Sprint(all)))
		default:
			add(s.name, " had ", all, " bytes, of which ", s.cached, " are kept, and no run keeps more than ", limit, ": write it to a file in /workspace")
		}
	}
	list = append(list, e.networkHints(out.Lost > 0)...)
	if res.Ended == backends.EndedOK {
		return list
	}
	for _, w := range e.program.Warnings {
		add(fmt.Sprintf("%s, line %d: %s", e.program.Name, w.Line, w.Text))
	}
	output := complaints(*res)
	if module, ok := validate.MissingModule(output); ok {
		add(append(e.missingModuleHint(module), remedy.InstallMissing)...)
	} else if file := missingFile(output); file != "" && q.Beside != nil {
		if path, ok := q.Beside(file); ok {
			add(e.hostFileHint(path)...)
		}
	}
	if q.Workspace.Host != "" && !q.Workspace.Write && !q.Workspace.Propose && strings.Contains(output, "Read-only file system") {
		add("the workspace is read-only: ", remedy.Changes, " proposes the program's changes, and ", remedy.Workspace.With(q.Workspace.Host+":rw"), " lets it make them")
	}
	return list
}

// complaints returns where a program says why it failed.
func complaints(res pipeline.Outcome) string {
	if res.Error != nil {
		return res.Stderr + "\n" + res.Error.Traceback
	}
	return res.Stderr
}

// networkHints say how a program gets network access that it lacked. That it has tried the sandbox has counted, so this
// is said of one that went well, too; from words alone it is believed where the program failed.
func (e *execution) networkHints(tried bool) (list []pipeline.Remedy) {
	res := &e.Outcome
	output, failed := complaints(*res), res.Ended != backends.EndedOK
	refused := slices.ContainsFunc(res.Egress, func(d egress.Record) bool { return !d.Allowed }) // whose reasons say it
	if tried {
		output = res.Stdout + "\n" + output // a program may print its errors itself
	}
	if list = e.installHints(output, tried || refused); list != nil {
		return list
	}
	tried = tried || failed && noNetwork(output)
	switch {
	case refused && e.guard != nil && !e.outbound.HasRoute():
		list = append(list, pipeline.Remedy{"the session was created without a network: create another session, with ", remedy.Allow.With(unknownName)})
	case refused:
	case tried && !e.outbound.HasRoute():
		name := MissingHost(output)
		let, allow := ": let it with ", remedy.Allow.With(name)
		if e.guard != nil { // whose way out is made with it
			let = ": create another session, with "
		}
		if name == unknownName {
			name = "it"
		}
		list = append(list, pipeline.Remedy{"the sandbox has no network, and the program tried to reach ", name, let, allow, ", or bring in what it needs with ", remedy.Bring})
	case tried:
		list = append(list, pipeline.Remedy{"names that are allowed can be reached, but no addresses"})
	case failed && e.outbound.HasRoute() && (strings.Contains(output, "Connection refused") || strings.Contains(output, "ECONNREFUSED")):
		list = append(list, pipeline.Remedy{"if an allowed name refused: without a port it is allowed on 80 and 443, and another has to be named, as in ", remedy.Allow.With("example.com:5432")})
	}
	return list
}

// addProgramHint returns what to do about a program that the sandbox does not show or can't execute, if that is what is
// wrong.
func (c plan) addProgramHint(e *pipeline.Error) *pipeline.Error {
	var no *backends.NoProgram
	if !errors.As(e, &no) {
		return e
	}
	e.Denied = true
	on, here, visible := "", false, false
	if c.request.Beside != nil {
		on, here = c.request.Beside(no.Name)
	}
	if c.request.Workspace.Host != "" && strings.Contains(no.Name, "/") {
		_, err := os.Stat(filepath.Join(c.request.Workspace.Host, no.Name))
		visible = err == nil
	}
	switch {
	case c.program.Interpreter != nil:
		e.Remedy = pipeline.Remedy{"the script's first line names it: install it on this host, below /usr, or change that line"}
	case visible:
		e.Remedy = pipeline.Remedy{"it is in the workspace: it may lack its mode for executing (chmod +x), or its first line names an interpreter that the sandbox does not show"}
	case here && on == no.Name && !strings.Contains(on, "/"):
		e.Remedy = pipeline.Remedy{"to run the file of that name: ", remedy.Run.With(on)}
	case here:
		e.Remedy = pipeline.Remedy{on, " is on the host, and the sandbox does not show it: show its directory with ", remedy.Workspace, " or ", remedy.Mount, ", or install it below /usr"}
	case c.Backend.Name() != "process":
		e.Remedy = pipeline.Remedy{"it has to be in the image: choose one with ", remedy.Language, " python, node, shell or r, or name your own under ", remedy.Setting.With("images")}
	default:
		e.Remedy = pipeline.Remedy{"check the spelling: the sandbox shows /usr, the interpreters of this host, and the directories that ", remedy.Workspace, " and ", remedy.Mount, " name"}
	}
	return e
}

// missingModuleHint returns what to do about a module that could not be imported.
func (c plan) missingModuleHint(module string) pipeline.Remedy {
	if c.request.Beside != nil && c.request.Workspace.Host == "" {
		if path, ok := c.request.Beside(module); ok {
			return c.hostFileHint(path)
		}
	}
	language := c.shows
	if language == backends.AnyProgram {
		language = "interpreters"
	}
	return pipeline.Remedy{fmt.Sprintf("module %s is not installed for the %s on this host, whose packages are shown in the sandbox", module, language)}
}

// hostFileHint returns how something of the host gets into the sandbox.
func (c plan) hostFileHint(path string) pipeline.Remedy {
	if c.request.Command != nil {
		return pipeline.Remedy{path, " is on the host, and nothing of this directory is shown to the sandbox: add ", remedy.Workspace.With(".")}
	}
	return pipeline.Remedy{filepath.Base(path), " is on the host, and only the script is shown to the sandbox: add ", remedy.Input.With(path),
		", or ", remedy.Workspace.With(filepath.Dir(path)), " for the whole directory"}
}

// missingFile returns the last file that Python, Node or a shell's program said it did not find.
func missingFile(stderr string) string {
	stderr = stderr[max(0, len(stderr)-4096):]
	found := ""
	for line := range strings.Lines(stderr) {
		line = strings.TrimSpace(line)
		_, name, ok := strings.Cut(line, "No such file or directory: ")
		if !ok {
			if _, name, ok = strings.Cut(line, "ENOENT: no such file or directory, "); ok {
				_, name, _ = strings.Cut(name, " ")
			}
		}
		if !ok {
			if name, ok = strings.CutSuffix(line, " No such file or directory"); ok {
				name = strings.TrimSuffix(strings.TrimSuffix(name, " [Errno 2]"), ":")
				name = name[strings.LastIndex(name, ": ")+1:]
				if _, quoted, ok := strings.Cut(name, "can't open file "); ok { // as Python says of its script
					name = quoted
				}
			}
		}
		if ok {
			found = strings.TrimPrefix(strings.Trim(name, " '\""), "/workspace/")
		}
	}
	return found
}

// noNetwork finds how Python, Node, curl and git say that there is no way out.
func noNetwork(stderr string) bool {
	return slices.ContainsFunc([]string{
		"Temporary failure in name resolution", "Could not resolve host", "Name or service not known",
		"Network is unreachable", "ENETUNREACH", "EAI_AGAIN", "ENOTFOUND",
	}, func(words string) bool { return strings.Contains(stderr, words) })
}

// lookups are how curl, git, Node, Python's requests and wget name what they could not find.
var lookups = lazy.Regexp(`(?:Could not resolve host: |getaddrinfo E[A-Z_]+ |host='|unable to resolve host address ['"‘])([A-Za-z0-9_.-]+)`)

// unknownName stands for a name that nobody knows.
const unknownName = "DOMAIN"

// MissingHost returns the host that a program failed to look up last, or unknownName.
func MissingHost(stderr string) string {
	found := lookups().FindAllStringSubmatch(stderr[max(0, len(stderr)-4096):], -1)
	if len(found) == 0 {
		return unknownName
	}
	name := strings.TrimRight(found[len(found)-1][1], ".")
	if _, err := egress.NewPolicy([]string{name}, nil); err != nil {
		return unknownName
	}
	return name
}
