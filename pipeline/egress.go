package pipeline

import (
	"crypto/x509"
	"time"

	"github.com/sandboxmcp/sandboxmcp/egress"
)

// Egress is what the operator lets out. The zero value is nothing.
type Egress struct {
	Policy      egress.Policy  // what runs may reach that name nothing, and what callers may name
	Deny        []string       // patterns of Policy that deny: they hold for what people approve, too
	Ask         bool           // a person is asked about names that are neither allowed nor denied
	Dialer      *egress.Dialer // nil: the machine's resolver, and public addresses only
	Roots       *x509.CertPool // that names with bound secrets are verified with; nil are the machine's
	Idle        time.Duration  // after which a connection on which nothing moves is ended
	Connections int            // of one sandbox at once
}

// ForgetApprovals drops what people have approved for a run or a session that has ended.
func (p *Pipeline) ForgetApprovals(id string) {
	if p.Config.Approvals != nil {
		p.Config.Approvals.Forget(id)
	}
}
