package pipeline

import (
	"context"
	"fmt"
	"path"
	"strconv"
	"strings"

	"github.com/sandboxmcp/sandboxmcp/vault"
)

// learn has the text about a request that was refused before it had any lease cleaned of the secrets
// that it asks for, and of those of its session: callers mix up fields, and what they typed is quoted. The
// values stay here, until the returned function is called. It is no access: nothing is handed out.
func (r *run) learn(ctx context.Context) (forget func()) {
	if len(r.leases) > 0 {
		return func() {}
	}
	if s, err := r.p.own(r.res.Namespace, r.res.Session); err == nil {
		r.leases = s.Leases()
	}
	var own vault.Leases
	names, _ := r.facts["secrets"].([]string)
	for _, name := range names[:min(len(names), maxItems)] {
		if l, err := r.p.cfg.Vault.Lease(ctx, r.res.Namespace, []string{name}); err == nil {
			own = append(own, l)
		}
	}
	r.leases = append(r.leases[:len(r.leases):len(r.leases)], own...)
	return own.Close
}

// unquoted takes out what a refusal quotes of a field with a secret in it. Errors about languages and sessions
// quote 40 characters, in which half of one is not recognized.
func (r *run) unquoted(reason string) string {
	for _, value := range []string{r.res.Language, r.res.Session, path.Ext(r.res.Name)} {
		if r.clean(value) != value {
			reason = strings.ReplaceAll(reason, fmt.Sprintf("%.40q", value), strconv.Quote(vault.Mark))
		}
	}
	return reason
}
