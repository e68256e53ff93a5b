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

// hints returns remedies for a run that failed because the sandbox shows and allows less than the host.
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
		reached("wall", "the time limit was ", pipeline.FormatNumber(e.limits.Wall.Seconds()), " s: raise it with ",
			remedy.Timeout.With("SECONDS"))
		reached("ram", "the memory limit for all of its processes was ", e.limits.RAM>>20, " MB: raise it with ", remedy.RAM.With("MB"))
		reached("processes", "the limit was ", e.limits.Processes, " processes and threads: allow more with ", remedy.Processes.With("N"))
		reached("disk", "/workspace, /tmp and /dev/shm hold ", e.limits.Disk>>20, " MB together: allow more with ", remedy.Disk.With("MB"))
	}
	for _, s := range []struct {
		name        string
		cached, cut int64
	}{{"stdout", int64(len(res.Stdout)), res.StdoutCut}, {"stderr", int64(len(res.Stderr)), res.StderrCut}} {
		switch limit, all := p.Config.Caps.Output, s.cached+s.cut; {
		case s.cut == 0, q.Whole: // the caller has all of it
		case all <= limit:
			add(s.name, " had ", all, " bytes, of which ", s.cached, " are kept: keep all with ", remedy.Output.With(fmt.Sprint(all)))
		default:
			add(s.name, " had ", all, " bytes, of which ", s.cached, " are kept, and no run keeps more than ", limit,
				": write it to a file in /workspace")
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
		add("the workspace is read-only: ", remedy.Changes, " proposes the program's changes, and ",
			remedy.Workspace.With(q.Workspace.Host+":rw"), " lets it make them")
	}
	return list
}

// complaints returns the text in which a program explains its failure.
func complaints(res pipeline.Outcome) string {
	if res.Error != nil {
		return res.Stderr + "\n" + res.Error.Traceback
	}
	return res.Stderr
}

// networkHints returns remedies for missing network access. With tried the sandbox has counted attempts, so the hints
// apply to a successful program too; without it, they rely on error texts and apply only if the program failed.
func (e *execution) networkHints(tried bool) (list []pipeline.Remedy) {
	res := &e.Outcome
	output, failed := complaints(*res), res.Ended != backends.EndedOK
	refused := slices.ContainsFunc(res.Egress, func(d egress.Record) bool { return !d.Allowed }) // their reasons already explain it
	if tried {
		output = res.Stdout + "\n" + output // a program may print its errors itself
	}
	if list = e.installHints(output, tried || refused); list != nil {
		return list
	}
	tried = tried || failed && noNetwork(output)
	switch {
	case refused && e.guard != nil && !e.outbound.HasRoute():
		list = append(list, pipeline.Remedy{"the session was created without a network: create another session, with ",
			remedy.Allow.With(unknownName)})
	case refused:
	case tried && !e.outbound.HasRoute():
		name := MissingHost(output)
		let, allow := ": allow it with ", remedy.Allow.With(name)
		if e.guard != nil { // a session's network is fixed at its creation
			let = ": create another session, with "
		}
		if name == unknownName {
			name = "it"
		}
		list = append(list, pipeline.Remedy{"the sandbox has no network, and the program tried to reach ", name, let, allow,
			", or bring in its data with ", remedy.Bring})
	case tried:
		list = append(list, pipeline.Remedy{"allowed hosts are reachable by name, not by address"})
	case failed && e.outbound.HasRoute() && (strings.Contains(output, "Connection refused") || strings.Contains(output, "ECONNREFUSED")):
		list = append(list, pipeline.Remedy{"an allowed name without a port is reachable on 80 and 443; name any other port, as in ",
			remedy.Allow.With("example.com:5432")})
	}
	return list
}

// addProgramHint adds a remedy to the error about a program that the sandbox does not show or can't execute.
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
		e.Remedy = pipeline.Remedy{"it is in the workspace: it may not be executable (chmod +x), or its first line names an interpreter that " +
			"the sandbox does not show"}
	case here && on == no.Name && !strings.Contains(on, "/"):
		e.Remedy = pipeline.Remedy{"to run the file of that name: ", remedy.Run.With(on)}
	case here:
		e.Remedy = pipeline.Remedy{on, " is on the host, but the sandbox does not show it: show its directory with ", remedy.Workspace, " or ",
			remedy.Mount, ", or install it below /usr"}
	case c.Backend.Name() != "process":
		e.Remedy = pipeline.Remedy{"it has to be in the image: choose one with ", remedy.Language,
			" python, node, shell or r, or name your own under ", remedy.Setting.With("images")}
	default:
		e.Remedy = pipeline.Remedy{"check the spelling: the sandbox shows /usr, the interpreters of this host, and the directories that ",
			remedy.Workspace, " and ", remedy.Mount, " name"}
	}
	return e
}

// missingModuleHint returns a remedy for a module that could not be imported.
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
	return pipeline.Remedy{fmt.Sprintf("module %s is not installed for the %s of this host, whose packages the sandbox shows", module,
		language)}
}

// hostFileHint returns a remedy that brings a file of the host into the sandbox.
func (c plan) hostFileHint(path string) pipeline.Remedy {
	if c.request.Command != nil {
		return pipeline.Remedy{path, " is on the host, but the sandbox does not show this directory: add ", remedy.Workspace.With(".")}
	}
	return pipeline.Remedy{filepath.Base(path), " is on the host, but the sandbox shows only the script: add ", remedy.Input.With(path),
		", or ", remedy.Workspace.With(filepath.Dir(path)), " for the whole directory"}
}

// missingFile returns the last file that Python, Node or a program of a shell reported as missing.
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
				if _, quoted, ok := strings.Cut(name, "can't open file "); ok { // Python says this about its script
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

// noNetwork reports whether Python, Node, curl or git complain about a missing network.
func noNetwork(stderr string) bool {
	return slices.ContainsFunc([]string{
		"Temporary failure in name resolution", "Could not resolve host", "Name or service not known",
		"Network is unreachable", "ENETUNREACH", "EAI_AGAIN", "ENOTFOUND",
	}, func(words string) bool { return strings.Contains(stderr, words) })
}

// lookups match the host that curl, git, Node, Python's requests or wget could not resolve.
var lookups = lazy.Regexp(`(?:Could not resolve host: |getaddrinfo E[A-Z_]+ |host='|unable to resolve host address ['"‘])([A-Za-z0-9_.-]+)`)

// unknownName is the placeholder for a host that no error names.
const unknownName = "DOMAIN"

// MissingHost returns the last host that a program failed to resolve, or unknownName.
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
