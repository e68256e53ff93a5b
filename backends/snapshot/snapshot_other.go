//go:build !linux

package snapshot

const noAccessTime = 0
