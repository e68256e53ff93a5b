// Package identity identifies the senders of HTTP requests: it checks bearer tokens of its own store, client
// certificates, and JWTs of an external issuer, and limits the rate of each sender.
//
// go-jose checks the signatures of JWTs, x/crypto/argon2 hashes tokens, and x/time/rate counts requests, because
// nobody should write these themselves.
package identity

import (
	"cmp"
	"context"
	"time"
)

// Kind determines the operations that an identity may use. The zero value allows none.
type Kind string

// The kinds of identities.
const (
	Agent  Kind = "agent"  // the operations of agents, in its namespaces
	Person Kind = "person" // all operations, approvals included
)

// Source is the kind of credentials that proved an identity.
type Source string

// The sources of identities.
const (
	FromToken       Source = "token"       // a bearer token of the server's own store
	FromCertificate Source = "certificate" // a client certificate
	FromJWT         Source = "jwt"         // a JSON Web Token of an external issuer
	FromPeer        Source = "peer"        // the user id of the process at the other end of a Unix socket
)

// Identity is the sender of a request. The zero value is nobody.
type Identity struct {
	Name       string // name in the audit log: unique per source
	Kind       Kind
	Source     Source
	Namespaces Namespaces // namespaces that it may use; without any it is nobody
	Token      string     // id of its token, "" without one; an earlier token may have had the same name
	Expires    time.Time  // expiry of its credentials; zero is never
}

// Owner returns the owner of a session: other identities, and later tokens of the same name, are other owners.
func (i Identity) Owner() string { return i.String() + " " + i.Token }

// May reports whether the identity may use a namespace.
func (i Identity) May(namespace string) bool {
	return (i.Kind == Person || i.Kind == Agent && !i.Namespaces.All()) && i.Namespaces.Has(namespace)
}

// String returns the source and the name, such as "token:ci", which are unique together.
func (i Identity) String() string {
	if i.Name == "" {
		return ""
	}
	return string(i.Source) + ":" + i.Name
}

type contextKey struct{}

// identified is an identity and the checker that can tell when its credentials end, or nil.
type identified struct {
	Identity
	by *Checker
}

// With returns a context with the identity i.
func With(ctx context.Context, i Identity) context.Context {
	before, _ := ctx.Value(contextKey{}).(identified)
	return context.WithValue(ctx, contextKey{}, identified{i, before.by})
}

// From returns the identity of a context, and false if there is none.
func From(ctx context.Context) (Identity, bool) {
	i, _ := ctx.Value(contextKey{}).(identified)
	return i.Identity, i.Name != "" && (i.Kind == Person && i.Namespaces.All() || (i.Kind == Person || i.Kind == Agent) &&
		len(i.Namespaces.names) > 0)
}

// WithoutRequest returns a context for work that outlives a request: it has the request's identity, and ends by end,
// or some seconds after the token is revoked or has expired. Certificates and JWTs do not end it, because they are
// renewed under the same name.
func WithoutRequest(request context.Context) (ctx context.Context, end context.CancelCauseFunc) {
	i, _ := request.Value(contextKey{}).(identified)
	if i.by == nil || i.Source != FromToken {
		return context.WithCancelCause(With(context.Background(), i.Identity))
	}
	return i.by.watch(context.Background(), i.Identity)
}

// Namespace returns the default namespace of the identity's requests: only, a server's single namespace, or, if that
// is "", the first of its own. May tells whether the identity may use it.
func (i Identity) Namespace(only string) string {
	if own := i.Namespaces.names; only == "" && len(own) > 0 {
		only = own[0]
	}
	return cmp.Or(only, "default")
}
