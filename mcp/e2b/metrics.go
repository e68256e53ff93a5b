package e2b

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/sandboxmcp/sandboxmcp/pipeline/session"

	"github.com/sandboxmcp/sandboxmcp/pipeline/door"
)

// metric is a sample of a sandbox's resource use.
type metric struct {
	Timestamp     time.Time `json:"timestamp"`
	TimestampUnix int64     `json:"timestampUnix"`
	CPUCount      int       `json:"cpuCount"`
	CPUUsedPct    float64   `json:"cpuUsedPct"` // of one core
	MemUsed       int64     `json:"memUsed"`    // bytes
	MemTotal      int64     `json:"memTotal"`
	MemCache      int64     `json:"memCache"` // unknown: part of MemUsed
	DiskUsed      int64     `json:"diskUsed"`
	DiskTotal     int64     `json:"diskTotal"`

	cpu float64 // CPU seconds since the start
}

// Each sandbox is sampled every sampleEvery, as E2B's are. The last maxSamples are kept: half an hour.
const (
	sampleEvery = 5 * time.Second
	maxSamples  = 360
)

// measureAll samples all sandboxes until ctx ends.
func (s *Server) measureAll(ctx context.Context) {
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		for _, b := range s.sandboxes() {
			if s.hasSession(b) {
				s.measure(b)
			} else {
				s.exists(b) // also forgets ended sandboxes
			}
		}
	}
}

// measure adds a sample to a sandbox's metrics.
func (s *Server) measure(b *Sandbox) {
	info, err := session.InfoOf(s.cfg.Pipeline, b.Namespace, b.session())
	if err != nil {
		return
	}
	u, err := session.UsageOf(s.cfg.Pipeline, b.Namespace, b.session())
	if err != nil {
		return
	}
	now := time.Now().UTC()
	m := metric{Timestamp: now, TimestampUnix: now.Unix(), CPUCount: int(max(1, info.Limits.CPU)), MemUsed: u.MemoryBytes,
		MemTotal: info.Limits.RAM << 20,
		DiskUsed: u.DiskBytes, DiskTotal: info.Limits.Disk << 20, cpu: u.CPUSeconds}
	b.mu.Lock()
	defer b.mu.Unlock()
	before, used := b.Created, 0.0
	if n := len(b.samples); n > 0 {
		before, used = b.samples[n-1].Timestamp, b.samples[n-1].cpu
	}
	if passed := now.Sub(before).Seconds(); passed > 0 {
		m.CPUUsedPct = max(0, 100*(m.cpu-used)/passed)
	}
	b.samples = append(b.samples, m)
	b.samples = b.samples[max(0, len(b.samples)-maxSamples):]
}

// samples returns a sandbox's metrics between two times, oldest first. A sandbox without samples is measured now.
func (s *Server) samples(b *Sandbox, from, to time.Time) []metric {
	b.mu.Lock()
	none := len(b.samples) == 0
	b.mu.Unlock()
	if none {
		s.measure(b)
	}
	list := []metric{}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, m := range b.samples {
		if m.TimestampUnix >= from.Unix() && (to.IsZero() || m.TimestampUnix <= to.Unix()) {
			list = append(list, m)
		}
	}
	return list
}

func (s *Server) metrics(w http.ResponseWriter, r *http.Request, b *Sandbox) error {
	var from, to time.Time
	for name, at := range map[string]*time.Time{"start": &from, "end": &to} {
		text := r.URL.Query().Get(name)
		if text == "" {
			continue
		}
		seconds, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return door.Refuse(http.StatusBadRequest, name+" must be seconds since 1970")
		}
		*at = time.Unix(seconds, 0)
	}
	return door.Reply(w, http.StatusOK, s.samples(b, from, to))
}
