package export

import (
	"cmp"
	"encoding/json"
	"strings"
	"time"

	"github.com/sandboxmcp/sandboxmcp/audit"
	"github.com/sandboxmcp/sandboxmcp/audit/facts"
)

// OCSFVersion is the version of the Open Cybersecurity Schema Framework that events follow
// (https://schema.ocsf.io/1.8.0/).
const OCSFVersion = "1.8.0"

// eventOf returns the event of the schema for r. It has the row's number, hash, time to the nanosecond and all data, so that nothing is lost.
func eventOf(r audit.Row, version string) event {
	f := facts.Of(r)
	e := event{Time: r.Time.UnixMilli(), Message: f.Summary(r), Severity: informational, Status: success,
		Unmapped: unmapped{Data: Sound(r).Data, Prev: r.Prev},
		Metadata: metadata{
			Version: OCSFVersion, Product: product{Name: "sandboxmcp", Vendor: "sandboxmcp", Version: version},
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

// approval makes e the event of a question to a person, or of the answer. The approval is an entity, which is created,
// activated and deactivated.
func (e *event) approval(r audit.Row, f facts.Facts, verb string) {
	e.Class, e.Comment = entityManagement, f.Reason
	e.Entity = &entity{UID: r.Run, Name: cmp.Or(f.What, "approval"), Type: cmp.Or(f.Kind, "egress") + " approval"}
	e.Actor = &actor{App: cmp.Or(f.By, f.Client, "sandboxmcp")}
	if name := cmp.Or(f.Identity, f.User); name != "" {
		e.Actor.User = &user{Name: name}
	}
	switch verb {
	case "requested":
		e.Activity = "Create"
	case "approved":
		e.Activity = "Activate"
		e.allow(f.Reason)
	case "denied":
		e.Activity = "Activate"
		e.deny(f.Reason)
	case "revoked":
		e.Activity = "Deactivate"
	default:
		e.Activity, e.OtherActivity = "Other", r.Kind
	}
}

// secret makes e the event of a change to a secret of the vault.
func (e *event) secret(r audit.Row, f facts.Facts, verb string) {
	e.Class = entityManagement
	e.Entity = &entity{UID: r.Namespace + "/" + f.Name, Name: f.Name, Type: "secret"}
	e.Actor = &actor{App: "sandboxmcp"}
	e.does(r, verb)
}

// packages makes e the event of an installation. The schema has a single product in an event; the list of packages is
// in the data.
func (e *event) packages(r audit.Row, f facts.Facts) {
	e.Class, e.Activity = applicationLifecycle, "Install"
	e.App = &product{Name: f.Installed(), UID: cmp.Or(r.Run, r.Hash)}
}

// call makes e the event of any other operation.
func (e *event) call(r audit.Row, f facts.Facts, verb string) {
	e.Class = apiActivity
	e.Actor = &actor{App: "sandboxmcp"}
	e.API = &api{Operation: r.Kind, Service: &service{Name: "sandboxmcp"}}
	e.Source = &endpoint{UID: cmp.Or(r.Run, r.Hash), Name: "sandbox"}
	for _, name := range append(f.Secrets, f.Names...) {
		e.Resources = append(e.Resources, resource{Name: name, Namespace: r.Namespace, Type: "secret"})
	}
	for _, file := range f.Files {
		e.Resources = append(e.Resources, resource{Name: file.Name, UID: file.SHA256, Type: "artifact"})
	}
	e.does(r, verb)
}

// does sets the activity that a kind's second word stands for. All classes with which does is used know the four.
func (e *event) does(r audit.Row, verb string) {
	switch verb {
	case "added", "created", "imported", "signed":
		e.Activity = "Create"
	case "accessed":
		e.Activity = "Read"
	case "changed", "rotated", "rekeyed", "bridged":
		e.Activity = "Update"
	case "deleted":
		e.Activity = "Delete"
	default:
		e.Activity, e.OtherActivity = "Other", r.Kind
	}
}
