package mcp

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
)

// notable are packages that decide how a task is done, the most used first, by language. Shells have programs.
var notable = map[string][]string{
	"python": {"numpy", "pandas", "scipy", "matplotlib", "seaborn", "plotly", "scikit-learn", "statsmodels", "sympy", "networkx", "pillow", "opencv-python",
		"torch", "tensorflow", "transformers", "xgboost", "polars", "pyarrow", "duckdb", "sqlalchemy", "requests", "httpx", "aiohttp", "beautifulsoup4", "lxml",
		"openpyxl", "xlsxwriter", "python-docx", "python-pptx", "pypdf", "reportlab", "pyyaml", "jinja2", "pydantic", "flask", "fastapi", "pytest", "rich"},
	"node": {"typescript", "lodash", "axios", "express", "react", "zod", "cheerio", "puppeteer", "playwright", "jest", "vitest", "eslint", "webpack", "esbuild", "uuid", "dayjs", "ws"},
	"r":    {"tidyverse", "ggplot2", "dplyr", "tidyr", "readr", "data.table", "stringr", "lubridate", "jsonlite", "shiny", "rmarkdown", "caret", "lme4", "survival", "sf"},
}

// How many packages of a language are named: notable ones, and how many there are at least if there are so many.
const maxPackages, leastPackages = 30, 8

// inventoryTimeout is how long it may take to ask a backend's interpreters, all at once.
const inventoryTimeout = 10 * time.Second

// inventory says of each interpreter of a backend what is installed for it, as programs of a namespace see it.
func (s *Server) inventory(ctx context.Context, p backends.Probe, namespace string) []string {
	if !p.Usable {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, inventoryTimeout)
	defer cancel()
	texts := make([]string, len(p.Runtimes))
	var asked sync.WaitGroup
	for n, r := range p.Runtimes {
		if r.Path == "" || s.cfg.Pipeline.OtherLanguage(r.Name, "") != "" {
			continue
		}
		asked.Go(func() {
			list, err := s.cfg.Pipeline.Installed(ctx, p.Backend, namespace, r.Name)
			if texts[n] = packageText(r.Name, list); err != nil {
				texts[n] = "packages can't be listed: " + clip(oneLine(explain("", err).Reason), 200)
			}
		})
	}
	asked.Wait()
	return texts
}

// packageText names packages: what is notable, then others, and what the namespace has installed for itself.
func packageText(language string, list []pipeline.Installed) string {
	rank := func(i pipeline.Installed) int {
		name := strings.ReplaceAll(strings.ToLower(i.Name), "_", "-")
		if at := slices.Index(notable[language], name); at >= 0 {
			return at
		}
		return len(notable[language])
	}
	list = slices.Clone(list)
	slices.SortStableFunc(list, func(a, b pipeline.Installed) int { return rank(a) - rank(b) })
	var theirs, own []string
	known := 0 // of theirs
	for _, i := range list {
		one := strings.TrimSpace(readable(i.Name + " " + i.Version))
		if i.Own {
			own = append(own, one)
			continue
		}
		theirs = append(theirs, one)
		if rank(i) < len(notable[language]) {
			known++
		}
	}
	text := "packages: " + someOf(theirs, min(maxPackages, max(known, leastPackages)))
	if language == "shell" {
		text = "programs: " + someOf(theirs, maxPackages)
	}
	if own != nil {
		text += "; installed with install_package: " + someOf(own, maxPackages)
	}
	return text
}

// someOf lists the first names, and says how many more there are.
func someOf(names []string, limit int) string {
	if len(names) == 0 {
		return "none"
	}
	text := strings.Join(names[:min(len(names), limit)], ", ")
	if more := len(names) - limit; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// reaches describes which hosts programs reach without asking.
func (s *Server) reaches() string {
	names := s.cfg.Pipeline.Reachable()
	if len(names) == 0 {
		return "programs reach no hosts unless a person allows them: request_egress asks"
	}
	return "programs reach without asking: " + someOf(names, maxPackages)
}
