package relay

import (
	"encoding/base64"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

const other = "sandboxmcp_" + "of_another_name"

func TestRequire(t *testing.T) {
	basic := func(text string) string { return "Basic " + base64.StdEncoding.EncodeToString([]byte(text)) }
	p := placeholder
	for _, c := range []struct {
		query  string
		header http.Header
		passes bool
	}{
		{"", nil, false},
		{"a=b", http.Header{"Accept": {"*/*"}, "User-Agent": {"x"}}, false},
		{"", http.Header{"Authorization": {"Bearer " + p}}, true},
		{"", http.Header{"Authorization": {p}}, true},
		{"", http.Header{"Authorization": {"Token token=" + p}}, true},
		{"", http.Header{"Authorization": {`Token token="` + p + `"`}}, true},
		{"", http.Header{"Authorization": {`Klaviyo-API-Key ` + p}}, true},
		{"", http.Header{"Authorization": {basic("user:" + p)}}, true},
		{"", http.Header{"Authorization": {basic(p + ":")}}, true},
		{"", http.Header{"Authorization": {basic(p)}}, true},
		{"", http.Header{"Authorization": {basic("user:mine")}}, false},
		{"", http.Header{"Authorization": {basic("mine" + p + ":x")}}, false},
		{"", http.Header{"Authorization": {basic("mine_0123456789abcdef:" + p)}}, false}, // some services ignore the password
		{"", http.Header{"Authorization": {basic(p + ":mine_0123456789abcdef")}}, false},
		{"", http.Header{"Authorization": {basic(p + ":" + p)}}, true},
		{"", http.Header{"Authorization": {basic(p + ":x-oauth-basic")}}, true},
		{"", http.Header{"Authorization": {basic("oauth2accesstoken:" + p)}}, true},
		{"", http.Header{"Authorization": {basic("somebody1985.12@example.com/token:" + p)}}, true},
		{"", http.Header{"X-A": {p}, "Sec-Websocket-Protocol": {"realtime, openai-beta.realtime-v1", "graphql-transport-ws"}}, true},
		{"", http.Header{"Sec-Websocket-Protocol": {"realtime, some-api-key." + p + ", v1"}}, true},
		{"", http.Header{"X-A": {p}, "Sec-Websocket-Protocol": {"realtime, some-api-key.mine"}}, false},
		{"", http.Header{"X-A": {p}, "Sec-Websocket-Protocol": {"header-mine0123456789"}}, false},
		{"", http.Header{"X-A": {p}, "Sec-Websocket-Protocol": {"a, mine0123456789abc" + p}}, false},
		{"", http.Header{"Authorization": {"Bearer mine"}, "X-Api-Key": {p}}, false},
		{"", http.Header{"Authorization": {"Bearer mine " + p}}, false},
		{"", http.Header{"Authorization": {"Bearer " + p + ", Bearer mine"}}, false},
		{"", http.Header{"Authorization": {"Bearer mine" + p}}, false},
		{"", http.Header{"Authorization": {"sk_mine123 " + p}}, false},
		{"", http.Header{"Authorization": {"Bearer " + p, "Bearer mine"}}, false},
		{"", http.Header{"Authorization": {"Bearer " + other}}, false},
		{"", http.Header{"Authorization": {"Bearer " + p + p}}, false},
		{"", http.Header{"Proxy-Authorization": {"Bearer mine"}, "X-Key": {p}}, false},
		{"", http.Header{"Proxy-Authorization": {"Bearer " + p}}, false}, // it is not forwarded
		{"", http.Header{"X-Api-Key": {p}}, true},
		{"", http.Header{"X-Api-Key": {p}, "X-Other-Key": {"mine"}}, false},
		{"", http.Header{"X-Api-Key": {p}, "X-Auth-Token": {""}}, false},
		{"", http.Header{"X-Api-Key": {p + ",mine"}}, false},
		{"", http.Header{"X-Anything": {"a " + p + " b"}}, true},
		{"", http.Header{"X-Anything": {p}, "Idempotency-Key": {"1"}, "Accept-Signature": {""}}, false},
		{"", http.Header{"X-Anything": {p}, "Idempotency-Key": {"1"}, "Openai-Organization": {"o"}, "Mcp-Session-Id": {"1"}}, true},
		{"", http.Header{"X-Anything": {p}, "X-Amz-Date": {"1"}}, false},
		{"", http.Header{"Connection": {"X-Anything"}, "X-Anything": {p}}, false}, // it is not forwarded
		{"", http.Header{"Cookie": {"a=" + p}}, true},
		{"", http.Header{"Cookie": {"a=" + p + "; b=" + p}}, true},
		{"", http.Header{"Cookie": {"a=" + p + "; b=mine"}}, false},
		{"", http.Header{"Cookie": {"mine; a=" + p}}, false},
		{"", http.Header{"Cookie": {"a=mine" + p}}, false},
		{"key=" + p, nil, true},
		{"key=%73" + p[1:], nil, true},
		{"x=" + p, nil, true},
		{p, nil, true},
		{"key=mine", http.Header{"X-Key": {p}}, false},
		{"%6bey=mine", http.Header{"X-Key": {p}}, false},
		{"KEY=mine", http.Header{"X-Key": {p}}, false},
		{"apiKey=mine", http.Header{"X-Key": {p}}, false},
		{"of[my]Auth=mine", http.Header{"X-Key": {p}}, false},
		{"access_token=mine&a=b", http.Header{"X-Key": {p}}, false},
		{"a=b;access_token=mine", http.Header{"X-Key": {p}}, false},
		{"access_token=" + p + ";x", http.Header{"X-Key": {p}}, false},
		{"access_token=" + p + "&access_token=mine", nil, false},
		{"user[password]=mine", http.Header{"X-Key": {p}}, false},
		{"sig=mine&X-Amz-Credential=me", http.Header{"X-Key": {p}}, false},
		{"next_page_token=abc&max_tokens=5&pageToken=x&sort_key=a&author=b", http.Header{"X-Key": {p}}, true},
		{"key=", http.Header{"X-Key": {p}}, true},
	} {
		var h heard
		g := newRig(t, setup{server: secureServer(t, true, h.serve), config: lease(func(s *Secret) { s.Require = true }).config(), secure: true})
		r := g.request("GET", "/path/"+p, nil)
		r.URL.RawQuery = c.query
		for name, values := range c.header {
			r.Header[name] = values
		}
		res, body := g.send(1, r)
		if c.passes && res.StatusCode != 200 || !c.passes && (res.StatusCode != 403 || h.count > 0 || res.Header.Get(refusedHeader) == "" ||
			len(g.allRefusals()) != 1) {
			t.Errorf("%q %q: %s %q", c.query, c.header, res.Status, body)
		}
		if strings.Contains(strings.Join(g.allRefusals(), ""), "mine") {
			t.Errorf("the reason tells the credential: %q", g.allRefusals())
		}
	}
}

// TestNotRequired: without a required secret, programs may use their own credentials.
func TestNotRequired(t *testing.T) {
	g := newRig(t, setup{server: secureServer(t, true, echo), config: lease(nil).config(), secure: true})
	r := g.request("GET", "/?key=mine", nil)
	r.Header.Set("Authorization", "Bearer mine")
	if res, body := g.send(2, r); res.StatusCode != 200 {
		t.Errorf("%s %q", res.Status, body)
	}
}

// TestRequireOneOfSeveral: one of several required secrets suffices, and each counts only in its own place.
func TestRequireOneOfSeveral(t *testing.T) {
	one := lease(func(s *Secret) { s.Require, s.Body = true, true })
	c := one.config()
	two, free := one.Secret, one.Secret
	two.Name, two.Placeholder, two.Body = "TWO", other, false
	free.Name, free.Placeholder, free.Require = "FREE", "sandboxmcp_free", false
	c.Secrets = func() []Secret { return []Secret{one.Secret, two, free} }
	g := newRig(t, setup{server: secureServer(t, true, echo), config: c, secure: true})
	for body, headers := range map[string]map[string]bool{
		"none":      {placeholder: true, other: true, free.Placeholder: false, "": false},
		placeholder: {"": true, free.Placeholder: true},
		other:       {"": false},
	} {
		for header, passes := range headers {
			r := g.request("POST", "/", strings.NewReader(body))
			r.Header.Set("X-Any", header)
			if res, text := g.send(1, r); (res.StatusCode == 200) != passes || leaked(text) {
				t.Errorf("body %s, header %s: %s %q", body, header, res.Status, text)
			}
		}
	}
}

// TestRequiredNamesSetNoCookies: a cookie that the program sends back would be refused, and may be worth as much as
// the secret.
func TestRequiredNamesSetNoCookies(t *testing.T) {
	g := newRig(t, setup{secure: true, config: lease(func(s *Secret) { s.Require = true }).config(),
		server: secureServer(t, true, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Set-Cookie", "a=b")
			io.WriteString(w, "body")
			for _, name := range []string{"Set-Cookie", "Alt-Svc", "X-End"} { // unannounced
				w.Header().Set(http.TrailerPrefix+name, "c=d")
			}
		})})
	protocols(t, func(t *testing.T, major int) {
		r := g.request("GET", "/", nil)
		r.Header.Set("X-Key", placeholder)
		res, _ := g.send(major, r)
		if res.StatusCode != 200 || len(res.Cookies()) > 0 || len(res.Trailer) != 1 || res.Trailer.Get("X-End") == "" {
			t.Errorf("%s %v %v", res.Status, res.Header, res.Trailer)
		}
	})
}

