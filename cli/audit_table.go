package cli

import (
	"io"
	"strconv"
	"time"

	"github.com/sandboxmcp/sandboxmcp/audit"
	"github.com/sandboxmcp/sandboxmcp/audit/facts"
)

// auditTable prints rows of the log as they come. A terminal that is narrow is not shown the run, which
// the row's number leads to.
type auditTable struct{ *table }

// leastForNamespace is from how many columns on there is room for what happened beside the namespace.
const leastForNamespace = 72

func newAuditTable(w io.Writer, width int) auditTable {
	t := &table{w: w, width: width, live: true, columns: []column{
		{name: "ROW", right: true, usual: 6}, {name: "TIME", usual: 19}, {name: "KIND", usual: 20},
		{name: "NAMESPACE", usual: 10}, {name: "RUN", usual: 26, spare: true}, {name: "WHAT"},
	}}
	if t.narrow() {
		t.columns[0].usual, t.columns[1].usual, t.columns[3].usual = 5, 14, 9
		t.columns[3].spare = t.width < leastForNamespace
	}
	return auditTable{t}
}

// Row implements rowWriter.
func (t auditTable) Row(r audit.Row) error {
	when := time.DateTime
	if t.narrow() {
		when = "01-02 15:04:05"
	}
	return t.table.Row(strconv.FormatInt(r.Seq, 10), r.Time.Local().Format(when), r.Kind, r.Namespace, r.Run, facts.Summary(r))
}
