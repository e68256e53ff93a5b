package mcp

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sandboxmcp/sandboxmcp/pipeline/containment"
	"github.com/sandboxmcp/sandboxmcp/pipeline/install"

	"github.com/sandboxmcp/sandboxmcp/audit/safetext"
	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/mcp/answer"
	"github.com/sandboxmcp/sandboxmcp/pipeline/remedy"
	"github.com/sandboxmcp/sandboxmcp/pipeline/workspace"
)

const aboutRuntimes = `Lists the languages with their versions and packages, the hosts that programs can reach, the names of secrets, ` +
	`and the layers of containment: of one backend, or of the default one with the languages of all others.`

type runtimesArgs struct {
	onBackend
	inNamespace
}

type runtimesFacts struct {
	answer.Common
	Backend    string         `json:"backend,omitempty" about:"The backend."`
	Usable     bool           `json:"usable" about:"Whether it can run code."`
	Why        string         `json:"why,omitempty" about:"Why it can't, otherwise."`
	Runtimes   []runtimeFacts `json:"runtimes,omitempty" about:"The interpreters."`
	Layers     []layerFacts   `json:"layers,omitempty" about:"The layers of containment."`
	Data       []string       `json:"data,omitempty" about:"Names of directories for data of execute_code and create_session."`
	Workspaces []string       `json:"workspaces,omitempty" about:"Names for workspace of execute_code and create_session, each with what becomes of changes."`
	GPUs       string         `json:"gpus,omitempty" about:"GPUs for programs."`
	Others     []backendFacts `json:"others,omitempty" about:"The other backends, unless one was named."`
}

type backendFacts struct {
	Backend  string         `json:"backend" about:"Its name, for backend."`
	Usable   bool           `json:"usable" about:"Whether it can run code."`
	Why      string         `json:"why,omitempty" about:"Why it can't, otherwise."`
	Runtimes []runtimeFacts `json:"runtimes,omitempty" about:"Its interpreters."`
}

type runtimeFacts struct {
	Language  string `json:"language" about:"The language."`
	Available bool   `json:"available" about:"Whether it is installed."`
	Version   string `json:"version,omitempty" about:"Its version."`
	Why       string `json:"why,omitempty" about:"Its path, or what to install."`
}

type layerFacts struct {
	Name    string `json:"name" about:"The layer."`
	InForce bool   `json:"in_force" about:"Whether it is in force."`
	Detail  string `json:"detail,omitempty" about:"Details, or why it is missing."`
	Remedy  string `json:"remedy,omitempty" about:"The command for a person to enable it."`
}

func (s *Server) listRuntimes(ctx context.Context, c *call, a *runtimesArgs) (*answer.Answer, error) {
	var others chan []backendFacts
	if a.Backend == "" && len(s.cfg.Backends) > 1 {
		others = make(chan []backendFacts, 1)
		go func() { others <- s.probeAll(ctx, s.cfg.Backends[1:]) }()
	}
	probing, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	p, err := containment.Probe(probing, s.cfg.Pipeline, a.Backend)
	if err != nil && others == nil {
		return nil, err
	}
	if err != nil { // other backends may work
		p.Backend, p.Why = s.cfg.Backends[0], remedy.Text{answer.Explain("", err).Reason}
	}
	words, first := answer.WordsOf("list_runtimes"), factsOf(p)
	f := &runtimesFacts{Backend: first.Backend, Usable: first.Usable, Why: first.Why, Runtimes: first.Runtimes}
	text := runtimeLines(first, s.inventory(ctx, p, c.namespace))
	text = append(text, s.reachableHosts(), "secrets of namespace "+c.namespace+": "+firstNames(s.cfg.Pipeline.SecretNames(ctx, c.namespace),
		maxPackages))
	f.GPUs = gpuText(p.Backend, backends.GPUNodes())
	text = append(text, f.GPUs)
	if f.Data = containment.DataNames(s.cfg.Pipeline); len(f.Data) > 0 {
		text = append(text, "data directories, as "+containment.DataDir+"/NAME: "+firstNames(f.Data, maxPackages))
	}
	if f.Workspaces = workspace.DescribeNamed(s.cfg.Pipeline, c.namespace); len(f.Workspaces) > 0 {
		text = append(text, "workspaces, as "+backends.Workspace+": "+strings.Join(f.Workspaces, ", "))
	}
	var held []string
	for _, l := range p.Layers {
		do := l.Remedy.In(words)
		f.Layers = append(f.Layers, layerFacts{l.Name, l.InForce, l.Detail, do})
		if l.InForce {
			held = append(held, l.Name)
		} else {
			line := fmt.Sprintf("layer %s is missing: %s", l.Name, l.Detail)
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
	return &answer.Answer{Text: strings.Join(text, "\n"), Facts: f}, nil
}

// gpuText describes the GPUs that programs can use, by the device nodes of this machine.
func gpuText(backend string, nodes []string) string {
	switch {
	case len(nodes) == 0:
		return "GPUs: none visible on this machine"
	case backend == "process":
		return "GPUs: " + strings.Join(nodes, " ") + " on this machine; the backend process gives programs none, podman and docker those in " +
			"containers.gpus"
	}
	return "GPUs: " + strings.Join(nodes, " ") + " on this machine; containers get those in containers.gpus"
}

// How long a backend may take to describe itself: a requested one, and another one.
const (
	probeTimeout = 30 * time.Second
	otherTimeout = 5 * time.Second
)

// probeAll probes backends concurrently. A backend that does not answer is unusable.
func (s *Server) probeAll(ctx context.Context, names []string) []backendFacts {
	all := make([]backendFacts, len(names))
	var asked sync.WaitGroup
	for i, name := range names {
		asked.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, otherTimeout)
			defer cancel()
			p, err := containment.Probe(ctx, s.cfg.Pipeline, name)
			if err != nil {
				p.Why = remedy.Text{answer.Explain("", err).Reason}
			}
			p.Backend = name
			all[i] = factsOf(p)
		})
	}
	asked.Wait()
	return all
}

