// Package engine parses the JSON answers of web search engines. An unknown answer is an error, not an empty list.
package engine

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/sandboxmcp/sandboxmcp/egress/web/page"
)

// Result is a search result.
type Result struct {
	Title   string `json:"title"`
	URL     string `json:"url"`
	Summary string `json:"summary"`
}

// errUnknown is the error for an answer of unknown format.
var errUnknown = errors.New("no results were recognized in its answer")

// The names of the engines: the operator's own, and one that needs a key.
const (
	SearXNG = "searxng"
	Brave   = "brave"
)

// Key returns the header that carries the key of Brave's interface for programs.
func Key(key string) http.Header {
	return http.Header{"X-Subscription-Token": {key}, "Accept": {"application/json"}}
}

// RefusalOf returns why a status is not an answer, or "".
func RefusalOf(status int) string {
	switch {
	case status == http.StatusTooManyRequests, status == http.StatusForbidden, status == http.StatusUnauthorized:
		return fmt.Sprintf("it refuses to answer (HTTP %d)", status)
	case status >= 400:
		return fmt.Sprintf("it answers with HTTP %d", status)
	}
	return ""
}

// Read parses the results in an answer of the named engine. An empty list means that the engine found none.
func Read(name string, body []byte) (all []Result, err error) {
	var found []Result
	switch name {
	case SearXNG:
		found, err = readSearXNG(body)
	case Brave:
		found, err = readBrave(body)
	default:
		err = fmt.Errorf("unknown search engine %q: use %s or %s", name, SearXNG, Brave)
	}
	if err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	for _, r := range found {
		r.URL = cleanLink(r.URL)
		key := strings.TrimSuffix(strings.TrimPrefix(strings.TrimPrefix(r.URL, "https://"), "http://"), "/")
		if r.URL == "" || seen[key] {
			continue
		}
		seen[key] = true
		r.Title, r.Summary = cmp.Or(page.SingleLine(r.Title, 300), r.URL), page.SingleLine(r.Summary, 1000)
		all = append(all, r)
	}
	if len(found) > 0 && len(all) == 0 {
		return nil, errUnknown
	}
	return all, nil
}

// trackingParameters are link parameters that identify a visitor's origin.
var trackingParameters = []string{"gclid", "fbclid", "msclkid", "yclid", "dclid", "mc_eid", "igshid", "ref_src", "srsltid"}

// cleanLink returns a link without tracking parameters, or "" if it is not http or https.
func cleanLink(link string) string {
	u, err := url.Parse(strings.TrimSpace(link))
	if err != nil || len(link) > 8000 {
		return ""
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil {
		return ""
	}
	u.Fragment, u.RawFragment = "", ""
	var keep []string
	for pair := range strings.SplitSeq(u.RawQuery, "&") {
		name, _, _ := strings.Cut(pair, "=")
		if pair != "" && !strings.HasPrefix(name, "utm_") && !slices.Contains(trackingParameters, name) {
			keep = append(keep, pair)
		}
	}
	u.RawQuery = strings.Join(keep, "&")
	return page.SingleLine(u.String(), 8000)
}

// readSearXNG reads JSON, which SearXNG returns if json is among search.formats in its settings; otherwise it returns
// HTTP 403.
func readSearXNG(body []byte) ([]Result, error) {
	var answer struct {
		Results *[]struct {
			Title, URL, Content string
		}
		Unresponsive [][]string `json:"unresponsive_engines"`
	}
	if err := json.Unmarshal(body, &answer); err != nil || answer.Results == nil {
		return nil, fmt.Errorf("%w, or json is not among search.formats of its settings", errUnknown)
	}
	var all []Result
	for _, r := range *answer.Results {
		all = append(all, Result{r.Title, r.URL, r.Content})
	}
	if len(all) == 0 && len(answer.Unresponsive) > 0 {
		return nil, fmt.Errorf("none of the engines that it asks has answered: %.200q", answer.Unresponsive)
	}
	return all, nil
}

// readBrave reads the JSON of Brave's interface for programs. Its titles and descriptions are HTML.
func readBrave(body []byte) ([]Result, error) {
	var answer struct {
		Type string
		Web  struct {
			Results []struct{ Title, URL, Description string }
		}
	}
	if err := json.Unmarshal(body, &answer); err != nil || answer.Type != "search" {
		return nil, errUnknown
	}
	var all []Result
	for _, r := range answer.Web.Results {
		all = append(all, Result{plainText(r.Title), r.URL, plainText(r.Description)})
	}
	return all, nil
}

// plainText returns the text of HTML that has only emphasis and entities.
func plainText(text string) string {
	return html.UnescapeString(strings.NewReplacer("<strong>", "", "</strong>", "").Replace(text))
}
