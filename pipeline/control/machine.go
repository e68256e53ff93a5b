package control

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sandboxmcp/sandboxmcp/pipeline/identity"
)

// Setting is one setting in force and its origin.
type Setting struct {
	Key   string `json:"key"`
	Value string `json:"value"`
	From  string `json:"from"` // "default", "FILE:LINE", "environment NAME" or "flag"
}

// general are the prefixes of settings that people with only some namespaces may see: those that apply to their
// programs and reveal nothing about others.
var general = []string{"backend", "profile", "network", "limits.", "caps.", "egress.", "validate.", "sessions.", "artifacts.", "keep.",
	"max_", "packages.", "approvals.", "redact.", "audit.capture", "pool."}

func (a *API) policy(ctx context.Context, _ *NoArguments) ([]Setting, error) {
	list := []Setting{}
	all := requesterOf(ctx).seesAll()
	for _, s := range a.c.Settings() {
		if all || slices.ContainsFunc(general, func(p string) bool {
			return s.Key == p || strings.HasSuffix(p, ".") && strings.HasPrefix(s.Key, p) || p == "max_" && strings.HasPrefix(s.Key, p)
		}) {
			if !all && strings.Contains(s.From, ":") {
				s.From = "file" // hide the path from others
			}
			list = append(list, s)
		}
	}
	return list, nil
}

// Secrets lists the names of a namespace's secrets.
type Secrets struct {
	Namespace string   `json:"namespace"`
	Names     []string `json:"names"`
}

type SecretsQuery struct {
	Namespace string `json:"namespace" about:"The namespace of the secrets." required:"true" range:"1..64"`
}

func (a *API) secrets(ctx context.Context, q *SecretsQuery) (Secrets, error) {
	if err := requesterOf(ctx).checkNamespace(q.Namespace); err != nil {
		return Secrets{}, err
	}
	return Secrets{q.Namespace, append([]string{}, a.c.Pipeline.SecretNames(ctx, q.Namespace)...)}, nil
}

// Finding is one result of doctor on the server's machine.
type Finding struct {
	Kind   string `json:"kind"` // "layer", "runtime", "engine", "image", "browser", "state", or a "backend" that does not answer
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Needed bool   `json:"needed"` // the default profile can't run without it
	Detail string `json:"detail,omitempty"`
	Remedy string `json:"remedy,omitempty"`
}

func (a *API) doctor(ctx context.Context, _ *NoArguments) ([]Finding, error) {
	list, err := a.looked.findings(ctx, a.c.Doctor)
	if !requesterOf(ctx).seesAll() {
		list = slices.DeleteFunc(slices.Clone(list), func(f Finding) bool { return f.Kind == "state" })
	}
	return append([]Finding{}, list...), err
}

// doctorCache holds the last result of doctor for a moment. Doctor starts programs, so it runs once at a time.
type doctorCache struct {
	mu   sync.Mutex
	at   time.Time
	list []Finding
}

const lookedTime = 5 * time.Second

func (l *doctorCache) findings(ctx context.Context, doctor func(context.Context) ([]Finding, error)) ([]Finding, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if time.Since(l.at) < lookedTime {
		return l.list, nil
	}
	list, err := doctor(ctx)
	if err == nil {
		l.list, l.at = list, time.Now()
	}
	return list, err
}

// Disk is the disk space of a server's state, in bytes.
type Disk struct {
	Free  int64 `json:"free"`
	Total int64 `json:"total"`
	Log   int64 `json:"log"` // the audit log's file
}

func (a *API) disk(context.Context, *NoArguments) (Disk, error) { return a.c.Disk() }

// Invitation admits a browser once.
type Invitation struct {
	Address string `json:"address,omitempty"` // URL of the page; "" without one
	Code    string `json:"code,omitempty"`
}

type InvitationQuery struct {
	Namespaces []string `json:"namespace,omitempty" about:"Only these namespaces. Default: all that the caller may see." range:"..64" each:"A namespace."`
}

// SetPage sets the function that creates invitations to the server's page.
func (a *API) SetPage(invite func(identity.Identity) (code string, err error)) { a.page.Store(&invite) }

func (a *API) invite(ctx context.Context, q *InvitationQuery) (Invitation, error) {
	by, invite, address := requesterOf(ctx), a.page.Load(), a.address.Load()
	if invite == nil || address == nil || !strings.HasPrefix(*address, "http") {
		return Invitation{}, nil
	}
	for _, n := range q.Namespaces {
		if err := by.checkNamespace(n); err != nil {
			return Invitation{}, err
		}
	}
	i, ok := identity.From(ctx)
	if !ok {
		i = identity.Identity{Name: by.user, Kind: identity.Person, Source: identity.FromPeer, Namespaces: by.own}
	}
	if len(q.Namespaces) > 0 {
		i.Namespaces = identity.Only(q.Namespaces...)
	}
	code, err := (*invite)(i)
	return Invitation{*address, code}, err
}
