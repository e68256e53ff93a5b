package control

import (
	"context"
	"fmt"
	"net/http"
	"os/user"
	"strconv"

	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/approval"
	"github.com/sandboxmcp/sandboxmcp/pipeline/identity"
)

// requester is the sender of a request. The zero value is nobody, and sees nothing.
type requester struct {
	peer   bool // on the server's own socket: its user, or root
	root   bool // verified by the kernel
	page   bool // through the page
	person bool
	user   string // name in the audit log
	own    identity.Namespaces
	caller pipeline.Caller
}

type peerKey struct{}

// requesterOf returns the sender of the request that ctx belongs to.
func requesterOf(ctx context.Context) requester {
	page := ctx.Value(pageKey{}) != nil
	if uid, ok := ctx.Value(peerKey{}).(int); ok {
		name, by := userName(uid), "command line"
		if page {
			by = "page"
		}
		return requester{peer: true, root: uid == 0, page: page, person: true, user: name, own: identity.All(),
			caller: pipeline.Caller{By: by, User: name}}
	}
	i, ok := identity.From(ctx)
	if !ok {
		return requester{}
	}
	by := "http"
	if page {
		by = "page"
	}
	return requester{own: i.Namespaces, page: page, person: i.Kind == identity.Person, user: i.String(), caller: pipeline.Caller{By: by}}
}

// sees reports whether the requester may see a namespace.
func (a requester) sees(namespace string) bool { return a.own.Has(namespace) }

// seesAll reports whether the requester may see all namespaces.
func (a requester) seesAll() bool { return a.own.All() }

// checkNamespace refuses a namespace that the requester may not see.
func (a requester) checkNamespace(namespace string) error {
	if !a.sees(namespace) {
		return failure(http.StatusForbidden, "these credentials do not give access to the namespace %.64q", namespace)
	}
	return nil
}

// client returns the client of [door.Slots] that the requester counts as.
func (a requester) client() string {
	if a.peer {
		return ""
	}
	return a.user
}

// channel returns the channel of the requester's answers to questions.
func (a requester) channel() approval.Channel {
	switch {
	case a.page: // root's too: the kernel does not verify a browser's requests
		return approval.Page()
	case a.root:
		return approval.Root()
	case a.peer:
		return approval.CommandLine()
	}
	return approval.OverHTTP()
}

// describeRoute describes the requester for people.
func (a requester) describeRoute() string {
	if a.page {
		return fmt.Sprintf("the page (%s)", a.user)
	}
	if a.peer {
		return fmt.Sprintf("the command line (%s)", a.user)
	}
	return fmt.Sprintf("a person over HTTP (%s)", a.user)
}

// userName returns the name of a user, or the uid of a user without a name.
func userName(uid int) string {
	if u, err := user.LookupId(strconv.Itoa(uid)); err == nil {
		return u.Username
	}
	return fmt.Sprintf("uid %d", uid)
}
