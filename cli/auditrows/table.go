package auditrows

import (
	"io"
	"strconv"
	"time"

	"github.com/sandboxmcp/sandboxmcp/audit"
	"github.com/sandboxmcp/sandboxmcp/audit/facts"
	"github.com/sandboxmcp/sandboxmcp/cli/terminal"
)

// auditTable prints rows of the log as they come. A terminal that is narrow is not shown the run, which
// the row's number leads to.
type auditTable struct{ *terminal.Table }

// leastForNamespace is from how many columns on there is room for what happened beside the namespace.
const leastForNamespace = 72

func NewAuditTable(w io.Writer, width int) auditTable {
	t := &terminal.Table{W: w, Width: width, Live: true, Columns: []terminal.Column{
		{Name: "ROW", Right: true, Usual: 6}, {Name: "TIME", Usual: 19}, {Name: "KIND", Usual: 20},
		{Name: "NAMESPACE", Usual: 10}, {Name: "RUN", Usual: 26, Spare: true}, {Name: "WHAT"},
	}}
	if t.Narrow() {
		t.Columns[0].Usual, t.Columns[1].Usual, t.Columns[3].Usual = 5, 14, 9
		t.Columns[3].Spare = t.Width < leastForNamespace
	}
	return auditTable{t}
}

// Row implements Writer.
func (t auditTable) Row(r audit.Row) error {
	when := time.DateTime
	if t.Narrow() {
		when = "01-02 15:04:05"
	}
	return t.Table.Row(strconv.FormatInt(r.Seq, 10), r.Time.Local().Format(when), r.Kind, r.Namespace, r.Run, facts.Summary(r))
}
