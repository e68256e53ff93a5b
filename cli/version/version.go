// Package version says which build this program is.
package version

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"golang.org/x/mod/module"
)

// Info is what the build recorded. A tag that came from a module proxy names no commit, so there is none then.
type Info struct {
	Version  string     `json:"version"` // the tag, a pseudo-version, or "(devel)" for a build without Git
	Commit   string     `json:"commit,omitempty"`
	Date     *time.Time `json:"date,omitempty"` // of the commit, in UTC
	Modified bool       `json:"modified"`       // the work tree was not as committed
	Go       string     `json:"go"`
	Platform string     `json:"platform"`
}

// String is v in one line.
func (v Info) String() string {
	var of []string
	if v.Commit != "" {
		of = append(of, "commit "+v.Commit)
	}
	if v.Date != nil {
		of = append(of, v.Date.Format(time.RFC3339))
	}
	if v.Modified {
		of = append(of, "modified")
	}
	return fmt.Sprintf("sandboxmcp %s (%s)", v.Version, strings.Join(append(of, v.Go, v.Platform), ", "))
}

// Current returns the build of the running program.
func Current() Info {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{Main: debug.Module{Version: "(unknown)"}}
	}
	return Of(info)
}

// Of returns what a build recorded.
func Of(info *debug.BuildInfo) Info {
	v := Info{Version: info.Main.Version, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	// A pseudo-version holds the start of the commit and its date. A build in a clone knows them better.
	v.Commit, _ = module.PseudoVersionRev(v.Version)
	date, err := module.PseudoVersionTime(v.Version)
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			v.Commit = s.Value
		case "vcs.time":
			date, err = time.Parse(time.RFC3339, s.Value)
		case "vcs.modified":
			v.Modified = s.Value == "true"
		}
	}
	if err == nil {
		v.Date = &date
	}
	return v
}
