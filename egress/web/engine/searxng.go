package engine

import (
	"encoding/json"
	"fmt"
	"net/url"
)

// SearXNG answers programs in JSON, if its settings name json among search.formats; otherwise with HTTP 403.

func searxngAddress(base, query string) string {
	return base + "/search?" + url.Values{"q": {query}, "format": {"json"}, "categories": {"general"}}.Encode()
}

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
