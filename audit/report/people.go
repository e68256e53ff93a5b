package report

import (
	"cmp"
	"strings"
	"time"

	"github.com/sandboxmcp/sandboxmcp/audit"
	"github.com/sandboxmcp/sandboxmcp/audit/facts"
)

// maxNewest is the maximum length of a list of the newest things.
const maxNewest = 100

// people counts the decisions of people.
type people struct {
	asked    int64
	verdicts counter[verdict]
	list     newest[answer]
}

// verdict is a decision of a user over a channel.
type verdict struct{ What, By, User string }

// answer is the answer of a person.
type answer struct {
	Seq                                                         int64
	Time                                                        time.Time
	Verdict, Kind, What, Namespace, By, User, Scope, Until, Why string
}

func (s *people) addRow(r audit.Row, f facts.Facts) {
	stem, what, _ := strings.Cut(r.Kind, ".")
	if f.What == "" || stem != "egress" && stem != "approval" {
		return
	}
	if what == "requested" {
		s.asked++
		return
	}
	s.verdicts.countOf(verdict{clip(what), clip(f.By), clip(cmp.Or(f.Identity, f.User))}, r.Time).N++
	s.list.appendItem(answer{r.Seq, r.Time, clip(what), clip(f.Kind), clip(f.What), clip(r.Namespace), clip(f.By),
		clip(cmp.Or(f.Identity, f.User)), clip(f.Scope),
		clip(f.Until), clip(f.Reason)}, maxNewest)
}

// secrets counts leases of secrets and changes of the vault. Rows have names only.
type secrets struct {
	leased  int64 // how often runs leased secrets
	names   counter[secret]
	changes newest[change]
}

type secret struct{ Namespace, Name string }

type change struct {
	Seq             int64
	Time            time.Time
	Kind, Namespace string
	Name, Hosts     string
}

func (s *secrets) addRow(r audit.Row, f facts.Facts) {
	if !strings.HasPrefix(r.Kind, "vault.") {
		return
	}
	names := append(f.Secrets, f.Names...)
	if r.Kind == "vault.accessed" {
		s.leased++
		for _, name := range names {
			s.names.countOf(secret{clip(r.Namespace), clip(name)}, r.Time).N++
		}
		return
	}
	if f.Name != "" {
		names = append(names, f.Name)
	}
	s.changes.appendItem(change{r.Seq, r.Time, clip(r.Kind), clip(r.Namespace), clip(strings.Join(names, ", ")),
		clip(strings.Join(f.Hosts, ", "))}, maxNewest)
}

// sessions counts sessions.
type sessions struct {
	created, killed int64
	cells, restarts int64
	language        counter[string]
	why             counter[string]
}

func (s *sessions) addRow(r audit.Row, f facts.Facts) {
	switch r.Kind {
	case "session.created":
		s.created++
		s.language.countOf(clip(f.Language), r.Time).N++
	case "session.killed":
		s.killed++
		s.cells, s.restarts = s.cells+int64(f.Cells), s.restarts+int64(f.Restarts)
		s.why.countOf(clip(f.Why), r.Time).N++
	}
}

// files counts the artifacts of runs.
type files struct {
	runs, all, withheld int64
	list                newest[withheld]
}

// withheld is an artifact, with the reason why it was withheld.
type withheld struct {
	Seq                       int64
	Time                      time.Time
	Run, Namespace, Name, Why string
}

func (s *files) addRow(r audit.Row, f facts.Facts) {
	if len(f.Files) == 0 {
		return
	}
	s.runs++
	s.all += int64(max(f.Artifacts, len(f.Files)))
	for _, file := range f.Files {
		if file.Withheld != "" {
			s.withheld++
			s.list.appendItem(withheld{r.Seq, r.Time, clip(r.Run), clip(r.Namespace), clip(file.Name), clip(file.Withheld)}, maxNewest)
		}
	}
}
