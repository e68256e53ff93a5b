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

// alwaysOnKind returns the kind of audit.enabled, which accepts only true. In a file, "audit: on" sets it, too.
func alwaysOnKind() kind {
	return kind{"on", func(v value) error {
		on, err := v.boolean()
		if err == nil && !on {
			err = errors.New("the audit log can't be switched off: a run without a row has no result")
		}
		return err
	}, func() string { return "on" }}
}

// choiceKind returns the kind of a list of known words, each once; a single word needs no list.
func choiceKind(known []string, of *[]string) kind {
	return kind{None + ", a list of " + strings.Join(known, ", "), func(v value) error {
		words := v.words
		if !v.list && len(words) == 1 && words[0] == None {
			words = nil
		}
		for i, w := range words {
			switch {
			case !slices.Contains(known, w):
				return fmt.Errorf("%q is not known%s: use %s", w, spelling.DidYouMean(w, known), quotedChoices(known))
			case slices.Contains(words[:i], w):
				return fmt.Errorf("%s is listed twice", w)
			}
		}
		*of = slices.Clone(words)
		return nil
	}, func() string { return yamlList(*of) }}
}

// addressKind returns the kind of an HTTP URL without a user and password. Messages quote example.
func addressKind(example string, of *string) kind {
	k := checkedKind(None+", a URL", None, of, func(text string) error {
		u, err := url.Parse(text)
		switch {
		case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
			return fmt.Errorf("%s is not an address: write one like %s", withoutToken(text), example)
		case u.User != nil:
			return errors.New("an address can't contain a name and password: keep them out of this file")
		}
		return nil
	})
	k.show = func() string { return yamlWord(cmp.Or(withoutToken(*of), None)) }
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

// secretNameKind returns the kind of the name of a secret in the vault.
func secretNameKind(of *string) kind {
	return checkedKind(None+", NAMESPACE/KEY", None, of, func(text string) error {
		if namespace, name, ok := strings.Cut(text, "/"); !ok || namespace == "" || name == "" {
			return errors.New("write NAMESPACE/KEY, under which the secret is in the vault") // the text may be the value: do not quote it
		}
		return nil
	})
}
