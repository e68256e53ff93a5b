package containment

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/hostfs"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/remedy"
)

// DataDir is where the operator's directories of data are, in a sandbox that has them: each below its name.
const DataDir = "/data"

// DataNames are the directories of data that can be asked for.
func DataNames(p *pipeline.Pipeline) []string { return slices.Sorted(maps.Keys(p.Config.Data)) }

// DataMounts returns the mounts of directories of data, which are read-only.
func DataMounts(p *pipeline.Pipeline, names []string) (mounts []backends.Mount, err error) {
	for i, name := range names {
		host, known := p.Config.Data[name]
		switch {
		case !known && len(p.Config.Data) == 0:
			return nil, pipeline.Refuse(pipeline.StageValidate, fmt.Sprintf("there is no directory of data %.80q: the operator has named none", name), remedy.Setting.With("data.NAME"))
		case !known:
			return nil, pipeline.Refuse(pipeline.StageValidate, fmt.Sprintf("there is no directory of data %.80q", name), "choose from: "+strings.Join(DataNames(p), ", "))
		case slices.Contains(names[:i], name):
			continue
		}
		dir, err := hostfs.OpenDir(host)
		if link, is := errors.AsType[*hostfs.LinkError](err); is {
			return nil, pipeline.Refuse(pipeline.StageValidate, fmt.Sprintf("the directory of data %q is behind a link, which a program may have left", name),
				"name the directory itself, "+link.To+" or what is in it, in ", remedy.Setting.With("data."+name))
		}
		if err != nil {
			return nil, pipeline.Refuse(pipeline.StageValidate, fmt.Sprintf("the directory of data %q is not there", name), "make it, or change ", remedy.Setting.With("data."+name))
		}
		dir.Close()
		mounts = append(mounts, backends.Mount{Host: host, Inside: DataDir + "/" + name})
	}
	return mounts, Overlap(p, mounts, nil)
}
