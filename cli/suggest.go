package cli

import (
	"strings"

	"github.com/sandboxmcp/sandboxmcp/cli/config"
)

// nearest returns the known word that word was probably meant to be, or "".
func nearest(word string, known []string) string {
	flat := make([]string, len(known))
	for i, k := range known {
		flat[i] = strings.ToLower(strings.ReplaceAll(k, "-", "_"))
	}
	found := config.Nearest(word, flat)
	for i, k := range flat {
		if k == found {
			return known[i]
		}
	}
	return ""
}
