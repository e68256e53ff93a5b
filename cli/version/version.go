// Package version describes the build of this program.
package version

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"golang.org/x/mod/module"
)

// Info describes a build. A tag from a module proxy has no commit.
type Info struct {
	Version  string     `json:"version"` // the tag, a pseudo-version, or "(devel)" for a build without Git
	Commit   string     `json:"commit,omitempty"`
	Date     *time.Time `json:"date,omitempty"` // of the commit, in UTC
	Modified bool       `json:"modified"`       // the work tree had changes
	Go       string     `json:"go"`
	Platform string     `json:"platform"`
}

// String formats v in one line.
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
	return FromBuildInfo(info)
}

// FromBuildInfo returns the Info of a build.
func FromBuildInfo(info *debug.BuildInfo) Info {
	v := Info{Version: info.Main.Version, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	// A pseudo-version contains the start of the commit and its date. A build in a clone has both in full.
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
