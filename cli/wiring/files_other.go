//go:build !unix

package wiring

// maxFiles returns a sufficient number: this system's limit is unknown.
func maxFiles() uint64 { return minFiles }

// maxProcesses returns a sufficient number: this system's limit is unknown.
func maxProcesses() uint64 { return minProcesses }
