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
	outcomeOK      = iota // exit code 0
	outcomeExit           // another exit code, or a signal
	outcomeStopped        // by a limit, a timeout, the caller, or a fault
	outcomeRefused        // before it started
	outcomes              // number of outcomes
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
	hours    map[int64]bars // by hour since 1970
	ofDay    [24]bars       // by the hour of the day
	language counter[string]
	space    counter[string]
	backend  counter[[2]string]
	how      counter[string]
	refusals counter[[2]string] // by stage and reason
	policies counter[string]    // by their hashes
	longest  record
	hungry   record
	list     newest[endedRun]
	denied   newest[endedRun] // those that were refused
	wall     float64          // ms
	cpu      float64          // ms

	open    map[string]time.Time // started, but not ended
	lost    int64                // starts that open has no space for
	started int64
}

// maxHours bounds the number of hours, as anybody can set a clock.
const maxHours = 200_000

func (s *runs) addRow(r audit.Row, f facts.Facts) {
	if r.Kind == "execution.started" {
		s.recordStart(r)
	}
	if !isEnd(r.Kind) {
		return
	}
	delete(s.open, r.Run)
	how := outcome(r.Kind, f)
	s.countOutcome(r.Time, how)
	c := s.language.countOf(cmp.Or(clip(f.Language), clip(f.Tool), "(none)"), r.Time)
	c.N++
	space := s.space.countOf(clip(r.Namespace), r.Time)
	space.N++
	if how == outcomeRefused {
		c.Denied++
		space.Denied++
		s.refusals.countOf([2]string{clip(f.Stage), cmp.Or(clip(f.Reason), "(no reason in the row)")}, r.Time).N++
	} else {
		s.backend.countOf([2]string{clip(f.Backend), clip(f.Profile)}, r.Time).N++
	}
	s.how.countOf(cmp.Or(clip(f.Ended), "could not be run"), r.Time).N++
	s.wall, s.cpu = s.wall+f.WallMS, s.cpu+f.CPUMS
	if f.Policy != "" {
		s.policies.countOf(clip(f.Policy), r.Time).N++
	}
	one := endedRunOf(r, f)
	s.list.appendItem(one, maxRuns)
	if how == outcomeRefused {
		s.denied.appendItem(one, maxNewest)
	}
	s.longest.insertRun(one, f.WallMS)
	s.hungry.insertRun(one, float64(f.Peak))
}

// isEnd reports whether rows of a kind are ends of runs.
func isEnd(kind string) bool {
	return slices.Contains([]string{"execution.completed", "execution.failed", "execution.timeout", "execution.refused", "execution.lost"},
		kind)
}

func (s *runs) recordStart(r audit.Row) {
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

func (s *runs) countOutcome(t time.Time, how int) {
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
		return outcomeRefused
	case kind != "execution.completed":
		return outcomeStopped
	case f.Ended == "ok":
		return outcomeOK
	}
	return outcomeExit
}

// maxRecord is the number of runs in a record.
const maxRecord = 10

// maxRuns is the number of runs in the list of the newest.
const maxRuns = 1000

// record lists the runs with the largest values, the largest first.
type record []endedRun

// endedRun is a run that has ended.
type endedRun struct {
	Value                          float64
	Seq                            int64 // of the row of its end
	Time                           time.Time
	Run, Namespace, Name, Language string
	Session                        string
	How, Reason                    string
	Agent, User                    string
	Missing                        string // layers
	Reached, Refused               int    // names that the row lists
	Files                          int
	Receipt                        string // its SHA-256
	Linked                         bool   // the page lists the run by itself
}

func endedRunOf(r audit.Row, f facts.Facts) endedRun {
	one := endedRun{Seq: r.Seq, Time: r.Time, Run: clip(r.Run), Namespace: clip(r.Namespace),
		Name:     clip(cmp.Or(strings.Join(f.Command, " "), f.Name, f.What)),
		Language: clip(cmp.Or(f.Language, f.Tool)), Session: clip(f.Session), How: clip(f.Ended), Reason: clip(f.Reason), Agent: clip(f.Client),
		User:    clip(cmp.Or(f.Identity, f.User)),
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

func (rec *record) insertRun(one endedRun, value float64) {
	if value <= 0 || len(*rec) == maxRecord && value <= (*rec)[maxRecord-1].Value {
		return
	}
	one.Value = value
	at, _ := slices.BinarySearchFunc(*rec, value, func(a endedRun, v float64) int { return cmp.Compare(v, a.Value) })
	*rec = slices.Insert(*rec, at, one)
	*rec = (*rec)[:min(len(*rec), maxRecord)]
}

// withLinks marks the runs that are in the list of newest runs, so that the page links to them.
func (s *runs) withLinks(all []endedRun) []endedRun {
	all = slices.Clone(all)
	for i := range all {
		all[i].Linked = len(s.list.all) > 0 && all[i].Seq >= s.list.all[0].Seq
	}
	return all
}
