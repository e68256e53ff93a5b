package version

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"testing"
)

func TestVersion(t *testing.T) {
	vcs := func(modified string) []debug.BuildSetting {
		return []debug.BuildSetting{{Key: "vcs.revision", Value: "66d3e74aaaaa5555"}, {Key: "vcs.time", Value: "2026-11-23T14:50:01Z"},
			{Key: "vcs.modified", Value: modified}}
	}
	for _, test := range []struct {
		name, version string
		settings      []debug.BuildSetting
		want          string
	}{
		{"a release", "v1.2.3", vcs("false"), "v1.2.3 (commit 66d3e74aaaaa5555, 2026-11-23T14:50:01Z, "},
		{"a clone with changes", "v1.2.4-0.20261123145001-66d3e74aaaaa+dirty", vcs("true"),
			"v1.2.4-0.20261123145001-66d3e74aaaaa+dirty (commit 66d3e74aaaaa5555, 2026-11-23T14:50:01Z, modified, "},
		{"a tag of a module proxy", "v1.2.3", nil, "v1.2.3 ("},
		{"a commit of a module proxy", "v0.0.0-20261123145001-66d3e74aaaaa", nil,
			"v0.0.0-20261123145001-66d3e74aaaaa (commit 66d3e74aaaaa, 2026-11-23T14:50:01Z, "},
		{"no Git", "(devel)", nil, "(devel) ("},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := FromBuildInfo(&debug.BuildInfo{Main: debug.Module{Version: test.version}, Settings: test.settings}).String()
			if want := fmt.Sprintf("sandboxmcp %s%s, %s/%s)", test.want, runtime.Version(), runtime.GOOS, runtime.GOARCH); got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
		})
	}
}
