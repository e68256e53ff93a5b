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

// recordSettings returns the settings of Audit, Redact and Events.
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

// audit returns the setting audit.enabled, which accepts only true: the log is always kept. In a file, "audit: on" sets it, too.
func audit() setting {
	return setting{"audit.enabled", "AUDIT", "on", func(c *Config, v value) error {
		on, err := v.truth()
		if err == nil && !on {
			err = errors.New("the audit log can't be switched off: a run without a row has no result")
		}
		return err
	}, func(*Config) string { return "on" }}
}

// choice returns the setting of a list of known words, each once; a single word needs no list.
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

// collector is an example of an address, for messages.
const collector = "https://collector.example.com:4318"

// address returns the setting of an HTTP URL, without a name and password. Messages show example.
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

// withoutToken returns a URL without the parts that may hold a token: user, query and fragment. Text that is no URL may be
// a token itself, and becomes "this".
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

// secretName returns the setting of a secret's place in the vault, not of its value.
func secretName(key string, of func(*Config) *string) setting {
	return checked(key, "", None+", NAMESPACE/KEY", None, of, func(text string) error {
		if namespace, name, ok := strings.Cut(text, "/"); !ok || namespace == "" || name == "" {
			return errors.New("write NAMESPACE/KEY, under which the secret is in the vault") // not the text: it may be the value
		}
		return nil
	})
}
