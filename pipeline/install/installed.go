package install

import (
	"bytes"
	"context"
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sandboxmcp/sandboxmcp/audit/safetext"
	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/paths"
	"github.com/sandboxmcp/sandboxmcp/cli/lazy"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/containment"
)

// Installed is a package that programs of a language can use, or a program for shells.
type Installed struct {
	Name, Version string
	Own           bool // installed for the namespace by Install
}

var (
	//go:embed installed/list.py
	listPython string
	//go:embed installed/list.js
	listNode string
	//go:embed installed/list.R
	listR string
	//go:embed installed/list.sh
	listShell string
)

// listers are programs that list installed packages, by language, with their commands.
var listers = map[string]struct{ source, name, command string }{
	"python": {listPython, "list.py", "python"}, "node": {listNode, "list.js", "node"},
	"r": {listR, "list.R", "r"}, "shell": {listShell, "list.sh", "bash"},
}

func openInstalled(*pipeline.Pipeline) *lazy.Cache[[]Installed] {
	return &lazy.Cache[[]Installed]{}
}

// rememberInstalled is the time for which a list is cached: later changes on the host show up after that.
const rememberInstalled = 10 * time.Minute

// List lists the packages that programs of a namespace can use, by running a program in a sandbox of the backend, ""
// for the default one. It takes as long as the interpreter's start, and no time while the result is cached. For a
// language without such a program it returns nothing.
func List(ctx context.Context, p *pipeline.Pipeline, backend, namespace, language string) ([]Installed, error) {
	lister, ok := listers[language]
	if !ok {
		return nil, nil
	}
	c, err := containment.Choose(p, backend, "", nil)
	if err != nil {
		return nil, err
	}
	view, err := containment.PackagesOf(ctx, p, c, pipeline.NamespaceOrDefault(namespace), language, "")
	if err != nil {
		return nil, err
	}
	defer view.Release()
	key := strings.Join([]string{c.Backend.Name(), c.Profile, language, view.Layer}, " ")
	if list, ok := pipeline.PackageState(p, openInstalled).Get(key, rememberInstalled); ok {
		return list, nil
	}
	sandbox, err := c.Backend.Start(ctx, backends.Spec{ID: pipeline.NewID(), Language: language, Profile: c.Base, Require: c.Requires,
		Mounts: view.Mounts})
	if err != nil {
		return nil, err
	}
	defer sandbox.Close()
	if err := sandbox.Files().Put(lister.name, 0o644, strings.NewReader(lister.source)); err != nil {
		return nil, err
	}
	var out bytes.Buffer
	res, err := sandbox.Exec(ctx, backends.Command{Args: []string{lister.command, lister.name}, Env: view.Env}, backends.Streams{Stdout: &out})
	if err == nil && res.Ended != backends.EndedOK {
		err = fmt.Errorf("list packages of %s: the program ended with %s %d", language, res.Ended, res.ExitCode)
	}
	if err != nil {
		return nil, err
	}
	var list []Installed
	for line := range strings.Lines(out.String()) {
		name, rest, _ := strings.Cut(strings.TrimSpace(line), "\t")
		version, directory, _ := strings.Cut(rest, "\t")
		own := slices.ContainsFunc(view.Mounts, func(m backends.Mount) bool {
			return paths.Within(directory, m.Inside)
		})
		list = append(list, Installed{safetext.Clip(name, 100), safetext.Clip(version, 40), own})
	}
	pipeline.PackageState(p, openInstalled).Store(key, list)
	return list, nil
}
