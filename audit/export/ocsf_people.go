package export

import (
	"cmp"

	"github.com/sandboxmcp/sandboxmcp/audit"
	"github.com/sandboxmcp/sandboxmcp/audit/facts"
)

// approval makes e the event of a question to a person, or of the answer. The approval is an entity, which is created,
// activated and deactivated.
func (e *event) approval(r audit.Row, f facts.Facts, verb string) {
	e.Class, e.Comment = entityManagement, f.Reason
	e.Entity = &entity{UID: r.Run, Name: cmp.Or(f.What, "approval"), Type: cmp.Or(f.Kind, "egress") + " approval"}
	e.Actor = &actor{App: cmp.Or(f.By, f.Client, "sandboxmcp")}
	if f.User != "" {
		e.Actor.User = &user{Name: f.User}
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
