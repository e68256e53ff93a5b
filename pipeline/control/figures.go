package control

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sandboxmcp/sandboxmcp/audit"
	"github.com/sandboxmcp/sandboxmcp/audit/facts"
)

// Figures sum up what the log has of the last days.
type Figures struct {
	Days       []Day    `json:"days"`       // the oldest first, without those on which nothing ran
	Domains    []Domain `json:"domains"`    // those that were decided about most often
	Namespaces []string `json:"namespaces"` // that something ran in
}

// Day has the figures of one day, in UTC.
type Day struct {
	Day     string  `json:"day"`  // 2026-01-31
	Runs    int     `json:"runs"` // that were run
	Failed  int     `json:"failed"`
	Refused int     `json:"refused"`
	P50     float64 `json:"p50_ms"` // of how long programs ran, in milliseconds
	P95     float64 `json:"p95_ms"`
	Memory  int64   `json:"peak_memory"` // bytes, of the program that took most
}

// Domain counts the decisions about a name.
type Domain struct {
	Name    string `json:"name"`
	Allowed int64  `json:"allowed"`
	Denied  int64  `json:"denied"`
}

// Bounds of what is kept in memory to sum up from.
const (
	maxDays    = 400
	maxSamples = 1000 // of one day and namespace: the newest
	maxDomains = 1000 // of one day and namespace
)

// figuresOf is what sums up a day of a namespace.
type figuresOf struct {
	Day
	walls   []float64
	next    int
	domains map[string]*Domain
}

// figures adds up rows of the log as they come.
type figures struct {
	lock  chan struct{} // is taken by sending
	after int64
	all   map[string]map[string]*figuresOf // by namespace and day
	made  sync.Once
}

// summed are the kinds of rows that figures are made of.
var summed = []string{"execution.completed", "execution.failed", "execution.timeout", "execution.refused", "egress.approved", "egress.denied"}

type figuresIn struct {
	inNamespace
	Days int `json:"days" about:"How many days back." default:"30" range:"1..400"`
}

func (a *API) figuresOf(ctx context.Context, q *figuresIn) (Figures, error) {
	if a.c.Records == nil {
		return Figures{}, errNoLog
	}
	s := &a.sums
	s.made.Do(func() { s.lock, s.all = make(chan struct{}, 1), map[string]map[string]*figuresOf{} })
	select {
	case s.lock <- struct{}{}:
		defer func() { <-s.lock }()
	case <-ctx.Done():
		return Figures{}, context.Cause(ctx)
	}
	for r, err := range a.c.Records.Rows(ctx, audit.Filter{After: s.after, Kinds: summed, Since: time.Now().AddDate(0, 0, -maxDays)}) {
		if err != nil {
			return Figures{}, err
		}
		s.add(r)
	}
	since := time.Now().UTC().AddDate(0, 0, 1-q.Days).Format(time.DateOnly)
	sees := askerOf(ctx).sees
	return s.of(since, func(n string) bool { return sees(n) && (q.Namespace == "" || n == q.Namespace) }), nil
}

// add adds a row.
func (s *figures) add(r audit.Row) {
	s.after = r.Seq
	days := s.all[r.Namespace]
	if days == nil {
		days = map[string]*figuresOf{}
		s.all[r.Namespace] = days
	}
	name := r.Time.Format(time.DateOnly)
	d := days[name]
	if d == nil {
		if len(days) >= maxDays {
			delete(days, slices.Min(slices.Collect(maps.Keys(days))))
		}
		d = &figuresOf{Day: Day{Day: name}, domains: map[string]*Domain{}}
		days[name] = d
	}
	f := facts.Of(r)
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
	if len(d.walls) < maxSamples {
		d.walls = append(d.walls, f.WallMS)
	} else {
		d.walls[d.next] = f.WallMS
		d.next = (d.next + 1) % maxSamples
	}
}

func (d *figuresOf) decided(name string, allowed bool) {
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

// topDomains is how many names are shown.
const topDomains = 20

// of adds up the days from one on, of the namespaces that count.
func (s *figures) of(since string, counts func(namespace string) bool) Figures {
	f := Figures{Days: []Day{}, Domains: []Domain{}, Namespaces: []string{}}
	sum, walls, domains := map[string]*Day{}, map[string][]float64{}, map[string]*Domain{}
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
				sum[name] = &Day{Day: name}
			}
			to := sum[name]
			to.Runs, to.Failed, to.Refused, to.Memory = to.Runs+d.Runs, to.Failed+d.Failed, to.Refused+d.Refused, max(to.Memory, d.Memory)
			walls[name] = append(walls[name], d.walls...)
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
		if w := walls[name]; len(w) > 0 {
			slices.Sort(w)
			d.P50, d.P95 = w[len(w)/2], w[(len(w)*95)/100]
		}
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
