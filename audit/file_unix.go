//go:build unix

package audit

import "syscall"

// dontBlock makes opening a FIFO return at once; it does nothing to files.
const dontBlock = syscall.O_NONBLOCK | syscall.O_NOCTTY
