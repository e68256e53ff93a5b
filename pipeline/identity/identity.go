// Package identity tells who sends an HTTP request: it checks bearer tokens of its own store, client certificates, and
// JWTs of an external issuer, and bounds how often each may ask.
//
// go-jose checks the signatures of JWTs, x/crypto/argon2 hashes tokens, and x/time/rate counts requests: no program
// writes these for itself.
package identity

import (
	"cmp"
	"context"
	"time"
)

// Kind says which operations an identity reaches. The zero value reaches none.
type Kind string

// The kinds of identities.
const (
	Agent  Kind = "agent"  // the operations that agents have, in its namespaces
	Person Kind = "person" // all operations, approvals included
)

// Source is the kind of credentials that an identity was proved by.
type Source string

// The sources of identities.
const (
	FromToken       Source = "token"       // a bearer token of the server's own store
	FromCertificate Source = "certificate" // a client certificate
	FromJWT         Source = "jwt"         // a JSON Web Token of an external issuer
	FromPeer        Source = "peer"        // the user id of the process at the other end of a Unix socket
)

// Identity is who sends a request. The zero value is nobody.
type Identity struct {
	Name       string // as the audit log has it: unique among the identities of its source
	Kind       Kind
	Source     Source
	Namespaces Namespaces // that it may use; who has none is nobody
	Token      string     // the id of its token, "" if it has none: a name may have had another token before
	Expires    time.Time  // when its credentials end; zero is never
}

// Owner returns what a session is bound to: another identity's requests, and those of a later token of the same name,
// have another owner.
func (i Identity) Owner() string { return i.String() + " " + i.Token }

// May reports whether the identity may use a namespace.
func (i Identity) May(namespace string) bool {
	return (i.Kind == Person || i.Kind == Agent && !i.Namespaces.All()) && i.Namespaces.Has(namespace)
}

// String returns the source and the name, which together are unique: "token:ci".
func (i Identity) String() string {
	if i.Name == "" {
		return ""
	}
	return string(i.Source) + ":" + i.Name
}

type contextKey struct{}

// identified is an identity, and who has found it out: nil is nobody that could tell when it ends.
type identified struct {
	Identity
	by *Checker
}

// With returns a context for what i asks for.
func With(ctx context.Context, i Identity) context.Context {
	before, _ := ctx.Value(contextKey{}).(identified)
	return context.WithValue(ctx, contextKey{}, identified{i, before.by})
}

// From returns who asks, and false where nobody was identified.
func From(ctx context.Context) (Identity, bool) {
	i, _ := ctx.Value(contextKey{}).(identified)
	return i.Identity, i.Name != "" && (i.Kind == Person && i.Namespaces.All() || (i.Kind == Person || i.Kind == Agent) && len(i.Namespaces.names) > 0)
}

// WithoutRequest returns a context for what a request leaves behind: it has the identity of the request's context, and ends by
// end, or some seconds after the token is revoked or has expired. Certificates and JWTs are renewed under the same
// name, and do not end it.
func WithoutRequest(request context.Context) (ctx context.Context, end context.CancelCauseFunc) {
	i, _ := request.Value(contextKey{}).(identified)
	if i.by == nil || i.Source != FromToken {
		return context.WithCancelCause(With(context.Background(), i.Identity))
	}
	return i.by.watch(context.Background(), i.Identity)
}

// Namespace returns the namespace of what the identity makes, where it names none: the only one of a server or, for "",
// the first of its own. Whether it reaches that, May reports.
func (i Identity) Namespace(only string) string {
	if own := i.Namespaces.names; only == "" && len(own) > 0 {
		only = own[0]
	}
	return cmp.Or(only, "default")
}
