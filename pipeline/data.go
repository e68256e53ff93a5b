package pipeline

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/hostfs"
	"github.com/sandboxmcp/sandboxmcp/pipeline/remedy"
)

// DataDir is where the operator's directories of data are, in a sandbox that has them: each below its name.
const DataDir = "/data"

// DataNames are the directories of data that can be asked for.
func (p *Pipeline) DataNames() []string { return slices.Sorted(maps.Keys(p.cfg.Data)) }

// dataMounts returns the mounts of directories of data, which are read-only.
func (p *Pipeline) dataMounts(names []string) (mounts []backends.Mount, err error) {
	for i, name := range names {
		host, known := p.cfg.Data[name]
		switch {
		case !known && len(p.cfg.Data) == 0:
			return nil, refuse(StageValidate, fmt.Sprintf("there is no directory of data %.80q: the operator has named none", name), remedy.Setting.With("data.NAME"))
		case !known:
			return nil, refuse(StageValidate, fmt.Sprintf("there is no directory of data %.80q", name), "choose from: "+strings.Join(p.DataNames(), ", "))
		case slices.Contains(names[:i], name):
			continue
		}
		dir, err := hostfs.OpenDir(host)
		if link, is := errors.AsType[*hostfs.Link](err); is {
			return nil, refuse(StageValidate, fmt.Sprintf("the directory of data %q is behind a link, which a program may have left", name),
				"name the directory itself, "+link.To+" or what is in it, in ", remedy.Setting.With("data."+name))
		}
		if err != nil {
			return nil, refuse(StageValidate, fmt.Sprintf("the directory of data %q is not there", name), "make it, or change ", remedy.Setting.With("data."+name))
		}
		dir.Close()
		mounts = append(mounts, backends.Mount{Host: host, Inside: DataDir + "/" + name})
	}
	return mounts, p.overlap(Request{HostFiles: HostFiles{Mounts: mounts}}, nil)
}
