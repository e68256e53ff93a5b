package peers

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/sandboxmcp/sandboxmcp/cli/bench"
)

// engine is a container engine, used by its own command line, as people do.
type engine struct {
	name, path string
	environ    []string
	label      string // of all containers that we make
}

// answerTime is how long an engine may take to answer a question: one that hangs must not hold up the others.
const answerTime = 10 * time.Second

// containers measures containers of an engine: one for each run, and a process in one that runs already.
func (f *found) containers(ctx context.Context, name string) {
	path := f.installed(name, name)
	if path == "" {
		return
	}
	e := &engine{name: name, path: path, environ: f.Environ, label: fmt.Sprintf("sandboxmcp.bench=%d-%d", os.Getpid(), time.Now().UnixNano())}
	version, err := e.ask(ctx, "version", "--format", "{{.Server.Version}}")
	if err != nil && name == "podman" { // which has a server elsewhere only
		version, err = e.ask(ctx, "version", "--format", "{{.Client.Version}}")
	}
	if err != nil {
		f.leaveOut(name, fmt.Errorf("it does not answer: %w", err))
		return
	}
	f.Versions[name] = strings.TrimSpace(version)
	f.engines = append(f.engines, e)
	runtimes, _ := e.ask(ctx, "info", "--format", "{{range $name, $_ := .Runtimes}}{{$name}} {{end}}") // Podman has no such list
	for _, p := range f.programs {
		image := f.Config.Image(p.Language)
		if _, err := e.ask(ctx, "image", "inspect", image); err != nil {
			f.leaveOut(name+" for "+p.Language, fmt.Errorf("it has no image %s here, and none is fetched", image))
			continue
		}
		f.Variants = append(f.Variants, e.variants(ctx, p, image, strings.Fields(runtimes))...)
		f.Peers.Images = append(f.Peers.Images, bench.Image{Engine: name, Program: p, Name: image})
	}
}

func (e *engine) variants(ctx context.Context, p *bench.Program, image string, runtimes []string) []*bench.Variant {
	create := []string{e.path, "run", "--rm", "--network", "none", "--pull", "never", "--label", e.label}
	all := []*bench.Variant{e.variant(p, "run", append(append([]string{}, append(create, image)...), p.Typed...))}
	for _, r := range runtimes {
		if r == "runsc" {
			line := append(append([]string{}, create...), "--runtime", "runsc", image)
			all = append(all, e.variant(p, "run, runsc", append(line, p.Typed...)))
		}
	}
	running := append(append([]string{}, create...), "--detach", "--stop-signal", "KILL", "--entrypoint", "sleep", image, "3600")
	id, err := e.ask(ctx, running[1:]...)
	exec := e.variant(p, "exec", append([]string{e.path, "exec", strings.TrimSpace(id)}, p.Typed...))
	exec.Broken = err
	return append(all, exec)
}

// variant runs what is typed: the file of the program need not be where the engine is.
func (e *engine) variant(p *bench.Program, manner string, line []string) *bench.Variant {
	name := e.name + " " + manner
	return &bench.Variant{Language: p.Language, Name: name, What: name + " ... " + strings.Join(p.Typed, " "), Seldom: true, Once: bench.Runs(e.environ, line...)}
}

func (e *engine) ask(ctx context.Context, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	return bench.Output(ctx, e.environ, append([]string{e.path}, args...)...)
}

// close removes what containers of ours there are, also those whose command was interrupted.
func (f *found) close() {
	ctx := context.Background() // the one that we had may have ended, which is no reason to leave them
	for _, e := range f.engines {
		ids, err := e.ask(ctx, "ps", "--all", "--quiet", "--filter", "label="+e.label)
		if err == nil && strings.TrimSpace(ids) != "" {
			_, _ = e.ask(ctx, append([]string{"rm", "--force"}, strings.Fields(ids)...)...) // there is nobody to tell
		}
	}
}
