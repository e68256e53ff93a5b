//go:build !unix

package config

import "os"

// openFile opens a regular file. The mode bits of this system do not tell who may write it.
func openFile(name string) (*os.File, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, notRegular(info)
	}
	return os.Open(name)
}
