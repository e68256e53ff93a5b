package docker

import (
	"context"

	api "github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/sandboxmcp/sandboxmcp/backends/container"
	"github.com/sandboxmcp/sandboxmcp/backends/container/engine"
)

// resources converts limits for the engine. Zero stays zero, which means none when a container is made, and no change
// when it runs.
func (l *link) resources(r container.Resources) api.Resources {
	// Memory and swap together are the same as memory: so there is no swap.
	a := api.Resources{Memory: r.Memory, MemorySwap: r.Memory}
	if r.PIDs > 0 {
		a.PidsLimit = &r.PIDs
	}
	// More CPUs than there are, or any where the kernel can't count them, is an error for the engine.
	if r.CPU > 0 && l.info.CPUCfsQuota && l.info.CPUCfsPeriod && l.info.CgroupDriver != "none" {
		const least = 1e7 // billionths of a core; less the kernel does not take
		a.NanoCPUs = max(least, int64(r.CPU*1e9))
		if limit := int64(l.info.NCPU) * 1e9; limit > 0 {
			a.NanoCPUs = min(a.NanoCPUs, limit)
		}
	}
	return a
}

func (e *docker) Update(ctx context.Context, id string, r container.Resources) error {
	l, err := e.connect(ctx)
	if err != nil {
		return err
	}
	limits := l.resources(r)
	err = retry(ctx, func() error {
		_, err := l.ContainerUpdate(ctx, id, client.ContainerUpdateOptions{Resources: &limits})
		return err
	})
	return l.explain("change the limits of container "+id, err)
}

// ulimits are the limits of each process, and of all of a user. There are no core files: 1 byte is the kernel's word
// for none, also where core_pattern is a pipe.
func ulimits(files uint64) []*api.Ulimit {
	processes := int64(engine.Processes())
	u := []*api.Ulimit{{Name: "core", Soft: 1, Hard: 1}, {Name: "nproc", Soft: processes, Hard: processes}}
	if files > 0 {
		u = append(u, &api.Ulimit{Name: "nofile", Soft: int64(files), Hard: int64(files)})
	}
	return u
}

// gpus requests graphics processors from whatever driver the engine has for them.
func gpus(which []string) []api.DeviceRequest {
	if len(which) == 0 {
		return nil
	}
	r := api.DeviceRequest{Capabilities: [][]string{{"gpu"}}}
	for _, g := range which {
		if g == "all" {
			r.Count = -1
		}
	}
	if r.Count == 0 {
		r.DeviceIDs = which
	}
	return []api.DeviceRequest{r}
}
