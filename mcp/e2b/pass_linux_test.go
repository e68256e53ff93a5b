package e2b

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sandboxmcp/sandboxmcp/audit"
	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
	"github.com/sandboxmcp/sandboxmcp/pipeline/identity"
)

// signed returns a URL for reading a file, signed as by an SDK.
func signed(path, token string) string {
	sum := sha256.Sum256([]byte(path + ":read::" + token))
	return "/files?path=" + url.QueryEscape(path) + "&signature=" + url.QueryEscape("v1_"+base64.RawStdEncoding.EncodeToString(sum[:]))
}

// connect returns the connection of an identity to a sandbox created by another one.
func (r *rig) connect(key string, m made) (own made) {
	r.t.Helper()
	r.call(key, "POST", "/sandboxes/"+m.ID+"/connect", `{"timeout":300}`).into(r.t, &own)
	return own
}

// TestPasses: each identity has its own pass to a sandbox: rows name the identity, and revoking it ends its access
// only.
func TestPasses(t *testing.T) {
	hosttest.Program(t, "python3")
	r := newRig(t, nil)
	maker, agent := r.key("maker", identity.Person, "ci"), r.key("agent", identity.Agent, "ci")
	m := r.newSandbox(maker, `{"templateID":"base","timeout":300}`)
	r.writeFile(m, "content")
	theirs := r.connect(agent, m)
	var d detail
	if r.call(agent, "GET", "/sandboxes/"+m.ID, "").into(t, &d); d.Access != theirs.Access || theirs.Access == m.Access ||
		theirs.Traffic == m.Traffic || theirs.Access == theirs.Traffic {
		t.Fatalf("the maker has %+v, the agent %+v, then %q", m, theirs, d.Access)
	}
	code := `{"code":"print(1)"}`
	if a := r.inside(t.Context(), theirs, "POST", "/execute", code); a.status != http.StatusOK || !strings.Contains(a.text, "1") {
		t.Fatalf("%d %s", a.status, a.text)
	}
	actors := map[string]bool{}
	for row, err := range r.log.Rows(t.Context(), audit.Filter{Namespace: "ci"}) {
		var data struct{ Identity string }
		if err != nil || json.Unmarshal(row.Data, &data) != nil {
			t.Fatal(err)
		}
		if row.Kind == "execution.started" {
			actors[data.Identity] = true
		}
	}
	if !actors["token:agent"] {
		t.Errorf("the rows name %v", actors)
	}
	open := make(chan answer, 1)
	go func() {
		open <- r.inside(t.Context(), theirs, "POST", "/execute", `{"code":"import time; print('begun', flush=True); time.sleep(3600)"}`)
	}()
	hosttest.Until(t, "the code runs", func() bool { return len(r.p.ListRunning("ci")) > 0 })
	revoke := func(name string) {
		t.Helper()
		if _, err := r.tokens.Revoke(t.Context(), name, nil); err != nil {
			t.Fatal(err)
		}
	}
	each := func(when string, m made, want int) {
		t.Helper()
		for _, a := range []answer{r.inside(t.Context(), m, "GET", "/contexts", ""), r.inDaemon(m, "GET", "/envs", ""),
			r.send(t.Context(), "GET", signed("f", m.Access), ""),
			r.send(t.Context(), "GET", signed("f", m.Access), "", headerSandbox, m.ID, headerPort, "49983")} {
			if a.status != want {
				t.Errorf("%s: %d %s, want %d", when, a.status, a.text, want)
			}
		}
	}
	each("both hold, the maker's", m, 200)
	each("both hold, the agent's", theirs, 200)
	revoke("agent")
	each("the agent is revoked, its own", theirs, 401)
	each("the agent is revoked, the maker's", m, 200)
	<-open // its stream has ended
	another := r.key("another", identity.Agent, "ci")
	other := r.connect(another, m)
	revoke("maker")
	each("the maker is revoked, its own", m, 401)
	each("the maker is revoked, another's", other, 200)
	r.key("maker", identity.Person, "ci")
	each("a new token has the maker's name, the old one's", m, 401)
}

