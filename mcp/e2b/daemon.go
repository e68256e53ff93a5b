package e2b

import (
	"net/http"

	"github.com/sandboxmcp/sandboxmcp/mcp/e2b/envd"
)

// daemon answers what is asked of a sandbox's daemon, envd, which checks the sandbox's token. The request's context has the identity of the
// sandbox's owner, and ends with that.
func (s *Server) daemon(w http.ResponseWriter, r *http.Request, b *Sandbox) {
	s.envd.Serve(w, r, b.target())
}

// target is the sandbox as its daemon knows it.
func (b *Sandbox) target() envd.Target {
	return envd.Target{Namespace: b.Namespace, Session: b.session(), Token: b.Access, Env: b.Env}
}

// unsigned answers a request for /files that no sandbox has signed, and that names none.
func unsigned(w http.ResponseWriter, r *http.Request) {
	if !r.URL.Query().Has("signature") {
		refuse(w, http.StatusUnauthorized, "missing signature query parameter")
		return
	}
	refuse(w, http.StatusUnauthorized, "invalid signature")
}
