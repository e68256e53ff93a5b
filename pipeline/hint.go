package pipeline

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/egress"
	"github.com/sandboxmcp/sandboxmcp/validate"
)

// hints say what to type after a run that did not go as its caller wanted, where the reason is
// that the sandbox shows and allows less than the host.
func (e *execution) hints(out *outcome) []string {
	p, res, q := e.p, e.res, e.request
	var list []string
	add := func(format string, args ...any) { list = append(list, fmt.Sprintf(format, args...)) }
	hit := append(slices.Clone(res.Hit), res.Limit)
	if slices.Contains(hit, "wall") {
		add("the time limit was %s s: give it more with %s", formatNumber(e.limits.Wall.Seconds()), p.term("--timeout", " SECONDS"))
	}
	if slices.Contains(hit, "ram") {
		add("the program had %d MB of memory for all of its processes: give it more with %s", e.limits.RAM>>20, p.term("--ram", " MB"))
	}
	if slices.Contains(hit, "processes") {
		add("the program may have %d processes and threads: allow more with %s", e.limits.Processes, p.term("--processes", " N"))
	}
	if slices.Contains(hit, "disk") {
		add("/workspace, /tmp and /dev/shm hold %d MB together: allow more with %s", e.limits.Disk>>20, p.term("--disk", " MB"))
	}
	for _, s := range []struct {
		name        string
		cached, cut int64
	}{{"stdout", int64(len(res.Stdout)), res.StdoutCut}, {"stderr", int64(len(res.Stderr)), res.StderrCut}} {
		switch limit, all := p.cfg.Caps.Output, s.cached+s.cut; {
		case s.cut == 0, q.Whole: // then nothing is missing for the caller
		case all <= limit:
			add("%s had %d bytes, of which %d are kept: keep all with %s", s.name, all, s.cached, p.term("--output", fmt.Sprint(" ", all)))
		default:
			add("%s had %d bytes, of which %d are kept, and no run keeps more than %d: write it to a file in /workspace", s.name, all, s.cached, limit)
		}
	}
	list = append(list, e.networkHints(out.Lost > 0)...)
	if res.Ended == backends.EndedOK {
		return list
	}
	for _, w := range e.program.Warnings {
		add("%s, line %d: %s", e.program.Name, w.Line, w.Text)
	}
	output := complaints(res)
	if module, ok := validate.MissingModule(output); ok {
		add("%s", e.missing(module)+p.cfg.Terms[termInstall])
	} else if file := missingFile(output); file != "" && q.Beside != nil {
		if path, ok := q.Beside(file); ok {
			add("%s", e.fromHost(path))
		}
	}
	if q.Workspace.Host != "" && !q.Workspace.Write && strings.Contains(output, "Read-only file system") {
		add("the workspace is read-only: --workspace %s:rw lets the program change it", q.Workspace.Host)
	}
	return list
}

// complaints are where a program says why it failed.
func complaints(res Result) string {
	if res.Error != nil {
		return res.Stderr + "\n" + res.Error.Traceback
	}
	return res.Stderr
}

// networkHints say how a program gets network access that it lacked. That it has tried the sandbox has counted, so this is said of one
// that went well, too; from words alone it is believed where the program failed.
func (e *execution) networkHints(tried bool) (list []string) {
	p, res := e.p, e.res
	output, failed := complaints(res), res.Ended != backends.EndedOK
	refused := slices.ContainsFunc(res.Egress, func(d egress.Record) bool { return !d.Allowed }) // whose reasons say it
	if tried {
		output = res.Stdout + "\n" + output // a program may print its errors itself
	}
	if list = e.installHints(output, tried || refused); list != nil {
		return list
	}
	tried = tried || failed && noNetwork(output)
	switch {
	case refused && e.guard != nil && !e.outbound.Leads():
		list = append(list, "the session was created without a network: create another session, with "+p.term("--allow", " "+unknownName))
	case refused:
	case tried && !e.outbound.Leads():
		name := missingHost(output)
		let := "let it with " + p.term("--allow", " "+name)
		if e.guard != nil { // whose way out is made with it
			let = "create another session, with " + p.term("--allow", " "+name)
		}
		if name == unknownName {
			name = "it"
		}
		list = append(list, "the sandbox has no network, and the program tried to reach "+name+": "+let+", or bring in what it needs with "+p.term("--input", " or --mount"))
	case tried:
		list = append(list, "names that are allowed can be reached, but no addresses")
	case failed && e.outbound.Leads() && (strings.Contains(output, "Connection refused") || strings.Contains(output, "ECONNREFUSED")):
		list = append(list, "if an allowed name refused: without a port it is allowed on 80 and 443, and another has to be named, as in "+p.term("--allow", " example.com:5432"))
	}
	return list
}

// termInstall is the term for what callers can do about a package that is not installed.
const termInstall = "install"

// term is what callers call an option of the command line, whose value looks like what follows it.
func (p *Pipeline) term(flag, value string) string {
	if term, ok := p.cfg.Terms[flag]; ok {
		return term
	}
	return flag + value
}

// noProgram says what to do about a program that the sandbox does not show or can't execute, if that is what is wrong.
func (c plan) noProgram(e *Error) *Error {
	var no *backends.NoProgram
	if !errors.As(e.err, &no) {
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
		e.Remedy = "the script's first line names it: install it on this host, below /usr, or change that line"
	case visible:
		e.Remedy = "it is in the workspace: it may lack its mode for executing (chmod +x), or its first line names an interpreter that the sandbox does not show"
	case here && on == no.Name && !strings.Contains(on, "/"):
		e.Remedy = "to run the file of that name: sandboxmcp run " + on
	case here:
		e.Remedy = on + " is on the host, and the sandbox does not show it: show its directory with --workspace or --mount, or install it below /usr"
	case c.backend.Name() != "process":
		e.Remedy = "it has to be in the image: choose one with --language python, node, shell or r, or name your own under images in the configuration"
	default:
		e.Remedy = "check the spelling: the sandbox shows /usr, the interpreters of this host, and the directories that --workspace and --mount name"
	}
	return e
}

// missing says what to do about a module that could not be imported.
func (c plan) missing(module string) string {
	if c.request.Beside != nil && c.request.Workspace.Host == "" {
		if path, ok := c.request.Beside(module); ok {
			return c.fromHost(path)
		}
	}
	language := c.shows
	if language == backends.AnyProgram {
		language = "interpreters"
	}
	return fmt.Sprintf("module %s is not installed for the %s on this host, whose packages are shown in the sandbox", module, language)
}

// fromHost says how something of the host gets into the sandbox.
func (c plan) fromHost(path string) string {
	if c.request.Command != nil {
		return path + " is on the host, and nothing of this directory is shown to the sandbox: add --workspace ."
	}
	return fmt.Sprintf("%s is on the host, and only the script is shown to the sandbox: add --input %s, or --workspace %s for the whole directory",
		filepath.Base(path), path, filepath.Dir(path))
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
var lookups = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?:Could not resolve host: |getaddrinfo E[A-Z_]+ |host='|unable to resolve host address ['"‘])([A-Za-z0-9_.-]+)`)
})

// unknownName stands for a name that nobody knows.
const unknownName = "DOMAIN"

// missingHost returns the host that a program failed to look up last, or unknownName.
func missingHost(stderr string) string {
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
