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

// alwaysOn returns the kind of audit.enabled, which accepts only true. In a file, "audit: on" sets it, too.
func alwaysOn() kind {
	return kind{"on", func(v value) error {
		on, err := v.truth()
		if err == nil && !on {
			err = errors.New("the audit log can't be switched off: a run without a row has no result")
		}
		return err
	}, func() string { return "on" }}
}

// choice returns the kind of a list of known words, each once; a single word needs no list.
func choice(known []string, of *[]string) kind {
	return kind{None + ", a list of " + strings.Join(known, ", "), func(v value) error {
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
		*of = slices.Clone(words)
		return nil
	}, func() string { return flow(*of) }}
}

// address returns the kind of an HTTP URL without a user and password. Messages quote example.
func address(example string, of *string) kind {
	k := checked(None+", a URL", None, of, func(text string) error {
		u, err := url.Parse(text)
		switch {
		case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
			return fmt.Errorf("%s is no address: write one like %s", withoutToken(text), example)
		case u.User != nil:
			return errors.New("an address can't hold a name and password: this file is no place for them")
		}
		return nil
	})
	k.show = func() string { return quoted(cmp.Or(withoutToken(*of), None)) }
	return k
}

// withoutToken returns a URL without the parts that may hold a token: user, query and fragment. Other text might be a
// token itself, and becomes "this".
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

// secretName returns the kind of the name of a secret in the vault.
func secretName(of *string) kind {
	return checked(None+", NAMESPACE/KEY", None, of, func(text string) error {
		if namespace, name, ok := strings.Cut(text, "/"); !ok || namespace == "" || name == "" {
			return errors.New("write NAMESPACE/KEY, under which the secret is in the vault") // the text may be the value: do not quote it
		}
		return nil
	})
}
