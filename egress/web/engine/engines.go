package engine

import (
	"encoding/json"
	"fmt"
)

// engines returns all engines, in the order in which they are asked.
func engines() []Engine {
	return []Engine{
		{SearXNG, "/search?categories=general&format=json&q=%s", readSearXNG, ""},

		// DuckDuckGo has a page without scripts. Its links lead over its own address, /l/?uddg=TARGET.
		{"duckduckgo", "/html/?q=%s", shape{
			item: "div.result:not(.result--ad)", link: "a.result__a", title: "a.result__a", summary: ".result__snippet",
			blocked: ".anomaly-modal__title, .anomaly-modal__modal, #challenge-form, form[action*='anomaly.js']",
			none:    ".no-results, .result--no-result",
		}.read, "https://html.duckduckgo.com"},

		// Mojeek has an index of its own, and answers programs whose requests are few with 200, others with 403.
		{"mojeek", "/search?q=%s", shape{
			item: "ul.results-standard > li", link: "h2 a, a.ob", title: "h2 a", summary: "p.s",
			blocked: "form[action*='captcha'], #captcha, .g-recaptcha, .captcha",
			none:    ".results p, .no-results, #results p, .content p", emptyMessage: "no pages found",
		}.read, "https://www.mojeek.com"},

		// Brave's classes end with what its build made up, so elements are found by the class beside those.
		{"brave", "/search?q=%s&source=web", shape{
			item: "div.snippet[data-type='web'], div.snippet:not([data-type])", link: "a[href^='http']", title: ".title, .search-snippet-title",
			summary: ".snippet-description, .generic-snippet .content",
			blocked: "#pow-captcha, .pow-captcha, form[action*='captcha'], [data-sitekey], .captcha",
			none:    "#bottom-no-results, .no-results, #no-results, .fallback-message",
		}.read, "https://search.brave.com"},

		// Yandex sends its search in sites within a frame to those who run no scripts; web=1 is all of the web. searchid is
		// the public number of a search form.
		{"yandex", "/search/site/?frame=1&lang=en&searchid=3131712&text=%s&tmpl_version=releases&web=1", shape{
			item: "li.serp-item", link: "a.b-serp-item__title-link, a.OrganicTitle-Link", title: ".b-serp-item__title, .OrganicTitle",
			summary: ".b-serp-item__text, .OrganicText",
			blocked: ".CheckboxCaptcha, .AdvancedCaptcha, .smartcaptcha, form[action*='captcha']",
			none:    ".b-error__title, .b-message, .misspell__message, .EmptySearchResults",
		}.read, "https://yandex.com"},
	}
}

// readSearXNG reads JSON, with which SearXNG answers programs if its settings name json among search.formats; otherwise it
// answers with HTTP 403.
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
