package pipeline

import (
	"crypto/x509"
	"time"

	"github.com/sandboxmcp/sandboxmcp/egress"
)

// Egress is the operator's network policy. The zero value allows nothing.
type Egress struct {
	Policy      egress.Policy  // hosts that runs may reach by default, and that callers may name
	Deny        []string       // deny patterns of Policy, which approvals can't override
	Ask         bool           // ask a person about hosts that are neither allowed nor denied
	Dialer      *egress.Dialer // nil: the system resolver, and public addresses only
	Roots       *x509.CertPool // verify hosts with bound secrets; nil: the system roots
	Idle        time.Duration  // an idle connection is closed after this time
	Connections int            // maximum of concurrent connections of a sandbox
}

// ForgetApprovals drops the approvals for a run or a session that has ended.
func (p *Pipeline) ForgetApprovals(id string) {
	if p.Config.Approvals != nil {
		p.Config.Approvals.Forget(id)
	}
}
