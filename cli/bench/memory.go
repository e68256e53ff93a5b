package bench

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// parked is what a server tells of what it keeps ready, if it keeps anything.
type parked struct {
	Language string `json:"language"`
	Ready    int64  `json:"ready"`
	Memory   int64  `json:"memory_bytes"`
	Hits     int64  `json:"hits"`
	Misses   int64  `json:"misses"`
}

// pools takes down what the server had ready so far; after the load, how that was under load.
func (b *bench) pools(ctx context.Context, loaded bool) {
	if len(b.servers) == 0 || ctx.Err() != nil {
		return
	}
	var stats struct {
		Pools []parked `json:"pools"`
	}
	if b.servers[0].call(ctx, "sandbox_stats", map[string]any{}, &stats) != nil {
		return // what is missing is left out
	}
	sum := map[string]*Pool{}
	for _, p := range stats.Pools {
		if sum[p.Language] == nil {
			sum[p.Language] = &Pool{Language: p.Language}
		}
		s := sum[p.Language]
		s.Hits, s.Misses, s.Ready, s.bytes = s.Hits+p.Hits, s.Misses+p.Misses, s.Ready+p.Ready, s.bytes+p.Memory
	}
	for i := range b.report.Pools {
		p := &b.report.Pools[i]
		if now := sum[p.Language]; now != nil && loaded {
			p.LoadHits, p.LoadMisses = now.Hits-p.Hits, now.Misses-p.Misses
		}
	}
	if loaded {
		return
	}
	for _, language := range b.Languages {
		if p := sum[language]; p != nil {
			if p.Ready > 0 {
				p.SlotMB = round(float64(p.bytes) / float64(p.Ready) / 1e6)
			}
			b.report.Pools = append(b.report.Pools, *p)
		}
	}
}

// memory measures the server that all was asked of.
func (b *bench) memory(ctx context.Context) {
	if len(b.servers) == 0 {
		return
	}
	b.say(ctx, "looking at memory")
	pause(ctx, 2*time.Second) // what the load left is put away
	s := b.servers[0]
	for _, m := range []Memory{
		{What: "server, nothing asked yet (RSS)", MB: s.idle},
		{What: "server, after the load (RSS)", MB: resident(s.cmd.Process.Pid)},
	} {
		if m.MB > 0 {
			b.report.Memory = append(b.report.Memory, m)
		}
	}
	for _, p := range b.report.Pools {
		if p.SlotMB > 0 {
			b.report.Memory = append(b.report.Memory, Memory{What: fmt.Sprintf("a sandbox that stands ready, %s (PSS)", p.Language), MB: p.SlotMB})
		}
	}
}

// resident is how much RAM a process holds, in MB, also what it shares; 0 where the system does not tell.
func resident(pid int) float64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if kb, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			n, _ := strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(kb), "kB")), 64)
			return round(n * 1024 / 1e6)
		}
	}
	return 0
}
