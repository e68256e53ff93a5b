package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends/process/runtimes"
)

// Names of the methods that tests and comparisons refer to.
const (
	Bare     = "bare"
	Warm     = "execute_code"
	Session  = "execute_code, session"
	FromBash = "sandboxmcp run"
	Served   = "sandboxmcp run, served"
)

// program is the small program of one language: a file that prints 1.
type program struct {
	language, typed, file, code string
	inside                      []string // for containers: the same without the file and this machine's interpreter
	cell                        string   // a minimal cell for a session
	script                      string   // path of the file

	runtimes.Runtime // the real interpreter: the time of a shim must not count
}

func programs() []program {
	return []program{
		{language: "python", typed: "python3 main.py", file: "main.py", code: "print(1)", inside: []string{"python3", "-c", "print(1)"},
			cell: "1"},
		{language: "node", typed: "node main.js", file: "main.js", code: "console.log(1)", inside: []string{"node", "-e", "console.log(1)"},
			cell: "1"},
		{language: "shell", typed: "bash main.sh", file: "main.sh", code: "echo 1", inside: []string{"bash", "-c", "echo 1"}, cell: ":"},
	}
}

// command is a method given by a command line. commandWords replaces its words in capitals.
type command struct {
	name   string
	tool   string // name in the report of versions; "" has none
	detect string // command that prints something if the tool works, usually its version
	needs  string // command that succeeds if the tool has the language
	start  string // command that runs once before
	run    string
	seldom bool // slow: fewer runs
	loaded bool // also measured with all cores busy
}

// commands are the measured command lines. Bubblewrap gives a program about the same view as our sandboxes, but without
// Landlock, a system call filter, limits and reading back; runsc do shows the host's files through its own kernel.
// Engines pull no image and are called by their own command lines, as people do.
func commands() []command {
	all := []command{
		{name: Bare, run: "INTERPRETER SCRIPT", loaded: true},
		{name: "bubblewrap", tool: "bwrap", detect: "bwrap --version", loaded: true,
			run: "bwrap --unshare-all --die-with-parent --new-session ROOT --proc /proc --dev /dev " +
				"--tmpfs /tmp --tmpfs /workspace --ro-bind SCRIPT /workspace/FILE --chdir /workspace -- INTERPRETER /workspace/FILE"},
		{name: "runsc do", tool: "runsc", detect: "runsc --version", run: "runsc --network=none --ignore-cgroups ROOTLESS do INTERPRETER SCRIPT",
			seldom: true},
	}
	for _, engine := range []string{"docker", "podman"} {
		version := engine + " version --format {{." + map[string]string{"docker": "Server", "podman": "Client"}[engine] + ".Version}}"
		create, has := engine+" run --rm --network none --pull never --label LABEL ", engine+" image inspect IMAGE"
		all = append(all,
			command{name: engine + " run", tool: engine, detect: version, needs: has, run: create + "IMAGE INSIDE", seldom: true},
			command{name: engine + " exec", detect: version, needs: has, start: create + "--detach --name NAME --stop-signal KILL --entrypoint " +
				"sleep IMAGE 3600",
				run: engine + " exec NAME INSIDE", seldom: true},
			command{name: FromBash + ", " + engine, detect: version, needs: has, run: "OURS run --backend " + engine + " SCRIPT", seldom: true})
	}
	return append(all, command{name: FromBash, run: "OURS run --here SCRIPT"}, command{name: Served, run: "OURS run SCRIPT"})
}

// commandWords returns the words of a command line for a program.
func (b *bench) commandWords(line string, p program) (all []string) {
	label := "sandboxmcp.bench=" + filepath.Base(b.dir)
	for _, word := range strings.Fields(line) {
		switch word {
		case "ROOT":
			all = append(all, bubblewrapOptions(p.Runtime)...)
		case "ROOTLESS":
			if os.Geteuid() != 0 {
				all = append(all, "--rootless")
			}
		case "INSIDE":
			all = append(all, p.inside...)
		case "OURS":
			all = append(all, b.Program, "--config", b.settingsFile())
		default:
			all = append(all, strings.NewReplacer("INTERPRETER", p.Path, "SCRIPT", p.script, "FILE", p.file, "LABEL", label, "IMAGE",
				b.Image(p.language),
				"NAME", filepath.Base(b.dir)+"-"+p.language).Replace(word))
		}
	}
	return all
}

