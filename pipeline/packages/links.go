package packages

import (
	"net/url"
	"strings"
	"sync"
)

// links lists the URLs that the proxy may fetch: everything below the sources, and the files that their pages link to.
// Inside the sandbox all of it goes by http, so that the proxy sees each request and the encrypted way begins outside,
// where credentials and certificates are.
type links struct {
	mu    sync.Mutex
	hosts map[string]origin // of sources, by their address inside
	files map[string]link   // by their URL inside
	names map[string]string // "https://host/" outside, by "http://host/" inside
}

// origin is a source's scheme and host outside, and why it may be fetched from.
type origin struct {
	scheme, host, why string
}

// link is a file's URL outside, and why it may be fetched.
type link struct {
	to  *url.URL
	why string
}

// newLinks returns the links of the sources, without any file yet.
func newLinks(sources []source) *links {
	l := &links{hosts: map[string]origin{}, files: map[string]link{}, names: map[string]string{}}
	for _, s := range sources {
		in := l.inside(s.base)
		// One name for both ways: the safe one is used.
		if old, ok := l.hosts[in.Host]; !ok || old.scheme == "http" {
			l.hosts[in.Host] = origin{s.base.Scheme, s.base.Host, s.what}
		}
	}
	return l
}

// insideURL returns the spelling of a URL in the sandbox.
func insideURL(u *url.URL) *url.URL {
	in := *u
	in.Scheme, in.User = "http", nil
	in.Host = strings.ToLower(u.Host)
	if port := u.Port(); port == "80" && u.Scheme == "http" || port == "443" && u.Scheme == "https" {
		in.Host = strings.TrimSuffix(in.Host, ":"+port)
	}
	return &in
}

// inside returns insideURL of u, and records an https host for outward.
func (l *links) inside(u *url.URL) *url.URL {
	in := insideURL(u)
	if u.Scheme == "https" {
		l.names["http://"+in.Host+"/"] = "https://" + in.Host + "/"
	}
	return in
}

// add allows a file to be fetched, because a page of a source links to it, and returns its URL inside.
func (l *links) add(u *url.URL, why string) *url.URL {
	l.mu.Lock()
	defer l.mu.Unlock()
	in := l.inside(u)
	to := *u
	to.Fragment, to.RawFragment = "", ""
	l.files[key(in)] = link{&to, why}
	return in
}

// key returns the host, path and query of a URL inside, in the one spelling by which files are found.
func key(u *url.URL) string {
	return strings.ToLower(strings.TrimSuffix(u.Host, ":80")) + "\x00" + u.Path + "?" + u.RawQuery
}

// find returns the outside URL behind a URL inside, and why it may be fetched; page is set for those of a source, whose
// pages have links. A nil URL may not be fetched.
func (l *links) find(in *url.URL) (to *url.URL, why string, page bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if f, ok := l.files[key(in)]; ok {
		return f.to, f.why, false
	}
	// PEP 658: a wheel's metadata lies beside it.
	if base, ok := strings.CutSuffix(in.Path, ".metadata"); ok {
		wheel := *in
		wheel.Path = base
		if f, ok := l.files[key(&wheel)]; ok {
			to := *f.to
			to.Path += ".metadata"
			to.RawPath = ""
			return &to, f.why, false
		}
	}
	o, ok := l.hosts[strings.ToLower(strings.TrimSuffix(in.Host, ":80"))]
	if !ok {
		return nil, "", false
	}
	u := *in
	u.Scheme, u.Host, u.User = o.scheme, o.host, nil
	return &u, o.why, true
}

// outward replaces the URLs of sources in a line of output by those outside.
func (l *links) outward(line string) string {
	if !strings.Contains(line, "http://") {
		return line
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for in, out := range l.names {
		line = strings.ReplaceAll(line, in, out)
	}
	return line
}
