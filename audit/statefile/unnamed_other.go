//go:build !linux

package statefile

import "os"

func createUnnamed(dir, kind string) (f *os.File, name string, err error) {
	return createNamed(dir, kind)
}

// linkUnnamed gives the file the name path, unless something has it.
func linkUnnamed(_ *os.File, name, path string) error { return os.Link(name, path) }
