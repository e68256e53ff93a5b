//go:build !linux

package backends

// Submounts returns what is mounted below a path of the host: on other systems, the engines' machines have mounts of their own.
func Submounts(string) []Submount { return nil }

func kernelKind(string) string { return "" }
