package engine

import "net/url"

// Mojeek has an index of its own, and answers programs whose requests are few with 200, others with 403.

func mojeekAddress(base, query string) string {
	return base + "/search?" + url.Values{"q": {query}}.Encode()
}

func readMojeek(body []byte) ([]Result, error) {
	return shape{
		item: "ul.results-standard > li", link: "h2 a, a.ob", title: "h2 a", summary: "p.s",
		blocked: "form[action*='captcha'], #captcha, .g-recaptcha, .captcha",
		none:    ".results p, .no-results, #results p, .content p", emptyMessage: "no pages found",
	}.read(body)
}