func factsOf(p backends.Probe) backendFacts {
	words := answer.WordsOf("list_runtimes")
	f := backendFacts{p.Backend, p.Usable, p.Why.In(words), nil}
	for _, r := range p.Runtimes {
		f.Runtimes = append(f.Runtimes, runtimeFacts{r.Name, r.Path != "", r.Version, r.Why.In(words)})
	}
	return f
}

// runtimeLines lists a backend's languages, with a description of each one's packages.
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

// notable are packages that matter for planning a task, the most used first, by language. For shells they are
// programs.
var notable = map[string][]string{
	"python": {"numpy", "pandas", "scipy", "matplotlib", "seaborn", "plotly", "scikit-learn", "statsmodels", "sympy", "networkx", "pillow",
		"opencv-python",
		"torch", "tensorflow", "transformers", "xgboost", "polars", "pyarrow", "duckdb", "sqlalchemy", "requests", "httpx", "aiohttp",
		"beautifulsoup4", "lxml",
		"openpyxl", "xlsxwriter", "python-docx", "python-pptx", "pypdf", "reportlab", "pyyaml", "jinja2", "pydantic", "flask", "fastapi",
		"pytest", "rich"},
	"node": {"typescript", "lodash", "axios", "express", "react", "zod", "cheerio", "puppeteer", "playwright", "jest", "vitest", "eslint",
		"webpack", "esbuild", "uuid", "dayjs", "ws"},
	"r": {"tidyverse", "ggplot2", "dplyr", "tidyr", "readr", "data.table", "stringr", "lubridate", "jsonlite", "shiny", "rmarkdown", "caret",
		"lme4", "survival", "sf"},
}

// How many notable packages of a language are named, and how many packages at least.
const maxPackages, leastPackages = 30, 8

// inventoryTimeout is how long all interpreters of a backend may take to list packages.
const inventoryTimeout = 10 * time.Second

// inventory describes the packages of each interpreter of a backend, as programs of a namespace see them.
func (s *Server) inventory(ctx context.Context, p backends.Probe, namespace string) []string {
	if !p.Usable {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, inventoryTimeout)
	defer cancel()
	texts := make([]string, len(p.Runtimes))
	var asked sync.WaitGroup
	for n, r := range p.Runtimes {
		if r.Path == "" || containment.OtherLanguage(s.cfg.Pipeline, r.Name, "") != "" {
			continue
		}
		asked.Go(func() {
			list, err := install.List(ctx, s.cfg.Pipeline, p.Backend, namespace, r.Name)
			if texts[n] = packageText(r.Name, list); err != nil {
				texts[n] = "packages can't be listed: " + safetext.Clip(answer.OneLine(answer.Explain("", err).Reason), 200)
			}
		})
	}
	asked.Wait()
	return texts
}

// packageText lists packages: notable ones, then others, then those that the namespace has installed.
func packageText(language string, list []install.Installed) string {
	rank := func(i install.Installed) int {
		name := strings.ReplaceAll(strings.ToLower(i.Name), "_", "-")
		if at := slices.Index(notable[language], name); at >= 0 {
			return at
		}
		return len(notable[language])
	}
	list = slices.Clone(list)
	slices.SortStableFunc(list, func(a, b install.Installed) int { return rank(a) - rank(b) })
	var theirs, own []string
	known := 0 // notable packages
	for _, i := range list {
		one := strings.TrimSpace(safetext.Model(i.Name + " " + i.Version))
		if i.Own {
			own = append(own, one)
			continue
		}
		theirs = append(theirs, one)
		if rank(i) < len(notable[language]) {
			known++
		}
	}
	text := "packages: " + firstNames(theirs, min(maxPackages, max(known, leastPackages)))
	if language == "shell" {
		text = "programs: " + firstNames(theirs, maxPackages)
	}
	if own != nil {
		text += "; from install_package: " + firstNames(own, maxPackages)
	}
	return text
}

// firstNames lists the first names, and the number of the others.
func firstNames(names []string, limit int) string {
	if len(names) == 0 {
		return "none"
	}
	text := strings.Join(names[:min(len(names), limit)], ", ")
	if more := len(names) - limit; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// reachableHosts describes the hosts that programs reach without asking.
func (s *Server) reachableHosts() string {
	names := containment.Reachable(s.cfg.Pipeline)
	if len(names) == 0 {
		return "programs reach no hosts unless a person allows them: request_egress asks"
	}
	return "programs reach without asking: " + firstNames(names, maxPackages)
}
