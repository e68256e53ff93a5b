//go:build !linux && !darwin

package console

import "os"

// noFollow is 0: this system has no flag against symbolic links.
const noFollow = 0

// WatchSize returns a channel that never receives: this system sends no signal for the terminal's size.
func WatchSize() (changes <-chan os.Signal, stop func()) { return nil, func() {} }
