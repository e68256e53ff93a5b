package runtimes

import (
	"maps"
	"slices"

	"github.com/sandboxmcp/sandboxmcp/backends/paths"
)

// Join is what shows several interpreters at once, under a name. It has no program of its own.
func Join(name string, each []Runtime) Runtime {
	all := Runtime{Name: name, Links: map[string]string{}}
	v := &view{}
	for _, r := range each {
		for _, dir := range r.Prefixes {
			if !v.shows(dir) {
				v.dirs = append(slices.DeleteFunc(v.dirs, func(has string) bool { return paths.Within(has, dir) }), dir)
			}
		}
		for _, dir := range r.PathDirs {
			if !slices.Contains(all.PathDirs, dir) {
				all.PathDirs = append(all.PathDirs, dir)
			}
		}
		maps.Copy(all.Links, r.Links)
	}
	all.Prefixes = v.dirs
	maps.DeleteFunc(all.Links, func(at, _ string) bool { return v.shows(at) })
	return all
}
