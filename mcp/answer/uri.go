package answer

import (
	"net/url"
	"strings"
	"time"
)

// Stamp returns a time as clients have it; "" is none.
func Stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

// RunScheme is the beginning of the URIs of what runs left.
const RunScheme = "sandbox://runs/"

// RunURI returns the URI of what a run left under a name in the result store.
func RunURI(id, name string) string { return RunScheme + id + "/" + name }

// FileURI returns the URI of a file that a run left.
func FileURI(id, name string) string { return RunURI(id, "files/"+Escaped(name)) }

// Escaped returns a file's name as the part of a URI.
func Escaped(name string) string {
	parts := strings.Split(name, "/")
	for i, p := range parts {
		parts[i] = url.PathEscape(p)
	}
	return strings.Join(parts, "/")
}
