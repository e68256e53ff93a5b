//go:build !unix

package statefile

// ExclusiveVFS is empty on this system.
const ExclusiveVFS = ""

// Space is unknown on this system.
func Space(string) (free, total int64) { return 0, 0 }
