package packages

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"

	"golang.org/x/net/html"
)

// maxPage bounds a page of an index, in bytes: four times the largest known one.
const maxPage = 256 << 20

// rewrite replaces the links of an index's page by their URLs inside. A page of another media type
// stays as it is. at is the page's URL outside, after redirects.
func (g *proxy) rewrite(at *url.URL, kind string, page []byte) ([]byte, error) {
	media, _, _ := mime.ParseMediaType(kind)
	switch media {
	case "text/html", "application/vnd.pypi.simple.v1+html", "application/xhtml+xml":
		return g.rewriteHTML(at, page)
	case "application/vnd.pypi.simple.v1+json", "application/json", "application/vnd.npm.install-v1+json":
		return g.rewriteJSON(at, page)
	}
	return page, nil
}

// paged reports whether an answer can hold links, by status and media type; all others are streamed.
func paged(r *http.Response) bool {
	media, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	return r.StatusCode == http.StatusOK && (strings.HasSuffix(media, "html") || strings.HasSuffix(media, "json"))
}

// linked allows a link to be fetched and returns its URL inside; a link that is not http or https stays as it is.
func (g *proxy) linked(base *url.URL, raw string) string {
	u, err := base.Parse(strings.TrimSpace(raw))
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return raw
	}
	return g.links.add(u, "linked from "+base.Host+"'s page").String()
}

// rewriteHTML rewrites the anchors of PEP 503, and removes base elements.
func (g *proxy) rewriteHTML(base *url.URL, page []byte) ([]byte, error) {
	var out bytes.Buffer
	for z := html.NewTokenizer(bytes.NewReader(page)); ; {
		kind := z.Next()
		if kind == html.ErrorToken {
			if err := z.Err(); !errors.Is(err, io.EOF) {
				return nil, err
			}
			return out.Bytes(), nil
		}
		raw := bytes.Clone(z.Raw())
		if kind != html.StartTagToken && kind != html.SelfClosingTagToken {
			out.Write(raw)
			continue
		}
		t := z.Token()
		if t.Data != "a" && t.Data != "base" {
			out.Write(raw)
			continue
		}
		for i, a := range t.Attr {
			switch {
			case a.Key != "href":
			case t.Data == "a":
				t.Attr[i].Val = g.linked(base, a.Val)
			default:
				if u, err := base.Parse(a.Val); err == nil {
					base = u
				}
			}
		}
		if t.Data == "a" { // links are absolute now, and need no base
			out.WriteString(t.String())
		}
	}
}

// rewriteJSON rewrites the links of PEP 691 ("files", each with a "url") and of npm ("versions", each with a "dist"
// that has a "tarball"). A document of another kind stays as it is.
func (g *proxy) rewriteJSON(base *url.URL, page []byte) ([]byte, error) {
	var doc map[string]json.RawMessage
	if json.Unmarshal(page, &doc) != nil {
		return page, nil
	}
	var files []map[string]json.RawMessage
	var versions map[string]map[string]json.RawMessage
	switch {
	case doc["files"] != nil && json.Unmarshal(doc["files"], &files) == nil:
		for _, f := range files {
			g.relink(base, f, "url")
		}
		return remarshal(doc, "files", files)
	case doc["versions"] != nil && json.Unmarshal(doc["versions"], &versions) == nil:
		for _, v := range versions {
			if err := g.redist(base, v); err != nil {
				return nil, err
			}
		}
		return remarshal(doc, "versions", versions)
	case doc["dist"] != nil: // one version of an npm package
		if err := g.redist(base, doc); err != nil {
			return nil, err
		}
		return json.Marshal(doc)
	}
	return page, nil
}

// redist rewrites the tarball's link of one version of an npm package, if it has any.
func (g *proxy) redist(base *url.URL, version map[string]json.RawMessage) error {
	var dist map[string]json.RawMessage
	if json.Unmarshal(version["dist"], &dist) != nil {
		return nil
	}
	g.relink(base, dist, "tarball")
	b, err := json.Marshal(dist)
	version["dist"] = b
	return err
}

// relink rewrites the link that is the value of name, if there is one.
func (g *proxy) relink(base *url.URL, in map[string]json.RawMessage, name string) {
	var raw string
	if json.Unmarshal(in[name], &raw) != nil || raw == "" {
		return
	}
	if b, err := json.Marshal(g.linked(base, raw)); err == nil {
		in[name] = b
	}
}

// remarshal sets a member of doc to value, and returns doc as JSON.
func remarshal(doc map[string]json.RawMessage, name string, value any) ([]byte, error) {
	b, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	doc[name] = b
	return json.Marshal(doc)
}
