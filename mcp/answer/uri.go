package answer

import (
	"net/url"
	"strings"
	"time"
)

// Stamp formats a time for clients; "" is the zero time.
func Stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

// RunScheme is the prefix of the URIs of runs.
const RunScheme = "sandbox://runs/"

// RunURI returns the URI of a run's entry in the result store.
func RunURI(id, name string) string { return RunScheme + id + "/" + name }

// FileURI returns the URI of an artifact.
func FileURI(id, name string) string { return RunURI(id, "files/"+Escaped(name)) }

// Escaped returns a file's name as path of a URI.
func Escaped(name string) string {
	parts := strings.Split(name, "/")
	for i, p := range parts {
		parts[i] = url.PathEscape(p)
	}
	return strings.Join(parts, "/")
}
