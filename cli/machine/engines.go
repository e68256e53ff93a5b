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

// engineTimeout bounds an engine's answers about itself and its images, so that one that hangs does not delay the
// others.
const engineTimeout = 5 * time.Second

// engineSurvey is a container engine with its images in the JSON output: the configured ones, and those that were built
// here.
type engineSurvey struct {
	Engine  string       `json:"engine"`
	Answers bool         `json:"answers"`
	Why     string       `json:"why,omitempty"` // reason for which it does not answer
	Remedy  string       `json:"remedy,omitempty"`
	Images  []imageState `json:"images"`
	info    container.Info
	err     error // error of an engine that does not answer
}

// imageState is the state of an image in one engine.
type imageState struct {
	Language   string    `json:"language"`
	Reference  string    `json:"reference"`
	Configured bool      `json:"configured"` // used for runs of the language
	There      bool      `json:"there"`
	Why        string    `json:"why,omitempty"` // reason for which the state is unknown
	ID         string    `json:"id,omitempty"`
	Digest     string    `json:"digest,omitempty"` // "" for an image that was built here
	Size       int64     `json:"size_bytes,omitempty"`
	Created    time.Time `json:"created,omitzero"`
	remedy     string
}

// newImageState returns the state of an image from an engine's answer.
func newImageState(language, reference string, configured bool, i container.Image, err error) imageState {
	s := imageState{Language: language, Reference: reference, Configured: configured, There: err == nil, ID: i.ID, Digest: i.Digest,
		Size: i.Size, Created: i.Created}
	if err != nil && !errors.Is(err, container.ErrNoImage) {
		s.Why, s.remedy = exit.Reason(err)
	}
	return s
}

// surveyEngines asks all engines at the same time.
func surveyEngines(ctx context.Context, cfg config.Config, names []string) []engineSurvey {
	all := make([]engineSurvey, len(names))
	var asked sync.WaitGroup
	for i, name := range names {
		asked.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, engineTimeout)
			defer cancel()
			all[i] = surveyEngine(ctx, cfg, name)
		})
	}
	asked.Wait()
	return all
}

func surveyEngine(ctx context.Context, cfg config.Config, name string) engineSurvey {
	engine := wiring.Engine(name, cfg)
	defer engine.Close()
	return describeEngine(ctx, engine, cfg)
}

func describeEngine(ctx context.Context, engine container.Engine, cfg config.Config) engineSurvey {
	s := engineSurvey{Engine: engine.Name(), Images: []imageState{}}
	if s.info, s.err = engine.Info(ctx); s.err != nil {
		s.Why, s.Remedy = exit.Reason(s.err)
		return s
	}
	s.Answers = true
	seen := map[string]bool{}
	for _, language := range config.Languages() {
		reference := cfg.Images.ForLanguage(language)
		i, err := engine.Image(ctx, reference)
		seen[i.ID] = err == nil
		s.Images = append(s.Images, newImageState(language, reference, true, i, err))
	}
	own, _ := engine.Images(ctx, container.LabelImage) // the images in use are known; this adds more
	for _, i := range own {
		if !seen[i.ID] && len(i.Names) > 0 {
			s.Images = append(s.Images, newImageState(i.Labels[container.LabelImage], i.Names[0], false, i, nil))
		}
	}
	return s
}

// findings returns doctor's lines about one engine.
func (s engineSurvey) findings() []finding {
	f := finding{Kind: "engine", Name: s.Engine, OK: s.Answers, Detail: s.Why, Remedy: s.Remedy}
	switch {
	case !s.Answers:
		return []finding{f}
	case s.info.HasInit: // a cluster, which has an image once a node has pulled it
		f.Detail = "version " + s.info.Version + " at " + s.info.Address + map[bool]string{true: ", with users mapped",
			false: ", without user namespaces"}[s.info.UserNS]
		return []finding{f}
	}
	f.Detail = engineFacts(s.info)
	all := []finding{f}
	for _, i := range s.Images {
		all = append(all, i.finding(s.Engine))
	}
	return all
}

// engineFacts returns the facts of an engine on one line.
func engineFacts(i container.Info) string {
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

func (i imageState) finding(engine string) finding {
	f := finding{Kind: "image", Name: i.Language, OK: i.There, Detail: i.Why, Remedy: i.remedy}
	switch {
	case i.There:
		f.Detail = engine + " has " + i.Reference + ", " + formatMB(i.Size)
		if !i.Configured {
			f.Detail += ", which no run uses: sandboxmcp config says which image one does"
		}
	case i.Why == "":
		f.Detail, f.Remedy = engine+" has no "+i.Reference, "sandboxmcp image pull --backend "+engine+" "+i.Language
	}
	return f
}
