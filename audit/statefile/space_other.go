//go:build !unix

package statefile

// AloneVFS has no name here.
const AloneVFS = ""

// Space is unknown here.
func Space(string) (free, total int64) { return 0, 0 }
