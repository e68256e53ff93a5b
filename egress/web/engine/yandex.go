package engine

import "net/url"

// Yandex sends its search in sites within a frame to those who run no scripts; web=1 is all of the web.

// yandexSite is the public number of a search form.
const yandexSite = "3131712"

func yandexAddress(base, query string) string {
	return base + "/search/site/?" + url.Values{
		"text": {query}, "web": {"1"}, "frame": {"1"}, "tmpl_version": {"releases"}, "searchid": {yandexSite}, "lang": {"en"},
	}.Encode()
}

func readYandex(body []byte) ([]Result, error) {
	return shape{
		item: "li.serp-item", link: "a.b-serp-item__title-link, a.OrganicTitle-Link", title: ".b-serp-item__title, .OrganicTitle",
		summary: ".b-serp-item__text, .OrganicText",
		blocked: ".CheckboxCaptcha, .AdvancedCaptcha, .smartcaptcha, form[action*='captcha']",
		none:    ".b-error__title, .b-message, .misspell__message, .EmptySearchResults",
	}.read(body)
}