// bubblewrapOptions returns bubblewrap's options for the directories of the system and of the interpreter.
func bubblewrapOptions(r runtimes.Runtime) []string {
	args := []string{"--ro-bind", "/usr", "/usr"}
	for _, dir := range []string{"/bin", "/sbin", "/lib", "/lib32", "/lib64"} {
		if target, err := os.Readlink(dir); err == nil {
			args = append(args, "--symlink", target, dir)
		} else if _, err := os.Stat(dir); err == nil {
			args = append(args, "--ro-bind", dir, dir)
		}
	}
	for _, dir := range r.Prefixes {
		args = append(args, "--ro-bind", dir, dir)
	}
	for link, target := range r.Links {
		args = append(args, "--symlink", target, filepath.Clean(link))
	}
	return args
}

// findMethods finds the programs, and the methods to run each.
func (b *bench) findMethods(ctx context.Context) {
	var found []program
	for _, p := range programs() {
		if !slices.Contains(b.Languages, p.language) {
			continue
		}
		var err error
		if p.Runtime, err = runtimes.FindRuntime(ctx, p.language, runtimes.FromOS()); err == nil {
			p.script = filepath.Join(b.dir, p.file)
			err = os.WriteFile(p.script, []byte(p.code+"\n"), 0o644)
		}
		if err != nil {
			b.leaveOut(p.language, err)
			continue
		}
		version, _ := runtimes.QueryVersion(ctx, p.Runtime)
		b.report.Machine.Versions[p.language] = strings.TrimSpace(version + " at " + p.Path)
		found = append(found, p)
	}
	for _, c := range commands() {
		if !b.toolWorks(ctx, c) {
			continue
		}
		for _, p := range found {
			if w := b.newMethod(ctx, c, p); w != nil {
				b.methods = append(b.methods, w)
			}
		}
	}
	b.reportProgress(ctx, "starting servers")
	b.findServers(ctx, found)
}

// answerTime bounds a question to a tool, so that one that hangs does not hold up the others.
const answerTime = 10 * time.Second

// toolWorks reports whether the tool of a command is installed and answers.
func (b *bench) toolWorks(ctx context.Context, c command) bool {
	if c.detect == "" {
		return true
	}
	words := strings.Fields(c.detect)
	out, err := "", errors.New("not installed")
	if _, missing := exec.LookPath(words[0]); missing == nil {
		if out, err = b.runTool(ctx, words); err != nil {
			err = fmt.Errorf("no answer: %w", err)
		}
	}
	switch {
	case c.tool == "": // tested with another command
	case err != nil:
		b.leaveOut(c.tool, err)
	default:
		b.report.Machine.Versions[c.tool] = lastLine(out)
	}
	return err == nil
}

// newMethod returns the method to run a program by a command, or nil if the tool lacks the language.
func (b *bench) newMethod(ctx context.Context, c command, p program) *method {
	if c.needs != "" {
		if _, err := b.runTool(ctx, b.commandWords(c.needs, p)); err != nil {
			if c.tool != "" { // once for all languages
				b.leaveOut(c.tool+" for "+p.language, fmt.Errorf("it has no image %s, and bench pulls none", b.Image(p.language)))
			}
			return nil
		}
	}
	environ := b.Environ
	switch {
	case c.name == FromBash, c.name == Served:
		environ = b.environ(c.name)
	case strings.HasPrefix(c.name, FromBash):
		environ = append(b.environ(enginesState), "SANDBOXMCP_IMAGE_"+strings.ToUpper(p.language)+"="+b.Image(p.language))
	case c.needs == "":
		environ = cleanEnviron()
	}
	words := b.commandWords(c.run, p)
	w := &method{language: p.language, name: c.name, what: p.code, seldom: c.seldom, loaded: c.loaded,
		once: func(ctx context.Context) (string, error) { return runOutput(ctx, environ, words...) }}
	if c.start != "" {
		_, w.broken = b.runTool(ctx, b.commandWords(c.start, p))
		b.closers = append(b.closers, func() { b.removeContainers(words[0]) })
	}
	return w
}

func (b *bench) runTool(ctx context.Context, words []string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	return runOutput(ctx, b.Environ, words...)
}

// removeContainers removes our containers from an engine, including those of interrupted commands.
func (b *bench) removeContainers(engine string) {
	ctx := context.Background() // clean up even after the end of the caller's context
	ids, err := b.runTool(ctx, b.commandWords(engine+" ps --all --quiet --filter label=LABEL", program{}))
	if err == nil && strings.TrimSpace(ids) != "" {
		_, _ = b.runTool(ctx, append([]string{engine, "rm", "--force"}, strings.Fields(ids)...)) // nobody to report it to
	}
}
