// Package engine makes queries for web search engines, and parses their pages of results.
//
// Most of them have no interface for programs, and change their markup without notice. A page in which nothing is
// recognized, neither results nor the engine's own word that there are none, is an error and not an empty list.
// The pages in testdata are modelled on what is known of the engines' markup: they are no recordings.
//
// goquery finds elements by their classes.
package engine

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/PuerkitoBio/goquery"

	"github.com/sandboxmcp/sandboxmcp/egress/web/page"
)

// Result is a search result.
type Result struct {
	Title   string `json:"title"`
	URL     string `json:"url"`
	Summary string `json:"summary"`
}

// Engine is a search engine.
type Engine struct {
	Name string
	path string // with %s for the escaped query
	read func(body []byte) ([]Result, error)
	base string
}

// errBlocked is returned for a page by which an engine wants to know whether a person is asking.
var errBlocked = errors.New("it wants proof that a person is asking")

// errUnknown is returned for a page in which nothing was recognized.
var errUnknown = errors.New("no results were recognized in its page: its markup may have changed")

// SearXNG is the name of the engine that an operator runs.
const SearXNG = "searxng"

// Names returns the names of all engines, in the order in which they are asked.
func Names() (all []string) {
	for _, e := range engines() {
		all = append(all, e.Name)
	}
	return all
}

// Find returns the engine of a name. base takes the place of the engine's own scheme and host; "" keeps them.
func Find(name, base string) (Engine, error) {
	for _, e := range engines() {
		if e.Name != name {
			continue
		}
		if base != "" {
			e.base = strings.TrimRight(base, "/")
		}
		return e, nil
	}
	return Engine{}, fmt.Errorf("there is no search engine %q: there are %s", name, strings.Join(Names(), ", "))
}

// Address returns the URL at which the engine answers a query.
func (e Engine) Address(query string) string {
	return e.base + fmt.Sprintf(e.path, url.QueryEscape(query))
}

// Blocks returns why a response does not answer the query, without parsing its page; "" if it may answer.
func Blocks(status int, at *url.URL, header http.Header) string {
	switch {
	case strings.EqualFold(header.Get("X-Yandex-Captcha"), "captcha"), strings.Contains(at.Path, "showcaptcha"), strings.Contains(at.Path, "/captcha"):
		return errBlocked.Error()
	case status == http.StatusAccepted: // with which DuckDuckGo sends its puzzle
		return errBlocked.Error() + " (HTTP 202)"
	case status == http.StatusTooManyRequests, status == http.StatusForbidden:
		return fmt.Sprintf("it refuses to answer (HTTP %d)", status)
	case status >= 400:
		return fmt.Sprintf("it answers with HTTP %d", status)
	}
	return ""
}

// Read finds the results in a page of the engine. An empty list without an error is the engine's own word that
// there are none.
func (e Engine) Read(body []byte) ([]Result, error) {
	found, err := e.read(body)
	if err != nil {
		return nil, err
	}
	var all []Result
	seen := map[string]bool{}
	for _, r := range found {
		r.URL = target(r.URL)
		key := strings.TrimSuffix(strings.TrimPrefix(strings.TrimPrefix(r.URL, "https://"), "http://"), "/")
		if r.URL == "" || seen[key] {
			continue
		}
		seen[key] = true
		r.Title, r.Summary = cmp.Or(page.Line(r.Title, 300), r.URL), page.Line(r.Summary, 1000)
		all = append(all, r)
	}
	if len(found) > 0 && len(all) == 0 {
		return nil, errUnknown
	}
	return all, nil
}

// tracking are parameters of links that say where a visitor came from, and nothing about the page.
var tracking = []string{"gclid", "fbclid", "msclkid", "yclid", "dclid", "mc_eid", "igshid", "ref_src", "srsltid"}

// target returns the final target of a link of a page of results, without tracking parameters; "" if that is no page of
// the web.
func target(link string) string {
	u, err := url.Parse(strings.TrimSpace(link))
	if err != nil || len(link) > 8000 {
		return ""
	}
	if to := u.Query().Get("uddg"); to != "" && (u.Host == "" || u.Host == "duckduckgo.com" || strings.HasSuffix(u.Host, ".duckduckgo.com")) {
		if u, err = url.Parse(to); err != nil {
			return ""
		}
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil {
		return ""
	}
	u.Fragment, u.RawFragment = "", ""
	var keep []string
	for pair := range strings.SplitSeq(u.RawQuery, "&") {
		name, _, _ := strings.Cut(pair, "=")
		if pair != "" && !strings.HasPrefix(name, "utm_") && !slices.Contains(tracking, name) {
			keep = append(keep, pair)
		}
	}
	u.RawQuery = strings.Join(keep, "&")
	return page.Line(u.String(), 8000)
}

// document reads a page of HTML.
func document(body []byte) (*goquery.Document, error) {
	doc, err := goquery.NewDocumentFromReader(bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("%w (%s)", errUnknown, page.Line(err.Error(), 200))
	}
	return doc, nil
}

// shape has the selectors of the results in a page.
type shape struct {
	item, link, title, summary string
	blocked, none              string // elements that a puzzle, or a page without results, has
	emptyMessage               string // text in it, in small letters; "" is any
}

// read finds the results. Elements that have no link are no results: advertisements, boxes with related things.
func (s shape) read(body []byte) ([]Result, error) {
	doc, err := document(body)
	if err != nil {
		return nil, err
	}
	var all []Result
	doc.Find(s.item).Each(func(_ int, item *goquery.Selection) {
		link, _ := item.Find(s.link).First().Attr("href")
		title := item.Find(s.title).First().Text()
		if link != "" && strings.TrimSpace(title) != "" && len(all) < 200 {
			all = append(all, Result{title, link, item.Find(s.summary).First().Text()})
		}
	})
	switch {
	case len(all) > 0:
		return all, nil
	case doc.Find(s.blocked).Length() > 0:
		return nil, errBlocked
	case strings.Contains(strings.ToLower(doc.Find(s.none).Text()), s.emptyMessage) && doc.Find(s.none).Length() > 0:
		return nil, nil
	}
	return nil, errUnknown
}
