//go:build !linux

package backends

// mountTable is empty: on other systems, the engines' machines have mounts of their own.
type mountTable struct{}

func readMounts() (none mountTable) { return none }

func (mountTable) otherNames([]string) []string { return nil }

func (mountTable) submounts(string) []Submount { return nil }

func kernelKind(string) string { return "" }
