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

// DataDir is the directory in a sandbox that contains the operator's data directories, each under its name.
const DataDir = "/data"

// DataNames returns the names of the operator's data directories.
func DataNames(p *pipeline.Pipeline) []string { return slices.Sorted(maps.Keys(p.Config.Data)) }

// DataMounts returns the read-only mounts of data directories.
func DataMounts(p *pipeline.Pipeline, names []string) (mounts []backends.Mount, err error) {
	for i, name := range names {
		host, known := p.Config.Data[name]
		switch {
		case !known && len(p.Config.Data) == 0:
			return nil, pipeline.Refuse(pipeline.StageValidate, fmt.Sprintf("unknown data directory %.80q: the operator has configured none", name), remedy.Setting.With("data.NAME"))
		case !known:
			return nil, pipeline.Refuse(pipeline.StageValidate, fmt.Sprintf("unknown data directory %.80q", name), "choose from: "+strings.Join(DataNames(p), ", "))
		case slices.Contains(names[:i], name):
			continue
		}
		dir, err := hostfs.OpenDir(host)
		if link, is := errors.AsType[*hostfs.LinkError](err); is {
			return nil, pipeline.Refuse(pipeline.StageValidate, fmt.Sprintf("the data directory %q is behind a link, which a program may have created", name),
				"name the directory itself, "+link.To+" or one below it, in ", remedy.Setting.With("data."+name))
		}
		if err != nil {
			return nil, pipeline.Refuse(pipeline.StageValidate, fmt.Sprintf("the data directory %q does not exist", name), "create it, or change ", remedy.Setting.With("data."+name))
		}
		dir.Close()
		mounts = append(mounts, backends.Mount{Host: host, Inside: DataDir + "/" + name})
	}
	return mounts, Overlap(p, mounts, nil)
}
