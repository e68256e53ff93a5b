package outbound

import (
	"io"
	"slices"
	"strings"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/egress"
	"github.com/sandboxmcp/sandboxmcp/egress/relay"
	"github.com/sandboxmcp/sandboxmcp/vault"
)

// relayed returns the configuration of the relay. It queries the leases for each request, because those of a session
// change.
func (o *Session) relayed() relay.Config {
	return relay.Config{
		Secrets:      o.secrets,
		Redact:       func(text string) string { return o.leases().Redact(text) },
		Redactor:     func(w io.Writer) io.WriteCloser { return o.leases().Writer(w) },
		SecretsLater: o.cfg.TrustCA,
		Roots:        o.cfg.Roots,
	}
}

func (o *Session) leases() vault.Leases {
	if o.cfg.Leases == nil {
		return nil
	}
	return o.cfg.Leases()
}

func (o *Session) secrets() []relay.Secret {
	var all []relay.Secret
	o.mu.Lock()
	headers := o.bounds.Headers
	o.mu.Unlock()
	for _, b := range o.leases().Bound() {
		if b.Header != "" && !slices.Contains(headers, b.Name) { // from replaced rules
			continue
		}
		known, ok := o.names.Load(b.Placeholder)
		if !ok {
			known, _ = o.names.LoadOrStore(b.Placeholder, namesOf(b.Hosts))
		}
		to := known.(names)
		all = append(all, relay.Secret{Name: b.Name, Placeholder: b.Placeholder, Value: b.Value, Require: b.Require, Body: b.Body,
			Header: b.Header,
			Bound:  to.allows, Clear: to.allowsClear})
	}
	return all
}

// names are the hosts that may receive a secret. A secret that was bound without a port is sent over TLS only; a port
// in the binding means that its owner knows its service, for example in an internal network. On the ports of TLS it
// must be TLS: a program that uses http there would send the value unencrypted, which nobody intended.
type names struct{ all, ports egress.Policy }

// namesOf parses patterns, which were checked when the secret was bound: an invalid one matches nothing.
func namesOf(hosts []string) (n names) {
	n.all, _ = egress.NewPolicy(hosts, nil)
	n.ports, _ = egress.NewPolicy(slices.DeleteFunc(slices.Clone(hosts), func(h string) bool {
		_, port, named := strings.Cut(h, ":")
		return !named || port == "443" || port == "8443"
	}), nil)
	return n
}

func (n names) allows(name string, port int) bool      { return n.all.Decide(name, port).Allowed }
func (n names) allowsClear(name string, port int) bool { return n.ports.Decide(name, port).Allowed }

// InspectsTLS reports whether the session can terminate TLS, as bound secrets need it.
func (o *Session) InspectsTLS() bool { return o.HasRoute() && o.relay.Authority() != nil }

// env returns variables with the location of our certificates for programs that use them; others find the
// certificates in the system's bundle. Without network access, it disables retries of programs that would try again
// for a minute after a failed lookup.
func (o *Session) env() []string {
	switch {
	case !o.HasRoute():
		return []string{"NPM_CONFIG_FETCH_RETRIES=0", "PIP_RETRIES=0"}
	case !o.InspectsTLS():
		return nil
	}
	var env []string
	for _, name := range []string{
		"SSL_CERT_FILE",       // OpenSSL, and so Python and Ruby; Go; uv
		"REQUESTS_CA_BUNDLE",  // Python's requests, which has its own bundle
		"CURL_CA_BUNDLE",      // curl
		"NODE_EXTRA_CA_CERTS", // Node
		"GIT_SSL_CAINFO",      // git
		"PIP_CERT",            // pip
		"NPM_CONFIG_CAFILE",   // npm
		"CARGO_HTTP_CAINFO",   // cargo
		"AWS_CA_BUNDLE",       // the AWS command line and boto
		"DENO_CERT",           // Deno
		"GRPC_DEFAULT_SSL_ROOTS_FILE_PATH",
	} {
		env = append(env, name+"="+backends.TrustFile)
	}
	return env
}
