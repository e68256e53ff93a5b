package export

import (
	"cmp"
	"encoding/json"
	"io"
	"strings"
	"time"

	"github.com/sandboxmcp/sandboxmcp/audit"
	"github.com/sandboxmcp/sandboxmcp/audit/facts"
)

// OCSFVersion is the version of the Open Cybersecurity Schema Framework that events follow
// (https://schema.ocsf.io/1.8.0/).
const OCSFVersion = "1.8.0"

// ocsf writes an event a row, a line each. The event has the row's number, hash, time to the nanosecond and all data,
// so that nothing is lost.
type ocsf struct {
	w     io.Writer
	about About
}

func (o *ocsf) Row(r audit.Row) error { return writeLine(o.w, o.event(r)) }

func (o *ocsf) Close() error { return nil }

// event returns the event of the schema for r.
func (o *ocsf) event(r audit.Row) event {
	f := facts.Of(r)
	e := event{Time: r.Time.UnixMilli(), Message: f.Summary(r), Severity: informational, Status: success,
		Unmapped: unmapped{Data: Sound(r).Data, Prev: r.Prev},
		Metadata: metadata{
			Version: OCSFVersion, Product: product{Name: "sandboxmcp", Vendor: "sandboxmcp", Version: o.about.Version},
			UID: r.Hash, Sequence: r.Seq, EventCode: r.Kind, Tenant: r.Namespace, Correlation: r.Run,
			LogName: "audit", LogProvider: "sandboxmcp", LoggedTime: r.Time.UnixMilli(), OriginalTime: r.Time.UTC().Format(time.RFC3339Nano),
		}}
	stem, verb, _ := strings.Cut(r.Kind, ".")
	switch {
	case stem == "execution", stem == "session" && verb != "bridged", r.Kind == "resource.exceeded":
		e.process(r, f, verb)
	case stem == "egress" && f.What == "":
		e.network(r, f, verb == "approved")
	case stem == "egress" || stem == "approval":
		e.approval(r, f, verb)
	case stem == "vault" && f.Name != "":
		e.secret(r, f, verb)
	case r.Kind == "package.installed":
		e.packages(r, f)
	default:
		e.call(r, f, verb)
	}
	return e.named()
}

// Sound returns r with valid JSON as data, also if the stored data are not JSON any more.
func Sound(r audit.Row) audit.Row {
	if !json.Valid(r.Data) {
		r.Data, _ = json.Marshal(string(r.Data)) // text always marshals
	}
	return r
}

// process makes e the event of a program, or of the interpreter of a session: each is a process in its own sandbox.
func (e *event) process(r audit.Row, f facts.Facts, verb string) {
	uid := cmp.Or(r.Run, r.Hash)
	e.Class = processActivity
	e.Actor = &actor{App: "sandboxmcp"}
	e.Device = &device{UID: uid, Name: "sandbox", TypeID: other, Type: "Sandbox"}
	e.Process = &process{UID: uid, Name: cmp.Or(f.Name, f.Language), Sandbox: f.Profile}
	if f.Session != "" {
		e.Process.Session = &session{UID: f.Session}
	}
	switch verb {
	case "started", "created":
		e.Activity = "Launch"
	case "refused":
		e.Activity = "Launch"
		e.deny(f.Reason)
		e.Severity = medium
	case "exceeded":
		e.Activity, e.OtherActivity, e.Severity = "Other", "Resource Exceeded", low
	default:
		e.Activity = "Terminate"
		e.end(r, f)
	}
}

// end adds to e how a program ended.
func (e *event) end(r audit.Row, f facts.Facts) {
	if f.Ended == "ok" || f.Ended == "exit" {
		e.ExitCode = &f.ExitCode
	}
	if r.Kind == "session.killed" {
		e.Detail = f.Why
		return
	}
	if f.Ended != "ok" {
		e.Status, e.Detail = failure, cmp.Or(f.Reason, f.Summary(r))
	}
	switch {
	case len(f.Missing) > 0:
		e.Severity = medium
	case r.Kind != "execution.completed":
		e.Severity = low
	}
}

// network makes e the event of a decision about a name: about a connection or, without a port, about a DNS query.
func (e *event) network(r audit.Row, f facts.Facts, allowed bool) {
	e.Class, e.Activity = networkActivity, "Open"
	e.Source = &endpoint{UID: cmp.Or(r.Run, r.Hash), Name: "sandbox"}
	if allowed {
		e.allow(f.Reason)
	} else {
		e.deny(f.Reason)
	}
	if f.Port == 0 && f.Name != "" && !allowed {
		e.Class, e.Activity = dnsActivity, "Traffic"
		e.Query = &query{Hostname: f.Name}
		e.RcodeID, e.Rcode = 5, "Refused"
		return
	}
	e.Connection = &connection{DirectionID: 2, Direction: "Outbound", Protocol: "tcp"}
	e.Destination = at(f.Name, f.Port)
	switch {
	case !allowed:
		e.Activity = "Refuse"
	case f.Failed:
		e.Activity, e.Status, e.Severity = "Fail", failure, low
	}
	if f.Bytes > 0 {
		e.Traffic = &traffic{Bytes: f.Bytes}
	}
}

// at returns the endpoint of a name and a port. Text that is no host name, which a program may have made up, is only a
// name.
func at(name string, port int) *endpoint {
	switch {
	case name == "":
		return nil
	case strings.Trim(strings.ToLower(name), "abcdefghijklmnopqrstuvwxyz0123456789-.") == "":
		return &endpoint{Hostname: name, Port: port}
	}
	return &endpoint{Name: name, Port: port}
}
