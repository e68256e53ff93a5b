package web

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/sandboxmcp/sandboxmcp/audit/safetext"
	"github.com/sandboxmcp/sandboxmcp/pipeline/remedy"
)

// Refused is the error for an address or a host that policy forbids.
type Refused struct {
	Reason string
	Remedy remedy.Text // what to write instead of a wrong address; nil if there is no remedy
	Host   string      // the host that the policy denies; "" for other errors
}

func (r *Refused) Error() string { return r.Reason }

func refused(format string, a ...any) error { return &Refused{Reason: fmt.Sprintf(format, a...)} }

// notAllowed returns the error for a host that the policy does not allow.
func notAllowed(host, reason string) error {
	return &Refused{Reason: host + " may not be reached: " + reason, Host: host}
}

// Parse parses the address of a page. The result has scheme http or https, a host, no user name, and no fragment, which
// is not sent to servers.
func Parse(text string) (*url.URL, error) {
	text = strings.TrimSpace(text)
	switch {
	case len(text) > maxAddress:
		return nil, refused("the address has %d bytes, the maximum is %d", len(text), maxAddress)
	case !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl):
		return nil, refused("the address has characters in it that no address can have")
	}
	u, err := url.Parse(text)
	if err != nil {
		return nil, refused("the address can't be understood: write one like https://example.com/page")
	}
	u.Scheme = strings.ToLower(u.Scheme)
	switch {
	case isBareHost(u):
		return nil, &Refused{Reason: "the address has no scheme: write https:// before it", Remedy: remedy.Text{"https://", quoteBrief(text)}}
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, refused("%q addresses are not read: only http and https are", quoteBrief(u.Scheme))
	case u.User != nil:
		return nil, refused("the address has a user name in it, and credentials are sent nowhere")
	case u.Opaque != "" || u.Hostname() == "":
		return nil, refused("the address names no host: write one like https://example.com/page")
	}
	if _, err := Port(u); err != nil {
		return nil, err
	}
	u.Fragment, u.RawFragment = "", ""
	return u, nil
}

// isBareHost reports whether an address is a host without a scheme: url.Parse treats the host of "example.com:8080" as
// a scheme.
func isBareHost(u *url.URL) bool {
	digits, _, _ := strings.Cut(u.Opaque, "/")
	_, err := strconv.ParseUint(digits, 10, 16)
	return u.Scheme == "" || err == nil
}

// Port returns the port of an address, by default that of its scheme.
func Port(u *url.URL) (int, error) {
	switch {
	case u.Port() != "":
		n, err := strconv.Atoi(u.Port())
		if err != nil || n < 1 || n > 65535 {
			return 0, refused("%s is not a port", quoteBrief(u.Port()))
		}
		return n, nil
	case u.Scheme == "https":
		return 443, nil
	}
	return 80, nil
}

// redirectTarget returns the target of a redirect, or nil. An encrypted page can't redirect to an unencrypted one,
// which anybody on the network path could write.
func redirectTarget(r *http.Response, at *url.URL) (*url.URL, error) {
	switch r.StatusCode {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
	default:
		return nil, nil
	}
	to, err := r.Location()
	if errors.Is(err, http.ErrNoLocation) {
		return nil, nil
	}
	if err != nil {
		return nil, refused("%s redirects to an address that can't be understood", at.Hostname())
	}
	next, err := Parse(to.String())
	if err != nil {
		return nil, refused("%s redirects: %v", at.Hostname(), err)
	}
	if at.Scheme == "https" && next.Scheme == "http" {
		return nil, refused("%s redirects from https to %s, which is not encrypted: name that address itself if it is meant", at.Hostname(),
			quoteBrief(next.String()))
	}
	return next, nil
}

// quoteBrief shortens and escapes untrusted text for a message.
func quoteBrief(s string) string { return safetext.Line(safetext.Clip(s, 200)) }

// oneLine is quoteBrief for a library's message, which may quote a server.
func oneLine(s string) string {
	return quoteBrief(strings.Join(strings.Fields(s), " "))
}
