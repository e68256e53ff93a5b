package containment

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
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
			return nil, pipeline.Refuse(pipeline.StageValidate, fmt.Sprintf("unknown data directory %.80q: the operator has configured none", name),
				remedy.Setting.With("data.NAME"))
		case !known:
			return nil, pipeline.Refuse(pipeline.StageValidate, fmt.Sprintf("unknown data directory %.80q", name),
				"choose from: "+strings.Join(DataNames(p), ", "))
		case slices.Contains(names[:i], name):
			continue
		}
		if err := CheckNamedDir("data directory "+strconv.Quote(name), "data."+name, host); err != nil {
			return nil, err
		}
		mounts = append(mounts, backends.Mount{Host: host, Inside: DataDir + "/" + name})
	}
	return mounts, Overlap(p, mounts, nil)
}

// CheckNamedDir refuses a directory of a setting that is missing or behind a link.
func CheckNamedDir(what, setting, host string) error {
	dir, err := hostfs.OpenDir(host)
	if link, is := errors.AsType[*hostfs.LinkError](err); is {
		return pipeline.Refuse(pipeline.StageValidate, fmt.Sprintf("the %s is behind a link, which a program may have created", what),
			"name the directory itself, "+link.To+" or one below it, in ", remedy.Setting.With(setting))
	}
	if err != nil {
		return pipeline.Refuse(pipeline.StageValidate, fmt.Sprintf("the %s does not exist", what), "create it, or change ",
			remedy.Setting.With(setting))
	}
	return dir.Close()
}
