package packages

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"

	"golang.org/x/net/html"

	"github.com/sandboxmcp/sandboxmcp/egress/relay"
)

// maxPage bounds a page of an index, in bytes: four times the largest known one.
const maxPage = 256 << 20

// learn reads a page of an index to its end, and allows its links to be fetched, before anybody can follow them. It reports
// whether the answer is such a page.
func (s *sites) learn(res *http.Response) (page bool, err error) {
	media, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
	var links func(base *url.URL, page []byte, found func(at *url.URL, hash string))
	switch media {
	case "text/html", "application/vnd.pypi.simple.v1+html", "application/xhtml+xml":
		links = linksOfHTML
	case "application/vnd.pypi.simple.v1+json", "application/json", "application/vnd.npm.install-v1+json":
		links = linksOfJSON
	default:
		return false, nil
	}
	at := res.Request.URL
	if res.StatusCode != http.StatusOK || res.Request.Method != http.MethodGet || !s.pageAt(at) {
		return false, nil
	}
	body, err := relay.Decoded(res)
	if err != nil {
		return false, err
	}
	text, err := io.ReadAll(io.LimitReader(body, maxPage))
	switch {
	case err != nil:
		return false, errors.New("it ends too soon")
	case len(text) == maxPage:
		return false, errors.New("the page is too large")
	}
	links(at, text, func(u *url.URL, hash string) { s.add(u, link{why: "linked from " + at.Host + "'s page", hash: hash}) })
	res.Header.Del("Content-Length")
	res.ContentLength = int64(len(text))
	res.Body = struct {
		io.Reader
		io.Closer
	}{bytes.NewReader(text), res.Body}
	return true, nil
}

// linksOfHTML finds the targets of the anchors of PEP 503.
func linksOfHTML(base *url.URL, page []byte, found func(at *url.URL, hash string)) {
	for z := html.NewTokenizer(bytes.NewReader(page)); ; {
		kind := z.Next()
		if kind == html.ErrorToken {
			return
		}
		t := z.Token()
		if kind != html.StartTagToken && kind != html.SelfClosingTagToken || t.Data != "a" && t.Data != "base" {
			continue
		}
		for _, a := range t.Attr {
			u, err := base.Parse(strings.TrimSpace(a.Val))
			switch {
			case a.Key != "href" || err != nil:
			case t.Data == "base":
				base = u
			default:
				found(u, sha256Hash(strings.TrimPrefix(u.Fragment, "sha256=")))
			}
		}
	}
}

// sha256Hash returns a hash in the spelling of [Package], "" if that is none.
func sha256Hash(hex string) string {
	if len(hex) != 2*sha256.Size {
		return ""
	}
	return "sha256:" + strings.ToLower(hex)
}

// object is a JSON object. Its members are told apart by case, as encoding/json does not: a package's author may choose
// the names of others.
type object = map[string]json.RawMessage

// member returns a member of an object, the zero value if it is missing or of another type.
func member[T any](of object, name string) (value T) {
	_ = json.Unmarshal(of[name], &value)
	return value
}

// linksOfJSON finds the links of PEP 691 ("files", each with a "url") and of npm ("versions", each with a "dist" that has
// a "tarball", or a single version).
func linksOfJSON(base *url.URL, page []byte, found func(at *url.URL, hash string)) {
	var doc object
	if json.Unmarshal(page, &doc) != nil {
		return
	}
	link := func(of object, name, hash string) {
		if u, err := base.Parse(member[string](of, name)); err == nil && *u != *base {
			found(u, hash)
		}
	}
	for _, f := range member[[]object](doc, "files") {
		link(f, "url", sha256Hash(member[string](member[object](f, "hashes"), "sha256")))
	}
	dists := []object{member[object](doc, "dist")}
	for _, v := range member[map[string]object](doc, "versions") {
		dists = append(dists, member[object](v, "dist"))
	}
	for _, dist := range dists {
		link(dist, "tarball", member[string](dist, "integrity"))
	}
}
