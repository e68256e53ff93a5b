package cli

import "github.com/sandboxmcp/sandboxmcp/audit/safetext"

// visible is safetext.Line.
func visible(s string) string { return safetext.Line(s) }
