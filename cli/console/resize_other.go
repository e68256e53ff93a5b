//go:build !linux && !darwin

package console

import "os"

const noFollow = 0

func Resized() (changes <-chan os.Signal, stop func()) { return nil, func() {} }
