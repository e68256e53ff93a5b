package cli

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"github.com/sandboxmcp/sandboxmcp/cli/config"
)

// policy is what the operator decided, as JSON: the same text for the same decisions, so that its SHA-256, which
// receipts hold, stands for them. Where things are kept, and who is told of them, is no part of it.
func policy(cfg config.Config) []byte {
	elsewhere := []string{"state_dir", "sqlite_path", "events."}
	all := map[string]string{}
	for _, s := range cfg.Origins() {
		if !slices.ContainsFunc(elsewhere, func(key string) bool { return strings.HasPrefix(s.Key, key) }) {
			all[s.Key] = s.Value
		}
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	_ = e.Encode(all) // a map of text, whose keys it sorts
	return b.Bytes()
}
