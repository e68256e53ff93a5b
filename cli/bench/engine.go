package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// engine is a container engine, used by its own command line, as people do.
type engine struct {
	name, path string
	environ    []string
	label      string // of all containers that we make
}

func engineNames() []string { return []string{"docker", "podman"} }

// enginePatience is how long an engine may take to answer a question: one that hangs must not hold up the others.
const enginePatience = 10 * time.Second

// containers measures containers of an engine: one for each run, of its own and of ours, and a process in one that runs already.
func (b *bench) containers(ctx context.Context, name string, found []*program) {
	path, err := installed(name)
	if err != nil {
		b.leaveOut(name, err)
		return
	}
	e := &engine{name: name, path: path, environ: b.Environ, label: fmt.Sprintf("sandboxmcp.bench=%d-%s", os.Getpid(), filepath.Base(b.dir))}
	version, err := e.ask(ctx, "version", "--format", "{{.Server.Version}}")
	if err != nil && name == "podman" { // which has a server elsewhere only
		version, err = e.ask(ctx, "version", "--format", "{{.Client.Version}}")
	}
	if err != nil {
		b.leaveOut(name, fmt.Errorf("it does not answer: %w", err))
		return
	}
	b.report.Machine.Versions[name] = strings.TrimSpace(version)
	b.engines = append(b.engines, e)
	runtimes, _ := e.ask(ctx, "info", "--format", "{{range $name, $_ := .Runtimes}}{{$name}} {{end}}") // Podman has no such list
	for _, p := range found {
		image := b.Images[p.language]
		if _, err := e.ask(ctx, "image", "inspect", image); err != nil {
			b.leaveOut(name+" for "+p.language, fmt.Errorf("it has no image %s here, and none is fetched", image))
			continue
		}
		b.ways = append(b.ways, e.ways(ctx, p, image, strings.Fields(runtimes))...)
		b.ways = append(b.ways, b.inContainer(e, p, image))
	}
}

// inContainer is our own run in a container of the same image.
func (b *bench) inContainer(e *engine, p *program, image string) *way {
	config, script := filepath.Join(b.dir, e.name+"-"+p.language+".yaml"), filepath.Join(b.dir, "main"+p.suffix)
	settings, err := json.Marshal(map[string]any{ // which is YAML, too
		"backend": e.name, "images": map[string]string{p.language: image}, "containers": map[string]string{"pull": "never"},
	})
	if err == nil {
		err = os.WriteFile(config, settings, 0o600)
	}
	w := &way{language: p.language, name: within(e.name), what: FromBash + " --backend " + e.name + " main" + p.suffix, seldom: true, broken: err}
	w.once = runs(b.environ("run"), b.Program, "--config", config, "run", script)
	return w
}

// within is the name of our own way in an engine's containers.
func within(engine string) string { return FromBash + ", " + engine }

func (e *engine) ways(ctx context.Context, p *program, image string, runtimes []string) []*way {
	create := []string{e.path, "run", "--rm", "--network", "none", "--pull", "never", "--label", e.label}
	all := []*way{e.way(p, "run", append(append([]string{}, append(create, image)...), p.inside()...))}
	for _, r := range runtimes {
		if r == "runsc" {
			line := append(append([]string{}, create...), "--runtime", "runsc", image)
			all = append(all, e.way(p, "run, runsc", append(line, p.inside()...)))
		}
	}
	running := append(append([]string{}, create...), "--detach", "--stop-signal", "KILL", "--entrypoint", "sleep", image, "3600")
	id, err := e.ask(ctx, running[1:]...)
	exec := e.way(p, "exec", append([]string{e.path, "exec", strings.TrimSpace(id)}, p.inside()...))
	exec.broken = err
	return append(all, exec)
}

func (e *engine) way(p *program, manner string, line []string) *way {
	name := e.name + " " + manner
	return &way{language: p.language, name: name, what: name + " ... " + p.what, seldom: true, once: runs(e.environ, line...)}
}

func (e *engine) ask(ctx context.Context, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, enginePatience)
	defer cancel()
	return output(ctx, e.environ, append([]string{e.path}, args...)...)
}

// close removes what containers of ours there are, also those whose command was interrupted.
func (e *engine) close() {
	ctx := context.Background() // the one that we had may have ended, which is no reason to leave them
	ids, err := e.ask(ctx, "ps", "--all", "--quiet", "--filter", "label="+e.label)
	if err == nil && strings.TrimSpace(ids) != "" {
		_, _ = e.ask(ctx, append([]string{"rm", "--force"}, strings.Fields(ids)...)...) // there is nobody to tell
	}
}
