//go:build unix

package signer

import "syscall"

// dontBlock makes opening a FIFO or a device return at once; it does nothing to files.
const dontBlock = syscall.O_NONBLOCK | syscall.O_NOCTTY
