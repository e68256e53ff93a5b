//go:build !linux && !darwin

package cli

import "os"

const noFollow = 0

func resized() (changes <-chan os.Signal, stop func()) { return nil, func() {} }
