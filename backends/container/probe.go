package container

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/cli/lazy"
	"github.com/sandboxmcp/sandboxmcp/pipeline/remedy"
)

// probe starts and removes a container of each present image, the only sure way to know an image's content. It
// pulls none.
func (b *Backend) probe(ctx context.Context, spec backends.Spec) backends.Probe {
	p := backends.Probe{Backend: b.Name()}
	s, err := b.engineState(ctx)
	if err != nil {
		p.Why, p.Layers = backends.ReasonOf(err), backends.UntriedLayers(err)
		return p
	}
	tried := make([]languageProbe, len(backends.Languages))
	var all sync.WaitGroup
	for i, language := range backends.Languages {
		all.Go(func() { tried[i] = b.probeLanguage(ctx, spec, language) })
	}
	all.Wait()
	for _, t := range tried {
		p.Runtimes = append(p.Runtimes, t.runtime)
	}
	best := slices.IndexFunc(tried, func(t languageProbe) bool { return t.err == nil })
	if best < 0 {
		best = max(0, slices.IndexFunc(tried, func(t languageProbe) bool { return t.image }))
		err := tried[best].err
		p.Why, p.Layers = append(remedy.Text{b.describe(s), ": "}, backends.ReasonOf(err)...), backends.UntriedLayers(err)
		return p
	}
	p.Layers = backends.TriedLayers(tried[best].layers, s.remedies())
	p.Usable, p.Why = true, remedy.Text{b.describe(s)}
	if e, is := b.engine.(Advised); is {
		if missing := e.MissingSetup(ctx); len(missing) > 0 {
			p.Why = append(p.Why, "; missing: "+strings.Join(missing, ", ")+": ", remedy.Command.With("sandboxmcp setup "+b.Name()),
				" prints what an administrator applies")
		}
	}
	return p
}

// describe names the engine.
func (b *Backend) describe(s *engineState) string {
	rootless := map[bool]string{true: "rootless"}[s.Rootless]
	parts := []string{fmt.Sprintf("%s %s at %s", b.Name(), s.Version, s.Address), rootless, s.Runtime, s.Hint}
	return strings.Join(slices.DeleteFunc(parts, func(part string) bool { return part == "" }), ", ")
}

// languageProbe is the result of probing one language.
type languageProbe struct {
	runtime backends.Runtime
	layers  []backends.Layer
	image   bool // the image exists
	err     error
}

// probeLanguage asks the interpreter of a language for its version, in a sandbox.
func (b *Backend) probeLanguage(ctx context.Context, spec backends.Spec, language string) (t languageProbe) {
	t.runtime.Name = language
	asked := backends.Spec{ID: "probe", Language: language, Profile: spec.Profile, Require: spec.Require, Limits: spec.Limits}
	defer func() {
		if t.err != nil {
			t.runtime.Path, t.runtime.Why = "", backends.ReasonOf(t.err)
		}
	}()
	var p *plan
	if p, t.err = b.plan(ctx, asked); t.err == nil {
		t.err = b.findImage(ctx, p, never)
	}
	if t.err != nil {
		return t
	}
	t.image = true
	var h *initHandle
	if h, t.err = b.launch(ctx, p, asked.ID, true); t.err != nil {
		return t
	}
	defer h.remove()
	t.runtime = h.conn.Facts().Runtime
	t.runtime.Name, t.runtime.Why = language, remedy.Text{"image ", p.title}
	var s *sandbox
	if s, t.err = h.open(ctx, p, asked); t.err != nil {
		return t
	}
	defer s.Close()
	var output prefixBuffer
	r, err := s.Exec(ctx, backends.Command{Args: []string{cmp.Or(programs[language], language), "--version"}},
		backends.Streams{Stdout: &output})
	t.layers, t.err = r.Contained.Layers, err
	t.runtime.Version = string(version().Find(output))
	return t
}

// programs are the interpreters whose name differs from their language's.
var programs = map[string]string{"shell": "bash"}

var version = lazy.Regexp(`\d+(\.\d+)+[0-9A-Za-z.+-]*`)

// prefixBuffer keeps the first bytes written to it.
type prefixBuffer []byte

// Write implements [io.Writer].
func (h *prefixBuffer) Write(b []byte) (int, error) {
	const size = 1 << 10
	*h = append(*h, b[:min(len(b), size-len(*h))]...)
	return len(b), nil
}

// probeCacheTTL is the lifetime of a result in which nothing was missing: each probe takes one container per image.
// A new image appears after that time.
const probeCacheTTL = time.Minute

// Probe implements [backends.Backend]. One probe runs at a time.
func (b *Backend) Probe(ctx context.Context, spec backends.Spec) (backends.Probe, error) {
	done, err := b.keepOpen()
	if err != nil {
		return backends.Probe{Backend: b.Name()}, err
	}
	defer done()
	ctx, cancel := b.withBackend(ctx)
	defer cancel()
	select {
	case b.probing <- struct{}{}:
		defer func() { <-b.probing }()
	case <-ctx.Done():
		return backends.Probe{Backend: b.Name()}, context.Cause(ctx)
	}
	key := fmt.Sprint(spec.Profile, spec.Require, spec.Limits)
	if known, ok := b.probes.Get(key, probeCacheTTL); ok {
		return known, nil
	}
	p := b.probe(ctx, spec)
	if p.Usable && ctx.Err() == nil {
		b.probes.Store(key, p)
	}
	return p, nil
}
