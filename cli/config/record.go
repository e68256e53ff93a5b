package config

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/sandboxmcp/sandboxmcp/validate/spelling"
)

// recordSettings are about what is told and kept of runs.
func recordSettings() []setting {
	return []setting{
		audit(),
		choice("audit.capture", []string{"code", "output"}, func(c *Config) *[]string { return &c.Audit.Capture }),
		count("audit.checkpoint_rows", "", 1, 1_000_000, func(c *Config) *int { return &c.Audit.CheckpointRows }),
		count("audit.seal_after_days", "", 0, 100*365, func(c *Config) *int { return &c.Audit.SealAfterDays }),
		list("audit.push", func(c *Config) *[]string { return &c.Audit.Push }),
		word("redact.unknown", "", []string{"off", "warn", "mask"}, func(c *Config) *string { return &c.Redact.Unknown }),
		address("events.webhook", collector, func(c *Config) *string { return &c.Events.Webhook }),
		secretName("events.webhook_secret", func(c *Config) *string { return &c.Events.WebhookSecret }),
		list("events.webhook_kinds", func(c *Config) *[]string { return &c.Events.WebhookKinds }),
		address("events.otlp", collector, func(c *Config) *string { return &c.Events.OTLP }),
	}
}

// audit takes what says that the log is kept, which it always is. In a file, "audit: on" says it, too.
func audit() setting {
	return setting{"audit.enabled", "AUDIT", "on", func(c *Config, v value) error {
		on, err := v.truth()
		if err == nil && !on {
			err = errors.New("the audit log can't be switched off: a run without a row has no result")
		}
		return err
	}, func(*Config) string { return "on" }}
}

// choice is any of a few words, also a single one without a list.
func choice(key string, known []string, of func(*Config) *[]string) setting {
	return setting{key, "", None + ", a list of " + strings.Join(known, ", "), func(c *Config, v value) error {
		words := v.words
		if !v.list && len(words) == 1 && words[0] == None {
			words = nil
		}
		for i, w := range words {
			switch {
			case !slices.Contains(known, w):
				return fmt.Errorf("%q is not known%s: use %s", w, spelling.DidYouMean(w, known), either(known))
			case slices.Contains(words[:i], w):
				return fmt.Errorf("%s is listed twice", w)
			}
		}
		*of(c) = slices.Clone(words)
		return nil
	}, func(c *Config) string { return flow(*of(c)) }}
}

// collector is what the address of one looks like.
const collector = "https://collector.example.com:4318"

// address is where something is sent, or asked, over HTTP; example is one.
func address(key, example string, of func(*Config) *string) setting {
	s := checked(key, "", None+", a URL", None, of, func(text string) error {
		u, err := url.Parse(text)
		switch {
		case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
			return fmt.Errorf("%s is no address: write one like %s", withoutToken(text), example)
		case u.User != nil:
			return errors.New("an address can't hold a name and password: this file is no place for them")
		}
		return nil
	})
	s.show = func(c *Config) string { return quoted(cmp.Or(withoutToken(*of(c)), None)) }
	return s
}

// withoutToken is an address without what may be a token in it: its query, and what is no address at all.
func withoutToken(text string) string {
	u, err := url.Parse(text)
	switch {
	case text == "":
		return ""
	case err != nil || u.Scheme == "" || u.Host == "":
		return "this"
	}
	bare := url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path, RawPath: u.RawPath}
	if u.RawQuery != "" || u.Fragment != "" {
		return bare.String() + "?..."
	}
	return bare.String()
}

// secretName is the place of a secret in the vault, not its value.
func secretName(key string, of func(*Config) *string) setting {
	return checked(key, "", None+", NAMESPACE/KEY", None, of, func(text string) error {
		if namespace, name, ok := strings.Cut(text, "/"); !ok || namespace == "" || name == "" {
			return errors.New("write NAMESPACE/KEY, under which the secret is in the vault") // not the text: it may be the value
		}
		return nil
	})
}
