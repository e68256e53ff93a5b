package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sandboxmcp/sandboxmcp/audit"
	"github.com/sandboxmcp/sandboxmcp/audit/facts"
)

// How runs end, as the charts tell them apart.
const (
	fine     = iota // exit code 0
	exited          // another exit code, or a signal
	stopped         // by a limit, by the clock, by whoever asked for it, or by a fault
	refused         // and never started
	outcomes        // how many there are
)

// bars has a number for each outcome.
type bars [outcomes]int64

func (b bars) sum() (n int64) {
	for _, one := range b {
		n += one
	}
	return n
}

// runs counts the runs.
type runs struct {
	ended    bars
	hours    map[int64]bars // by the hours since 1970
	ofDay    [24]bars       // by the hour of the day
	language counter[string]
	space    counter[string]
	backend  counter[[2]string]
	how      counter[string]
	refusals counter[[2]string] // by stage and reason
	policies counter[string]    // by their hashes
	longest  record
	hungry   record
	list     newest[ran]
	denied   newest[ran] // those that were refused
	wall     float64     // ms
	cpu      float64     // ms

	open    map[string]time.Time // started, and not ended yet
	lost    int64                // starts beyond maxKeys open ones
	started int64
}

// maxHours bounds the number of hours, as anybody can set a clock.
const maxHours = 200_000

func (s *runs) add(r audit.Row, f facts.Facts) {
	if r.Kind == "execution.started" {
		s.start(r)
	}
	if !ends(r.Kind) {
		return
	}
	delete(s.open, r.Run)
	how := outcome(r.Kind, f)
	s.count(r.Time, how)
	c := s.language.at(cmp.Or(clip(f.Language), clip(f.Tool), "(none)"), r.Time)
	c.N++
	space := s.space.at(clip(r.Namespace), r.Time)
	space.N++
	if how == refused {
		c.Denied++
		space.Denied++
		s.refusals.at([2]string{clip(f.Stage), cmp.Or(clip(f.Reason), "(no reason in the row)")}, r.Time).N++
	} else {
		s.backend.at([2]string{clip(f.Backend), clip(f.Profile)}, r.Time).N++
	}
	s.how.at(cmp.Or(clip(f.Ended), "could not be run"), r.Time).N++
	s.wall, s.cpu = s.wall+f.WallMS, s.cpu+f.CPUMS
	if f.Policy != "" {
		s.policies.at(clip(f.Policy), r.Time).N++
	}
	one := ranBy(r, f)
	s.list.add(one, maxRuns)
	if how == refused {
		s.denied.add(one, maxNewest)
	}
	s.longest.add(one, f.WallMS)
	s.hungry.add(one, float64(f.Peak))
}

// ends reports whether a row of that kind is the end of a run.
func ends(kind string) bool {
	return slices.Contains([]string{"execution.completed", "execution.failed", "execution.timeout", "execution.refused", "execution.lost"}, kind)
}

func (s *runs) start(r audit.Row) {
	s.started++
	if s.open == nil {
		s.open = map[string]time.Time{}
	}
	if len(s.open) < maxKeys {
		s.open[r.Run] = r.Time
	} else {
		s.lost++
	}
}

func (s *runs) count(t time.Time, how int) {
	s.ended[how]++
	s.ofDay[t.UTC().Hour()][how]++
	hour := t.Unix() / 3600
	b, known := s.hours[hour]
	if !known && len(s.hours) >= maxHours {
		return
	}
	if s.hours == nil {
		s.hours = map[int64]bars{}
	}
	b[how]++
	s.hours[hour] = b
}

func outcome(kind string, f facts.Facts) int {
	switch {
	case kind == "execution.refused":
		return refused
	case kind != "execution.completed":
		return stopped
	case f.Ended == "ok":
		return fine
	}
	return exited
}

// maxRecord is the number of runs in a record.
const maxRecord = 10

// maxRuns is the number of runs in the list of the newest.
const maxRuns = 1000

// record has the runs with the largest values, the largest first.
type record []ran

// ran is a run that has ended.
type ran struct {
	Value                          float64
	Seq                            int64 // of the row of its end
	Time                           time.Time
	Run, Namespace, Name, Language string
	Session                        string
	How, Reason                    string
	Agent, User                    string
	Missing                        string // layers
	Reached, Refused               int    // names, as far as the row lists them
	Files                          int
	Receipt                        string // its SHA-256
	Linked                         bool   // among the runs that are listed one by one
}

func ranBy(r audit.Row, f facts.Facts) ran {
	one := ran{Seq: r.Seq, Time: r.Time, Run: clip(r.Run), Namespace: clip(r.Namespace), Name: clip(cmp.Or(strings.Join(f.Command, " "), f.Name, f.What)),
		Language: clip(cmp.Or(f.Language, f.Tool)), Session: clip(f.Session), How: clip(f.Ended), Reason: clip(f.Reason), Agent: clip(f.Client), User: clip(cmp.Or(f.Identity, f.User)),
		Missing: clip(strings.Join(f.Missing, ", ")), Files: max(f.Artifacts, len(f.Files)), Receipt: clip(f.Receipt)}
	if f.Ended == "exit" {
		one.How = fmt.Sprintf("exit %d", f.ExitCode)
	}
	for _, d := range f.Egress {
		if d.Allowed {
			one.Reached++
		} else {
			one.Refused++
		}
	}
	return one
}

func (rec *record) add(one ran, value float64) {
	if value <= 0 || len(*rec) == maxRecord && value <= (*rec)[maxRecord-1].Value {
		return
	}
	one.Value = value
	at, _ := slices.BinarySearchFunc(*rec, value, func(a ran, v float64) int { return cmp.Compare(v, a.Value) })
	*rec = slices.Insert(*rec, at, one)
	*rec = (*rec)[:min(len(*rec), maxRecord)]
}

// linkable marks the runs that are in the list of the newest, to which the page links.
func (s *runs) linkable(all []ran) []ran {
	all = slices.Clone(all)
	for i := range all {
		all[i].Linked = len(s.list.all) > 0 && all[i].Seq >= s.list.all[0].Seq
	}
	return all
}
