package engine

import "net/url"

// Brave's classes end with what its build made up, so elements are found by the class beside those.

func braveAddress(base, query string) string {
	return base + "/search?" + url.Values{"q": {query}, "source": {"web"}}.Encode()
}

func readBrave(body []byte) ([]Result, error) {
	return shape{
		item: "div.snippet[data-type='web'], div.snippet:not([data-type])", link: "a[href^='http']", title: ".title, .search-snippet-title",
		summary: ".snippet-description, .generic-snippet .content",
		blocked: "#pow-captcha, .pow-captcha, form[action*='captcha'], [data-sitekey], .captcha",
		none:    "#bottom-no-results, .no-results, #no-results, .fallback-message",
	}.read(body)
}
