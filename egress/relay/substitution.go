package relay

import (
	"encoding/base64"
	"net/http"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// maxAddedHeader is the number of bytes that values may add to a request's headers and query: a program can repeat a
// placeholder any number of times.
const maxAddedHeader = 1 << 20

// substitution replaces placeholders in a request by their secrets, and records which.
type substitution struct {
	secrets   []Secret
	values    []string
	found     []bool
	bytesLeft int // bytes that may still be added
}

// newSubstitution fails if the lease of a secret is closed.
func newSubstitution(secrets []Secret) (*substitution, error) {
	f := &substitution{secrets: secrets, values: make([]string, len(secrets)), found: make([]bool, len(secrets)), bytesLeft: maxAddedHeader}
	for i, s := range secrets {
		if f.values[i] = s.Value(); f.values[i] == "" {
			return nil, refuse("the lease of the secret %s is closed", s.Name)
		}
	}
	return f, nil
}

// fillHeader substitutes the secrets in header values and the query. Host, path, method and header names stay.
func (f *substitution) fillHeader(r *http.Request) error {
	var err error
	if r.URL.RawQuery, err = f.replace(r.URL.RawQuery, inQuery); err != nil {
		return err
	}
	for name, values := range r.Header {
		for i, v := range values {
			if name == "Authorization" {
				v, err = f.fillAuthorization(v)
			} else {
				v, err = f.replace(v, inHeader)
			}
			if err != nil {
				return err
			}
			values[i] = v
		}
	}
	return nil
}

// setHeaders sets the headers of secrets with Secret.Header.
func (f *substitution) setHeaders(r *http.Request) error {
	for i, s := range f.secrets {
		if s.Header == "" {
			continue
		}
		r.Header.Del(s.Header)
		value, err := f.replace(s.Placeholder, inHeader)
		if err != nil {
			return err
		}
		r.Header[http.CanonicalHeaderKey(s.Header)] = []string{value}
		f.found[i] = true
	}
	return nil
}

// fillAuthorization also replaces placeholders within Basic credentials, which are base64 of user:password (RFC 7617).
func (f *substitution) fillAuthorization(v string) (string, error) {
	text, ok := decodeBasic(v)
	if !ok {
		return f.replace(v, inHeader)
	}
	filled, err := f.replace(text, inHeader)
	if err != nil || filled == text {
		return v, err
	}
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(filled)), nil
}

// decodeBasic returns the user and password in the value of an Authorization header.
func decodeBasic(v string) (text string, ok bool) {
	scheme, encoded, _ := strings.Cut(strings.Trim(v, " \t"), " ")
	if !strings.EqualFold(scheme, "Basic") {
		return "", false
	}
	encoded = strings.TrimRight(strings.Trim(encoded, " \t"), "=")
	for _, e := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		if b, err := e.DecodeString(encoded); err == nil {
			return string(b), true
		}
	}
	return "", false
}

// replace returns text with the placeholders replaced by values.
func (f *substitution) replace(text string, s spelling) (string, error) {
	var out strings.Builder
	done := 0
	for i := 0; i < len(text); {
		k, n := f.placeholderAt(text[i:], s)
		if n == 0 {
			i++
			continue
		}
		value := f.values[k]
		f.found[k] = true
		if s.singleLine && (!httpguts.ValidHeaderFieldValue(value) || strings.ContainsAny(value, "\r\n\x00")) {
			return "", refuse("the value of the secret %s has characters that can't stand in a request's header or address", f.secrets[k].Name)
		}
		value = s.write(value)
		if f.bytesLeft -= len(value); f.bytesLeft < 0 {
			return "", refusal{http.StatusRequestEntityTooLarge, "the request is too large once its secrets are in it"}
		}
		out.WriteString(text[done:i])
		out.WriteString(value)
		i += n
		done = i
	}
	if done == 0 {
		return text, nil
	}
	out.WriteString(text[done:])
	return out.String(), nil
}

// placeholderAt returns the secret whose placeholder is at the start of text, and the length of its spelling; 0 is
// none.
func (f *substitution) placeholderAt(text string, s spelling) (secret, n int) {
	for k := range f.secrets {
		if m := s.placeholderLength(text, f.secrets[k].Placeholder); m > n {
			secret, n = k, m
		}
	}
	return secret, n
}

// checkRequired returns an error if the request lacks the required secrets.
func (f *substitution) checkRequired(name string) error {
	missing := ""
	for i, s := range f.secrets {
		if s.Require && f.found[i] {
			return nil
		}
		if s.Require && missing == "" {
			missing = s.Name
		}
	}
	if missing == "" {
		return nil
	}
	return refuse("a request to %s has to carry the secret %s: send what the program has in the place of its value", name, missing)
}
