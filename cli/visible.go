package cli

import "github.com/sandboxmcp/sandboxmcp/audit/plain"

// visible returns s with everything that a terminal would obey, or that would change how the rest
// of a line reads, written out.
func visible(s string) string { return plain.Text(s) }

// visibleJSON does the same as visible for JSON, within what JSON allows, so that its value stays.
func visibleJSON(b []byte) []byte { return plain.JSON(b) }
