package mcp

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/remedy"
	"github.com/sandboxmcp/sandboxmcp/pipeline/session"
)

const (
	aboutRuntimes = `Lists the languages that can be run here with their versions and packages, the hosts that programs reach, the names of secrets, ` +
		`and the layers of containment that the host gives: of one backend, or of the default one with the languages of all others.`
	aboutLimits = `Sets limits: with session_id those of a session, else what later runs of a namespace get that ask for nothing else. ` +
		`Never above the operator's caps. Returns what is now in force.`
	aboutStats = `Shows the server's figures: runs, queue, sessions, times, and how many runs found a sandbox ready.`
)

type runtimesArgs struct {
	onBackend
	inNamespace
}

type limitsArgs struct {
	Session string `json:"session_id" about:"The session whose limits are set. Default: the namespace's." range:"..64"`
	inNamespace
	limits
}

// statsArgs has one since Gemini refuses tools that have none.
type statsArgs struct {
	Namespace string `json:"namespace" about:"Counts sessions and background runs of this namespace only. Default: of all that the caller may see." range:"..64"`
}

type runtimesFacts struct {
	common
	Backend  string         `json:"backend,omitempty" about:"The backend that was asked."`
	Usable   bool           `json:"usable" about:"Whether code can be run in it."`
	Why      string         `json:"why,omitempty" about:"Why it can't, if it can't."`
	Runtimes []runtimeFacts `json:"runtimes,omitempty" about:"The interpreters."`
	Layers   []layerFacts   `json:"layers,omitempty" about:"The layers of containment."`
	Data     []string       `json:"data,omitempty" about:"Names of directories that execute_code and create_session take as data."`
	GPUs     string         `json:"gpus,omitempty" about:"What graphics processors there are for programs."`
	Others   []backendFacts `json:"others,omitempty" about:"The other backends, if none was named."`
}

type backendFacts struct {
	Backend  string         `json:"backend" about:"What to give as backend."`
	Usable   bool           `json:"usable" about:"Whether code can be run in it."`
	Why      string         `json:"why,omitempty" about:"Why it can't, if it can't."`
	Runtimes []runtimeFacts `json:"runtimes,omitempty" about:"Its interpreters."`
}

type runtimeFacts struct {
	Language  string `json:"language" about:"The language."`
	Available bool   `json:"available" about:"Whether it can be run."`
	Version   string `json:"version,omitempty" about:"Its version."`
	Why       string `json:"why,omitempty" about:"Where it was found, or what to install."`
}

type layerFacts struct {
	Name    string `json:"name" about:"The layer."`
	InForce bool   `json:"in_force" about:"Whether the host gives it."`
	Detail  string `json:"detail,omitempty" about:"What exactly, or why not."`
	Remedy  string `json:"remedy,omitempty" about:"What a person types to get it."`
}

func (s *Server) listRuntimes(ctx context.Context, c *call, a *runtimesArgs) (*answer, error) {
	var others chan []backendFacts
	if a.Backend == "" && len(s.cfg.Backends) > 1 {
		others = make(chan []backendFacts, 1)
		go func() { others <- s.probeAll(ctx, s.cfg.Backends[1:]) }()
	}
	probing, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	p, err := s.cfg.Pipeline.Probe(probing, a.Backend)
	if err != nil && others == nil {
		return nil, err
	}
	if err != nil { // the others may do
		p.Backend, p.Why = s.cfg.Backends[0], remedy.Text{explain("", err).Reason}
	}
	words, first := wordsOf("list_runtimes"), factsOf(p)
	f := &runtimesFacts{Backend: first.Backend, Usable: first.Usable, Why: first.Why, Runtimes: first.Runtimes}
	text := runtimeLines(first, s.inventory(ctx, p, c.namespace))
	text = append(text, s.reaches(), "secrets of namespace "+c.namespace+": "+someOf(s.cfg.Pipeline.SecretNames(ctx, c.namespace), maxPackages))
	f.GPUs = gpuText(p.Backend, backends.GPUNodes())
	text = append(text, f.GPUs)
	if f.Data = s.cfg.Pipeline.DataNames(); len(f.Data) > 0 {
		text = append(text, "directories of data, as "+pipeline.DataDir+"/NAME: "+someOf(f.Data, maxPackages))
	}
	var held []string
	for _, l := range p.Layers {
		do := l.Remedy.In(words)
		f.Layers = append(f.Layers, layerFacts{l.Name, l.InForce, l.Detail, do})
		if l.InForce {
			held = append(held, l.Name)
		} else {
			line := fmt.Sprintf("layer %s is not there: %s", l.Name, l.Detail)
			if do != "" {
				line += "; what to do: " + do
			}
			text = append(text, line)
		}
	}
	text = append(text, "layers: "+strings.Join(held, " "))
	if others != nil {
		f.Others = <-others
	}
	for _, o := range f.Others {
		text = append(text, runtimeLines(o, nil)...)
	}
	return &answer{text: strings.Join(text, "\n"), facts: f}, nil
}

// gpuText says which graphics processors programs get, of the device nodes that this machine has.
func gpuText(backend string, nodes []string) string {
	switch {
	case len(nodes) == 0:
		return "GPUs: none visible on this machine"
	case backend == "process":
		return "GPUs: " + strings.Join(nodes, " ") + " are on this machine, and programs get none in the backend process: podman and docker give those of containers.gpus"
	}
	return "GPUs: " + strings.Join(nodes, " ") + " are on this machine; containers get those that containers.gpus names"
}

// How long a backend may take to say what it offers: the one that is asked for, and one that is asked besides.
const (
	probeTimeout = 30 * time.Second
	otherTimeout = 5 * time.Second
)

