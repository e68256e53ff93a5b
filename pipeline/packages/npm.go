package packages

import (
	"cmp"
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/sandboxmcp/sandboxmcp/backends"
)

//go:embed runnpm.js
var npmScript string

// Both ways of importing look into the node_modules of every directory above the program, up to the
// root. import knows no other way, require has NODE_PATH for programs that lie elsewhere.
const inModules = "/node_modules"

// modules is the directory of packages in a layer.
const modules = "node_modules"

// directories implements tool.
func (npm) directories() []string { return []string{modules} }

// show implements tool. Programs that packages bring are not on the PATH: layers have no links,
// so there is no .bin.
func (npm) show(content string) View {
	return View{Mounts: []backends.Mount{{Host: content + "/" + modules, Inside: inModules}}, Env: []string{"NODE_PATH=" + inModules}}
}

// plan implements tool. npm works on a copy of the layer, so installed packages stay at their versions if they can, and
// are not fetched again.
func (npm) plan(o Order, base layer, set settings, scripts, dry bool) (installPlan, error) {
	r := installPlan{mounts: slices.Clone(set.mounts), env: slices.Clone(set.env), files: maps.Clone(set.files)}
	r.files["runnpm.js"] = npmScript
	old := ""
	if base.dir != "" && len(base.files) > 0 {
		old = inOld
		r.mounts = append(r.mounts, backends.Mount{Host: base.content(), Inside: inOld})
	} else {
		r.files[target+"/package.json"] = "{}\n"
	}
	r.env = append(r.env, "npm_config_userconfig=/workspace/npmrc", "npm_config_globalconfig=/dev/null", "npm_config_update_notifier=false",
		"npm_config_ignore_scripts="+strconv.FormatBool(!scripts))
	install := []string{"node", "/workspace/runnpm.js", inTarget, old, "install", "--prefix=" + inTarget,
		"--no-audit", "--no-fund", "--no-progress", "--no-bin-links", "--color=false", "--package-lock=true"}
	if dry {
		install = append(install, "--package-lock-only")
	}
	if scripts {
		// npm 11 runs scripts only of packages that a project names; older ones don't know of it.
		r.env = append(r.env, "npm_config_dangerously_allow_all_scripts=true")
	} else {
		install = append(install, "--ignore-scripts")
	}
	r.command = append(append(install, "--"), o.Packages...)
	r.hint = func(output string) string {
		if strings.Contains(output, "sandboxmcp: ") || strings.Contains(output, "E403") {
			return "packages come from the configured registry, and from where that says its files are"
		}
		return ""
	}
	return r, nil
}

// npmLock is the part of package-lock.json that read needs:
// https://docs.npmjs.com/cli/configuring-npm/package-lock-json
type npmLock struct {
	Packages map[string]struct {
		Name, Version, Integrity string
		Link                     bool
		Dependencies             map[string]string
	}
}

// read implements tool. An order brought the packages that it names, and those that have changed.
func (npm) read(o Order, base layer, h harvest) (all, brought []Package, err error) {
	var tree npmLock
	if err := json.Unmarshal(h.lock, &tree); err != nil {
		return nil, nil, fmt.Errorf("read npm's package-lock.json: %w", err)
	}
	before := map[Package]bool{}
	for _, p := range base.packages {
		p.Requested = false
		before[p] = true
	}
	named := map[string]bool{}
	for _, spec := range o.Packages {
		named[specName("node", spec)] = true
	}
	requested := tree.Packages[""].Dependencies
	for _, place := range slices.Sorted(maps.Keys(tree.Packages)) {
		entry := tree.Packages[place]
		i := strings.LastIndex(place, modules+"/")
		if i < 0 || entry.Link || entry.Version == "" {
			continue
		}
		top := i == 0
		p := Package{Name: cmp.Or(entry.Name, place[i+len(modules)+1:]), Version: entry.Version, Hash: entry.Integrity}
		changed := !before[p]
		p.Requested = top && requested[p.Name] != ""
		all = append(all, p)
		if p.Requested = top && named[p.Name]; p.Requested || changed {
			brought = append(brought, p)
		}
	}
	return all, brought, nil
}

// retained implements tool: none, because the fresh tree is the whole one.
func (npm) retained(layer, map[string]file) (map[string]file, error) { return map[string]file{}, nil }
