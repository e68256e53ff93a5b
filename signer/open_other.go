//go:build !unix

package signer

// dontBlock would keep opening a FIFO from blocking: here, none has a path in a directory.
const dontBlock = 0
