//go:build !linux

package backends

// mountTable has no mounts: on other systems, the engines' machines have mounts of their own.
type mountTable struct{}

func mounts() (none mountTable) { return none }

func (mountTable) elsewhere([]string) []string { return nil }

func (mountTable) below(string) []Submount { return nil }

func kernelKind(string) string { return "" }
