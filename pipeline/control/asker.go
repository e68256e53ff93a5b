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

// asker is who sends a request. The zero value is nobody, who sees nothing.
type asker struct {
	peer   bool // at the other end of the server's own socket: its user, or root
	root   bool // as the kernel says
	person bool
	user   string // as the audit log has it
	sees   func(namespace string) bool
	caller pipeline.Caller
}

type peerKey struct{}

// askerOf returns who sends the request that ctx is of.
func askerOf(ctx context.Context) asker {
	if uid, ok := ctx.Value(peerKey{}).(int); ok {
		name := userName(uid)
		return asker{peer: true, root: uid == 0, person: true, user: name, sees: everything, caller: pipeline.Caller{By: "command line", User: name}}
	}
	i, ok := identity.From(ctx)
	if !ok {
		return asker{sees: func(string) bool { return false }}
	}
	return asker{person: i.Kind == identity.Person, user: i.String(), sees: i.May, caller: pipeline.Caller{By: "http"}}
}

func everything(string) bool { return true }

// reach refuses a namespace that is not the asker's.
func (a asker) reach(namespace string) error {
	if !a.sees(namespace) {
		return failure(http.StatusForbidden, "these credentials do not reach the namespace %.64q", namespace)
	}
	return nil
}

// room is how many of limit requests may be under way for the asker to get in: a quarter is left to the machine's own command line.
func (a asker) room(limit int) int {
	if a.peer {
		return limit
	}
	return limit - limit/4
}

// channel returns the channel by which the asker answers questions.
func (a asker) channel() approval.Channel {
	switch {
	case a.root:
		return approval.Root()
	case a.peer:
		return approval.CommandLine()
	}
	return approval.OverHTTP()
}

// way says how the asker asks, as people read it.
func (a asker) way() string {
	if a.peer {
		return fmt.Sprintf("the command line (%s)", a.user)
	}
	return fmt.Sprintf("a person over HTTP (%s)", a.user)
}

// userName returns the name of a user, or the number of one without a name.
func userName(uid int) string {
	if u, err := user.LookupId(strconv.Itoa(uid)); err == nil {
		return u.Username
	}
	return fmt.Sprintf("uid %d", uid)
}
