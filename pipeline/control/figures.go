package control

import (
	"cmp"
	"context"
	"encoding/json"
	"iter"
	"maps"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sandboxmcp/sandboxmcp/audit"
)

// Figures summarize the last days of the audit log.
type Figures struct {
	Days       []Day    `json:"days"`             // the oldest first, without days without runs
	Domains    []Domain `json:"domains"`          // most requested hosts
	Namespaces []string `json:"namespaces"`       // namespaces with runs
	Partly     bool     `json:"partly,omitempty"` // incomplete: the rest of a long log is still being read
}

// Day has the figures of one day, in UTC.
type Day struct {
	Day     string  `json:"day"`  // 2026-01-31
	Runs    int     `json:"runs"` // number of runs
	Failed  int     `json:"failed"`
	Refused int     `json:"refused"`
	P50     float64 `json:"p50_ms"` // percentiles of the run time, in milliseconds
	P95     float64 `json:"p95_ms"`
	Memory  int64   `json:"peak_memory"` // maximum of all programs, in bytes
}

// Domain counts the decisions about a host.
type Domain struct {
	Name    string `json:"name"`
	Allowed int64  `json:"allowed"`
	Denied  int64  `json:"denied"`
}

// Bounds of the sums in memory.
const (
	maxDays    = 400
	maxDomains = 1000 // per day and namespace
)

// dayFigures sums up a day of a namespace.
type dayFigures struct {
	Day
	walls   map[float64]int // number of programs by run time: milliseconds, rounded to three digits
	domains map[string]*Domain
}

// figures adds up rows of the log, in one pass and then incrementally. A pass continues after its caller has gone.
type figures struct {
	mu    sync.Mutex
	after int64
	all   map[string]map[string]*dayFigures // by namespace and day
	pass  *logPass                          // the running pass, or nil
	ended bool
	under sync.WaitGroup
	ctx   context.Context
	stop  context.CancelFunc
}

// logPass is one reading of the log.
type logPass struct {
	over chan struct{}
	err  error // set before over is closed
}

// summed are the kinds of rows that figures need.
var summed = []string{"execution.completed", "execution.failed", "execution.timeout", "execution.refused", "execution.lost",
	"egress.approved", "egress.denied"}

type FiguresQuery struct {
	InNamespace
	Days int `json:"days,omitempty" about:"Number of days." default:"30" range:"1..400"`
}

// figuresTime bounds the wait for a pass before a caller gets incomplete figures.
const figuresTime = time.Second

func (a *API) figuresOf(ctx context.Context, q *FiguresQuery) (Figures, error) {
	s := &a.sums
	p, err := s.catchUp(a.c.Records)
	if err != nil {
		return Figures{}, err
	}
	wait := time.NewTimer(figuresTime)
	defer wait.Stop()
	partly := false
	select {
	case <-p.over:
		if p.err != nil {
			return Figures{}, p.err
		}
	case <-wait.C:
		partly = true
	case <-ctx.Done():
		return Figures{}, context.Cause(ctx)
	}
	since := time.Now().UTC().AddDate(0, 0, 1-q.Days).Format(time.DateOnly)
	sees := requesterOf(ctx).sees
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.figuresFor(since, func(n string) bool { return sees(n) && (q.Namespace == "" || n == q.Namespace) })
	f.Partly = partly
	return f, nil
}

// catchUp starts a pass over new rows, unless one is running.
func (s *figures) catchUp(log Records) (*logPass, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.ended:
		return nil, failure(http.StatusServiceUnavailable, "the server is shutting down")
	case s.pass != nil:
		return s.pass, nil
	case s.all == nil:
		s.all = map[string]map[string]*dayFigures{}
		s.ctx, s.stop = context.WithCancel(context.Background())
	}
	p := &logPass{over: make(chan struct{})}
	s.pass = p
	f := audit.Filter{After: s.after, Kinds: summed, Since: time.Now().AddDate(0, 0, -maxDays)}
	s.under.Go(func() {
		defer close(p.over)
		p.err = s.read(log.Rows(s.ctx, f))
	})
	return p, nil
}