func TestTrailersWithCredentials(t *testing.T) {
	g := newRig(t, setup{server: secureServer(t, true, echo), config: lease(func(s *Secret) { s.Require = true }).config(), secure: true})
	r := g.request("POST", "/", strings.NewReader("x"))
	r.ContentLength = -1
	r.Header.Set("X-Key", placeholder)
	r.Trailer = http.Header{"Authorization": {"Bearer mine"}}
	if res, body := g.send(1, r); res.StatusCode != 403 {
		t.Errorf("%s %q", res.Status, body)
	}
}

func FuzzReplace(f *testing.F) {
	f.Add("key=%73"+placeholder[1:]+"&x", "v&=%\"\\\n")
	f.Add(placeholder[:10]+placeholder+"%", "\xff")
	f.Fuzz(func(t *testing.T, text, v string) {
		if v == "" || len(v) > 1000 || len(text) > 10000 || strings.Contains(v, placeholder) {
			return
		}
		for name, s := range map[string]spelling{"form": inForm, "json": inJSON, "text": inText} {
			fill := &substitution{secrets: []Secret{{Name: "A", Placeholder: placeholder}}, values: []string{v}, found: make([]bool, 1),
				bytesLeft: maxBody}
			got, err := fill.replace(text, s)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if !s.escaped {
				if want := strings.ReplaceAll(text, placeholder, s.write(v)); got != want {
					t.Errorf("%s of %q: got %q, want %q", name, text, got, want)
				}
				continue
			}
			before, err := url.PathUnescape(text)
			if err != nil {
				continue
			}
			after, err := url.PathUnescape(got)
			if want := strings.ReplaceAll(before, placeholder, v); err != nil || after != want ||
				fill.found[0] != strings.Contains(before, placeholder) {
				t.Errorf("%s of %q: got %q, want %q, %v", name, text, after, want, err)
			}
		}
	})
}
