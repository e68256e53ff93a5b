package changes

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/sandboxmcp/sandboxmcp/backends/hostfs"
	hostpaths "github.com/sandboxmcp/sandboxmcp/backends/paths"
	"github.com/sandboxmcp/sandboxmcp/cli/exit"
	"github.com/sandboxmcp/sandboxmcp/cli/lazy"
	"github.com/sandboxmcp/sandboxmcp/cli/wiring"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/changes"
	"github.com/sandboxmcp/sandboxmcp/pipeline/workspace"
)

// store is the pipeline with the change sets of a namespace; here is the current directory.
type store struct {
	*pipeline.Pipeline
	namespace, here string
}

func (p commands) withStore(c *cli.Context, f func(context.Context, store) error) error {
	cfg, err := wiring.Load(c)
	if err != nil {
		return err
	}
	here, err := os.Getwd()
	if err == nil {
		here, err = hostfs.Resolve(here)
	}
	if err != nil {
		return err
	}
	return wiring.WithParts(p.Streams, c, cfg, wiring.Purpose{}, func(ctx context.Context, parts *wiring.Parts) error {
		return f(ctx, store{parts.Pipeline, pipeline.NamespaceOrDefault(c.String("namespace")), here})
	})
}

// target is a change set with only those entries that a command line names.
type target struct {
	changes.Set
	paths []string
}

// choice reports whether a command without an id may act on a change set.
type choice func(s store, set changes.Set, paths []string) bool

func hasStatus(status string) choice {
	return func(_ store, set changes.Set, _ []string) bool { return set.Status == status }
}

// isReadable reports whether a change set still has its content.
func isReadable(_ store, set changes.Set, _ []string) bool {
	return set.Status != changes.StatusDropped
}

// isUndecided reports whether a change set waits for a decision, or has paths that an apply left out.
func isUndecided(s store, set changes.Set, paths []string) bool {
	if set.Status != changes.StatusApplied {
		return set.Status == changes.StatusProposed
	}
	full, err := workspace.Get(s.Pipeline, s.namespace, set.ID)
	return err == nil && slices.ContainsFunc(full.Entries, func(e changes.Entry) bool {
		return !e.Applied && e.Refused == "" && (e.Held == "" || len(paths) > 0)
	})
}

// withSet calls f with the change set of a command line. If the first word is not an id, that is the newest set of the
// current directory that meets the first of the choices; the next choice counts if no set meets the ones before.
func (p commands) withSet(c *cli.Context, f func(context.Context, store, target) error, choices ...choice) error {
	return p.withStore(c, func(ctx context.Context, s store) error {
		id, paths := "", c.Args().Slice()
		if len(paths) > 0 && isID().MatchString(paths[0]) {
			id, paths = paths[0], paths[1:]
		}
		if id == "" {
			sets, err := workspace.List(s.Pipeline, changes.Filter{Namespace: s.namespace, Dir: s.here})
			if err != nil {
				return err
			}
			newest := -1
			for _, means := range choices {
				if newest < 0 {
					newest = slices.IndexFunc(sets, func(set changes.Set) bool { return means(s, set, paths) })
				}
			}
			if newest < 0 {
				return exit.Fail("list those of all directories: sandboxmcp changes --all", "%s has no change set to %s", s.here, c.Command.Name)
			}
			id = sets[newest].ID
		}
		set, err := workspace.Get(s.Pipeline, s.namespace, id)
		if err != nil {
			return exit.AsFailure(err)
		}
		if len(paths) > 0 {
			set.Entries = slices.DeleteFunc(set.Entries, func(e changes.Entry) bool {
				return !slices.ContainsFunc(paths, func(dir string) bool { return hostpaths.Within("/"+e.Path, filepath.Join("/", dir)) })
			})
			if len(set.Entries) == 0 {
				return exit.Fail("sandboxmcp changes show --stat lists the paths", "the change set has no path %s", strings.Join(paths, " "))
			}
		}
		return f(ctx, s, target{set, paths})
	})
}

// isID matches the first characters of an id, at least 8 letters and digits.
var isID = lazy.Regexp(`^0[0-9A-HJKMNP-TV-Z]{7,25}$`)
