//go:build !unix

package statefile

// ExclusiveVFS has no name here.
const ExclusiveVFS = ""

// Space is unknown here.
func Space(string) (free, total int64) { return 0, 0 }
