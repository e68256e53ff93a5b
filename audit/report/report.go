// Package report makes an HTML page of an audit log, for the people responsible for this machine's runs. It reads
// the rows once and keeps sums and the newest items, so that its memory does not grow with the log.
package report

import (
	"iter"
	"time"

	"github.com/sandboxmcp/sandboxmcp/audit"
	"github.com/sandboxmcp/sandboxmcp/audit/facts"
	"github.com/sandboxmcp/sandboxmcp/audit/safetext"
)

// Summary aggregates the rows of a log.
type Summary struct {
	rows        int64
	first, last audit.Row // without their data
	kinds       counter[string]

	runs     runs
	layers   layers
	egress   network
	people   people
	secrets  secrets
	packages counter[installed]
	limits   counter[limit]
	sessions sessions
	files    files
}

// Collect reads all rows. It returns the rows' error.
func Collect(rows iter.Seq2[audit.Row, error]) (*Summary, error) {
	s := &Summary{}
	for r, err := range rows {
		if err != nil {
			return nil, err
		}
		s.addRow(r)
	}
	return s, nil
}

func (s *Summary) addRow(r audit.Row) {
	f := facts.Parse(r)
	r.Data = nil // the summary keeps rows without data
	if s.rows++; s.rows == 1 {
		s.first = r
	}
	s.last = r
	s.kinds.countOf(r.Kind, r.Time).N++
	s.runs.addRow(r, f)
	s.layers.addRow(r, f)
	s.egress.addRow(r, f)
	s.people.addRow(r, f)
	s.secrets.addRow(r, f)
	s.sessions.addRow(r, f)
	s.files.addRow(r, f)
	for _, p := range f.Packages {
		s.packages.countOf(installed{clip(f.Language), clip(p.Name), clip(p.Version), clip(r.Namespace)}, r.Time).N++
	}
	if r.Kind == "resource.exceeded" {
		for _, l := range f.Limits() {
			s.limits.countOf(limit{clip(l), clip(r.Namespace)}, r.Time).N++
		}
	}
}

type installed struct{ Language, Name, Version, Namespace string }

type limit struct{ Name, Namespace string }

// maxText is the maximum size of a text, in bytes.
const maxText = 300

func clip(text string) string { return safetext.Clip(text, maxText) }

// timestamp returns t in the format of the page.
func timestamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02 15:04:05")
}
