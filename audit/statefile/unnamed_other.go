//go:build !linux

package statefile

import "os"

func createUnnamed(dir, kind string) (f *os.File, name string, err error) {
	return createNamed(dir, kind)
}

// linkUnnamed links the file to path, unless that exists.
func linkUnnamed(_ *os.File, name, path string) error { return os.Link(name, path) }
