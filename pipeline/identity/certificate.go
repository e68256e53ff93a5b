package identity

import (
	"net/http"
	"strings"
	"time"
)

// certified returns the identity of a request's client certificate, which the listener has verified against the
// client CA; a certificate that is not in the map has no identity. Names are "uri:...", "dns:..." and, for a
// certificate with neither, "cn:..." of its subject. A certificate with two names in the map has no identity either.
func (c *Checker) certified(r *http.Request) (Identity, error) {
	if r.TLS == nil || len(r.TLS.VerifiedChains) == 0 {
		return Identity{}, errNone
	}
	leaf := r.TLS.VerifiedChains[0][0]
	var names []string
	for _, u := range leaf.URIs {
		names = append(names, "uri:"+u.String())
	}
	for _, d := range leaf.DNSNames {
		names = append(names, "dns:"+strings.ToLower(d))
	}
	if len(names) == 0 {
		names = []string{"cn:" + leaf.Subject.CommonName}
	}
	var found Identity
	for _, name := range names {
		g, ok := c.cfg.Certificates[name]
		if ok && found.Name != "" && found.Name != name {
			return Identity{}, errInvalid
		}
		if ok {
			found = Identity{Name: name, Kind: g.Kind, Source: FromCertificate, Namespaces: g.Namespaces}
		}
	}
	for _, certificate := range r.TLS.VerifiedChains[0] {
		if end := certificate.NotAfter; found.Expires.IsZero() || end.Before(found.Expires) {
			found.Expires = end
		}
	}
	if found.Name == "" || time.Now().After(found.Expires) { // a connection may outlast its certificates
		return Identity{}, errInvalid
	}
	return found, nil
}