// TestPassEnds: a pass for a JWT or a certificate ends with it, even if the same name authenticates again later.
func TestPassEnds(t *testing.T) {
	r := newRig(t, nil)
	m := r.newSandbox(r.key("ci", identity.Agent, "ci"), `{"templateID":"base","timeout":300}`)
	b := r.s.lookup(m.ID)
	for _, source := range []identity.Source{identity.FromJWT, identity.FromCertificate} {
		who := identity.Identity{Name: "ada", Kind: identity.Agent, Source: source, Namespaces: identity.Only("ci"),
			Expires: time.Now().Add(time.Hour)}
		first := *r.s.passFor(b, who)
		mine := made{m.ID, first.access, first.traffic}
		if a := r.inDaemon(mine, "GET", "/envs", ""); a.status != 200 {
			t.Errorf("%s: %d %s", source, a.status, a.text)
		}
		b.mu.Lock()
		b.passes[len(b.passes)-1].Expires = time.Now()
		b.mu.Unlock()
		if a := r.inDaemon(mine, "GET", "/envs", ""); a.status != 401 {
			t.Errorf("%s that has ended: %d %s", source, a.status, a.text)
		}
		who.Expires = who.Expires.Add(time.Hour)
		if second := r.s.passFor(b, who); second.access == first.access {
			t.Errorf("%s: the next one has the same token", source)
		}
		if a := r.inDaemon(mine, "GET", "/envs", ""); a.status != 401 {
			t.Errorf("%s that was followed by another: %d %s", source, a.status, a.text)
		}
		for i := range 3 * maxPasses {
			who.Expires = who.Expires.Add(time.Duration(i) * time.Second)
			r.s.passFor(b, who)
		}
		own := 0
		for _, p := range b.passes {
			if p.Source == source {
				own++
			}
		}
		if own != maxPasses {
			t.Errorf("%s has %d passes", source, own)
		}
	}
}

// TestSignatureOfAnotherPort: a signed URL of /files gives access to that file only.
func TestSignatureOfAnotherPort(t *testing.T) {
	r := newRig(t, nil)
	m := r.newSandbox(r.key("ci", identity.Agent, "ci"), `{"templateID":"base","timeout":300}`)
	for port, want := range map[string]int{"49999": 403, "8000": 401} {
		if a := r.send(t.Context(), "GET", signed("f", m.Access), "", headerSandbox, m.ID, headerPort, port); a.status != want {
			t.Errorf("port %s: %d %s", port, a.status, a.text)
		}
	}
}

// TestWrongSignatures: after many wrong signatures, those of an address are no longer compared, except for a sandbox
// named by the request.
func TestWrongSignatures(t *testing.T) {
	r := newRig(t, nil)
	m := r.newSandbox(r.key("ci", identity.Agent, "ci"), `{"templateID":"base","timeout":300}`)
	r.writeFile(m, "content")
	ask := func(path, address string) int {
		q := httptest.NewRequest("GET", path, nil)
		q.RemoteAddr = address
		w := httptest.NewRecorder()
		r.s.ServeHTTP(w, q)
		return w.Code
	}
	if got := ask(signed("f", m.Access), "192.0.2.1:1"); got != 200 {
		t.Fatalf("a right signature: %d", got)
	}
	got := map[string]int{}
	for range 100 {
		got[strconv.Itoa(ask(signed("f", "x"), "192.0.2.1:1"))]++
	}
	if got["401"] < 5 || got["401"] > 20 || got["429"] != 100-got["401"] {
		t.Errorf("wrong signatures: %v", got)
	}
	if got := ask(signed("f", m.Access), "192.0.2.1:1"); got != 429 {
		t.Errorf("a right signature of the same address: %d", got)
	}
	if a := r.send(t.Context(), "GET", signed("f", m.Access), "", headerSandbox, m.ID, headerPort, "49983"); a.status != 200 {
		t.Errorf("a right signature for a sandbox that is named: %d %s", a.status, a.text)
	}
	if got := ask(signed("f", m.Access), "192.0.2.2:1"); got != 200 {
		t.Errorf("a right signature of another address: %d", got)
	}
}
