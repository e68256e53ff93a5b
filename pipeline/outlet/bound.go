package outlet

import (
	"io"
	"strings"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/egress"
	"github.com/sandboxmcp/sandboxmcp/egress/relay"
	"github.com/sandboxmcp/sandboxmcp/vault"
)

// relayed is what the relay is to know: of a session it changes, so it asks each time.
func (o *Outlet) relayed() relay.Config {
	return relay.Config{
		Secrets:  o.secrets,
		Redact:   func(text string) string { return o.leases().Redact(text) },
		Redactor: func(w io.Writer) io.WriteCloser { return o.leases().Writer(w) },
		Opening:  o.cfg.Trusting,
		Roots:    o.cfg.Roots,
	}
}

func (o *Outlet) leases() vault.Leases {
	if o.cfg.Leases == nil {
		return nil
	}
	return o.cfg.Leases()
}

func (o *Outlet) secrets() []relay.Secret {
	var all []relay.Secret
	for _, b := range o.leases().Bound() {
		names, err := egress.NewPolicy(b.Hosts, nil)
		if err != nil { // they were checked when they were bound; what is not understood gets no value
			continue
		}
		all = append(all, relay.Secret{
			Name: b.Name, Placeholder: b.Placeholder, Value: b.Value, Require: b.Require, Body: b.Body,
			Bound: func(name string, port int) bool { return names.Decide(name, port).Allowed },
			Clear: func(name string, port int) bool { return inClear(b.Hosts, port) && names.Decide(name, port).Allowed },
		})
	}
	return all
}

// inClear says whether a port is named by whoever bound the secret: only then may its value travel
// unencrypted, to a service inside one's own network for instance.
func inClear(hosts []string, port int) bool {
	for _, h := range hosts {
		if _, named, ok := strings.Cut(h, ":"); ok && named == itoa(port) {
			return true
		}
	}
	return false
}

// Opens says whether TLS can be ended on the way, as bound secrets need it.
func (o *Outlet) Opens() bool { return o.relay.Authority() != nil }

// Env tells programs that heed variables where the certificates are that they are to trust. Those that
// heed none find them in the system's bundle.
func (o *Outlet) Env() []string {
	if o == nil || !o.Opens() {
		return nil
	}
	var env []string
	for _, name := range []string{
		"SSL_CERT_FILE",       // OpenSSL, and so Python and Ruby; Go; uv
		"REQUESTS_CA_BUNDLE",  // Python's requests, which has a bundle of its own
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
