package machine

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends/container"
	"github.com/sandboxmcp/sandboxmcp/cli/config"
	"github.com/sandboxmcp/sandboxmcp/cli/exit"
	"github.com/sandboxmcp/sandboxmcp/cli/wiring"
)

// engineTimeout is how long an engine may take to say what it is and which images it has: one that hangs must not
// hold up whoever asks about others.
const engineTimeout = 5 * time.Second

// surveyed is a container engine's answer about itself and its images: the configured ones, and those that were built here.
type surveyed struct {
	name   string
	info   container.Info
	err    error // it does not answer
	images []surveyedImage
}

// surveyedImage is an image as one engine has it, or has it not.
type surveyedImage struct {
	language   string
	reference  string
	configured bool // runs of the language are made from it
	container.Image
	err error // container.ErrNoImage where it is not there
}

// survey asks engines, all at once.
func survey(ctx context.Context, cfg config.Config, names []string) []surveyed {
	all := make([]surveyed, len(names))
	var asked sync.WaitGroup
	for i, name := range names {
		asked.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, engineTimeout)
			defer cancel()
			all[i] = surveyOne(ctx, cfg, name)
		})
	}
	asked.Wait()
	return all
}

func surveyOne(ctx context.Context, cfg config.Config, name string) surveyed {
	engine := wiring.Engine(name, cfg)
	defer engine.Close()
	return ask(ctx, engine, cfg)
}

func ask(ctx context.Context, engine container.Engine, cfg config.Config) surveyed {
	s := surveyed{name: engine.Name()}
	if s.info, s.err = engine.Info(ctx); s.err != nil {
		return s
	}
	seen := map[string]bool{}
	for _, language := range config.Languages() {
		i := surveyedImage{language: language, reference: cfg.Images.Of(language), configured: true}
		i.Image, i.err = engine.Image(ctx, i.reference)
		seen[i.ID] = i.err == nil
		s.images = append(s.images, i)
	}
	own, err := engine.Images(ctx, container.LabelImage)
	if err != nil { // those that are used were found: this is about more
		return s
	}
	for _, i := range own {
		if !seen[i.ID] && len(i.Names) > 0 {
			s.images = append(s.images, surveyedImage{language: i.Labels[container.LabelImage], reference: i.Names[0], Image: i})
		}
	}
	return s
}

// findings are the lines of doctor about one engine.
func (s surveyed) findings() []finding {
	f := finding{Kind: "engine", Name: s.name, OK: s.err == nil}
	if s.err != nil {
		f.Detail, f.Remedy = exit.Because(s.err)
		return []finding{f}
	}
	f.Detail = described(s.info)
	if s.info.HasInit { // a cluster, which has an image once a node has pulled it
		f.Detail = "version " + s.info.Version + " at " + s.info.Address + map[bool]string{true: ", with users mapped", false: ", without user namespaces"}[s.info.UserNS]
		return []finding{f}
	}
	all := []finding{f}
	for _, i := range s.images {
		all = append(all, i.finding(s.name))
	}
	return all
}

// described returns the facts of an engine on one line.
func described(i container.Info) string {
	parts := []string{"version " + i.Version + " at " + i.Address}
	switch {
	case i.Rootless:
		parts = append(parts, "rootless")
	case i.UserNS:
		parts = append(parts, "as root, with users mapped")
	default:
		parts = append(parts, "as root, without user namespaces")
	}
	if i.Runtime != "" {
		parts = append(parts, i.Runtime)
	}
	if i.CgroupV2 {
		parts = append(parts, "cgroup v2")
	} else {
		parts = append(parts, "cgroup v1")
	}
	if !i.Limits {
		parts = append(parts, "without limits of memory and processes")
	}
	if !i.Local {
		parts = append(parts, "elsewhere: nothing of this machine can be mounted")
	}
	if i.Hint != "" {
		parts = append(parts, i.Hint)
	}
	return strings.Join(parts, ", ")
}

func (i surveyedImage) finding(engine string) finding {
	f := finding{Kind: "image", Name: i.language, OK: i.err == nil}
	switch {
	case i.err == nil:
		f.Detail = engine + " has " + i.reference + ", " + megas(i.Size)
		if !i.configured {
			f.Detail += ", which no run uses: sandboxmcp config says which image one does"
		}
	case errors.Is(i.err, container.ErrNoImage):
		f.Detail, f.Remedy = engine+" has no "+i.reference, "sandboxmcp image pull --backend "+engine+" "+i.language
	default:
		f.Detail, f.Remedy = exit.Because(i.err)
	}
	return f
}
