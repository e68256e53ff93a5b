package engine

import "net/url"

// DuckDuckGo has a page without scripts. Its links lead over its own address, /l/?uddg=TARGET.

func duckduckgoAddress(base, query string) string {
	return base + "/html/?" + url.Values{"q": {query}}.Encode()
}

func readDuckDuckGo(body []byte) ([]Result, error) {
	return shape{
		item: "div.result:not(.result--ad)", link: "a.result__a", title: "a.result__a", summary: ".result__snippet",
		blocked: ".anomaly-modal__title, .anomaly-modal__modal, #challenge-form, form[action*='anomaly.js']",
		none:    ".no-results, .result--no-result",
	}.read(body)
}