// probeAll asks backends, all at once. One that does not answer is one that can't be used.
func (s *Server) probeAll(ctx context.Context, names []string) []backendFacts {
	all := make([]backendFacts, len(names))
	var asked sync.WaitGroup
	for i, name := range names {
		asked.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, otherTimeout)
			defer cancel()
			p, err := s.cfg.Pipeline.Probe(ctx, name)
			if err != nil {
				p.Why = remedy.Text{explain("", err).Reason}
			}
			p.Backend = name
			all[i] = factsOf(p)
		})
	}
	asked.Wait()
	return all
}

func factsOf(p backends.Probe) backendFacts {
	words := wordsOf("list_runtimes")
	f := backendFacts{p.Backend, p.Usable, p.Why.In(words), nil}
	for _, r := range p.Runtimes {
		f.Runtimes = append(f.Runtimes, runtimeFacts{r.Name, r.Path != "", r.Version, r.Why.In(words)})
	}
	return f
}

// runtimeLines lists a backend's languages, each with what is known of its packages.
func runtimeLines(b backendFacts, packages []string) []string {
	text := []string{fmt.Sprintf("backend %s can run code:", b.Backend)}
	if !b.Usable {
		text[0] = fmt.Sprintf("backend %s can't run code: %s", b.Backend, b.Why)
	}
	for n, r := range b.Runtimes {
		line := fmt.Sprintf("- %s %s", r.Language, r.Version)
		if !r.Available {
			line = fmt.Sprintf("- %s is missing: %s", r.Language, r.Why)
		}
		if n < len(packages) && packages[n] != "" {
			line += "\n  " + packages[n]
		}
		text = append(text, line)
	}
	return text
}

type limitsFacts struct {
	common
	Namespace string          `json:"namespace,omitempty" about:"The namespace whose runs, or session, they are for."`
	SessionID string          `json:"session_id,omitempty" about:"The session that they are for."`
	Limits    *session.Limits `json:"limits,omitempty" about:"What is now in force."`
	Caps      *session.Limits `json:"caps,omitempty" about:"The most that can be asked for."`
}

func (s *Server) setLimits(ctx context.Context, c *call, a *limitsArgs) (*answer, error) {
	f := &limitsFacts{Namespace: c.namespace, SessionID: a.Session}
	bounds, _, err := pipeline.Do(ctx, s.cfg.Pipeline, pipeline.NewLimits{Namespace: f.Namespace, Session: f.SessionID, Bounds: a.bounds()})
	if err != nil {
		return nil, err
	}
	_, ceiling := s.cfg.Pipeline.InForce(f.Namespace)
	limits, caps := pipeline.LimitsOf(bounds), pipeline.LimitsOf(ceiling)
	f.Limits, f.Caps = &limits, &caps
	who := "a run in namespace " + f.Namespace + " that asks for nothing else"
	if f.SessionID != "" {
		who = "session " + f.SessionID
	}
	return &answer{text: fmt.Sprintf("%s has: %s\nthe most that can be asked for: %s", who, limitsText(f.Limits), limitsText(f.Caps)), facts: f}, nil
}

type statsFacts struct {
	common
	Uptime   float64          `json:"uptime_seconds" about:"Seconds since the server began."`
	Running  int              `json:"running" about:"Slots of the queue that are taken."`
	Waiting  int              `json:"waiting" about:"Requests that wait for a slot."`
	Slots    int              `json:"slots" about:"How many slots there are."`
	Runs     map[string]int64 `json:"runs,omitempty" about:"How many runs ended in which way."`
	Sessions map[string]int   `json:"sessions,omitempty" about:"How many sessions are in which state."`
	Jobs     int              `json:"background_runs" about:"Background runs that are not done."`
	P50      float64          `json:"p50_ms" about:"Half of the last runs took no more milliseconds than this."`
	P90      float64          `json:"p90_ms" about:"Nine of ten of the last runs took no more milliseconds than this."`
	P99      float64          `json:"p99_ms" about:"99 of 100 of the last runs took no more milliseconds than this."`
	Pools    []poolFacts      `json:"pools,omitempty" about:"Sandboxes that are kept ready, each for one run to come."`
}

func (s *Server) sandboxStats(_ context.Context, c *call, _ *statsArgs) (*answer, error) {
	n := s.cfg.Pipeline.Stats()
	if c.walled {
		n = s.cfg.Pipeline.StatsOf(func(namespace string) bool { return namespace == c.namespace })
	}
	f := &statsFacts{Uptime: time.Since(n.Began).Seconds(), Running: n.Running, Waiting: n.Waiting, Slots: n.Slots,
		Runs: n.Runs, Sessions: n.Sessions, Jobs: n.Jobs, P50: n.P50, P90: n.P90, P99: n.P99, Pools: poolsOf(n.Pools)}
	text := fmt.Sprintf("up for %s; %d of %d slots taken, %d waiting; %s in the background\nruns: %s\nsessions: %s\ntimes: p50 %.1f ms, p90 %.1f ms, p99 %.1f ms%s",
		time.Since(n.Began).Round(time.Second), n.Running, n.Slots, n.Waiting, count(n.Jobs, "run"), tallied(n.Runs), tallied(n.Sessions), n.P50, n.P90, n.P99, poolLines(n.Pools))
	return &answer{text: text, facts: f}, nil
}

// tallied lists what there is how many of.
func tallied[N int | int64](all map[string]N) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		parts = append(parts, fmt.Sprintf("%s %d", name, all[name]))
	}
	if parts == nil {
		return "none"
	}
	return strings.Join(parts, ", ")
}
