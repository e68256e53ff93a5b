//go:build !unix

package statefile

// Free is not known here.
func Free(string) int64 { return -1 }

const AloneVFS = ""