// read adds rows, and ends the pass.
func (s *figures) read(rows iter.Seq2[audit.Row, error]) (err error) {
	for r, e := range rows {
		if err = e; err != nil {
			break
		}
		f := rowFiguresOf(r)
		s.mu.Lock()
		s.add(r, f)
		s.mu.Unlock()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pass = nil
	return err
}

// forgetLog ends the running pass, and prevents further ones.
func (s *figures) forgetLog() {
	s.mu.Lock()
	s.ended = true
	if s.stop != nil {
		s.stop()
	}
	s.mu.Unlock()
}

// rowFigures is the data of a row that figures need: decoding all of package facts takes three times as long, and the
// log may have millions of rows.
type rowFigures struct {
	Name, What string
	Ended      string
	WallMS     float64 `json:"wall_ms"`
	Peak       int64   `json:"peak_memory"`
}

func rowFiguresOf(r audit.Row) (f rowFigures) {
	_ = json.Unmarshal(r.Data, &f) // fields of other types are ignored, as in facts.Of
	return f
}

// add adds a row. The caller holds the lock.
func (s *figures) add(r audit.Row, f rowFigures) {
	s.after = r.Seq
	days := s.all[r.Namespace]
	if days == nil {
		days = map[string]*dayFigures{}
		s.all[r.Namespace] = days
	}
	name := r.Time.Format(time.DateOnly)
	d := days[name]
	if d == nil {
		if len(days) >= maxDays {
			delete(days, slices.Min(slices.Collect(maps.Keys(days))))
		}
		d = &dayFigures{Day: Day{Day: name}, walls: map[float64]int{}, domains: map[string]*Domain{}}
		days[name] = d
	}
	if strings.HasPrefix(r.Kind, "egress.") {
		d.decided(cmp.Or(f.Name, f.What), r.Kind == "egress.approved")
		return
	}
	switch {
	case r.Kind == "execution.refused":
		d.Refused++
		return
	case f.Ended != "ok":
		d.Failed++
	}
	d.Runs++
	d.Memory = max(d.Memory, f.Peak)
	d.walls[threeDigits(f.WallMS)]++
}

// threeDigits rounds milliseconds to three digits, so that a day has few different values.
func threeDigits(ms float64) float64 {
	if ms < 0.01 || ms > 1e12 {
		return min(max(ms, 0), 1e12)
	}
	unit := math.Pow(10, math.Floor(math.Log10(ms))-2)
	return math.Round(ms/unit) * unit
}

func (d *dayFigures) decided(name string, allowed bool) {
	to := d.domains[name]
	if to == nil {
		if len(d.domains) >= maxDomains {
			return
		}
		to = &Domain{Name: name}
		d.domains[name] = to
	}
	if allowed {
		to.Allowed++
	} else {
		to.Denied++
	}
}

// topDomains bounds the hosts in Figures.
const topDomains = 20

// figuresFor adds up the days since a date, of some namespaces.
func (s *figures) figuresFor(since string, counts func(namespace string) bool) Figures {
	f := Figures{Days: []Day{}, Domains: []Domain{}, Namespaces: []string{}}
	sum, walls, domains := map[string]*Day{}, map[string]map[float64]int{}, map[string]*Domain{}
	for namespace, days := range s.all {
		if !counts(namespace) {
			continue
		}
		f.Namespaces = append(f.Namespaces, namespace)
		for name, d := range days {
			if name < since {
				continue
			}
			if sum[name] == nil {
				sum[name], walls[name] = &Day{Day: name}, map[float64]int{}
			}
			to := sum[name]
			to.Runs, to.Failed, to.Refused, to.Memory = to.Runs+d.Runs, to.Failed+d.Failed, to.Refused+d.Refused, max(to.Memory, d.Memory)
			for ms, n := range d.walls {
				walls[name][ms] += n
			}
			for host, n := range d.domains {
				if domains[host] == nil {
					domains[host] = &Domain{Name: host}
				}
				domains[host].Allowed += n.Allowed
				domains[host].Denied += n.Denied
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(sum)) {
		d := sum[name]
		d.P50, d.P95 = percentile(walls[name], d.Runs/2), percentile(walls[name], d.Runs*95/100)
		f.Days = append(f.Days, *d)
	}
	for _, d := range domains {
		f.Domains = append(f.Domains, *d)
	}
	slices.SortFunc(f.Domains, func(a, b Domain) int {
		return cmp.Or(cmp.Compare(b.Allowed+b.Denied, a.Allowed+a.Denied), strings.Compare(a.Name, b.Name))
	})
	f.Domains = f.Domains[:min(len(f.Domains), topDomains)]
	slices.Sort(f.Namespaces)
	return f
}

// percentile returns the value with index before among the sorted values.
func percentile(values map[float64]int, before int) float64 {
	for _, v := range slices.Sorted(maps.Keys(values)) {
		if before -= values[v]; before < 0 {
			return v
		}
	}
	return 0
}
