package config

import (
	"fmt"
	"slices"
	"strings"
)

// Web is what callers may have read of the web. The zero value is nothing.
type Web struct {
	Enabled        bool
	Allow          []string // what may be reached; nil is every public host on ports 80 and 443. What egress.deny names is denied
	SearXNG        string   // URL of a SearXNG that is asked first, "" is none
	Engines        []string // that are asked, nil is all
	Browser        string   // path of the browser that browser_fetch starts, "" is found
	TimeoutSeconds int      // of one call
	MaxMB          int64    // MB, of one page
}

// engineNames are the search engines that there are.
var engineNames = []string{"searxng", "duckduckgo", "mojeek", "brave", "yandex"}

func webSettings() []setting {
	return []setting{
		yesNo("web.enabled", "WEB", func(c *Config) *bool { return &c.Web.Enabled }),
		list("web.allow", func(c *Config) *[]string { return &c.Web.Allow }),
		address("web.searxng", "https://searx.example.com", func(c *Config) *string { return &c.Web.SearXNG }),
		searchEngines("web.engines", func(c *Config) *[]string { return &c.Web.Engines }),
		binary("web.browser", func(c *Config) *string { return &c.Web.Browser }),
		count("web.timeout_seconds", "", 1, 600, func(c *Config) *int { return &c.Web.TimeoutSeconds }),
		count("web.max_mb", "", 1, 100, func(c *Config) *int64 { return &c.Web.MaxMB }),
	}
}

func searchEngines(key string, of func(*Config) *[]string) setting {
	all := list(key, of)
	return setting{key, "", "a list of " + strings.Join(engineNames, ", "), func(c *Config, v value) error {
		if err := all.set(c, v); err != nil {
			return err
		}
		for _, name := range *of(c) {
			if !slices.Contains(engineNames, name) {
				return fmt.Errorf("%q is no search engine%s: use %s", name, didYouMean(name, engineNames), either(engineNames))
			}
		}
		return nil
	}, all.show}
}
