//go:build !unix

package wiring

// maxFiles knows no limit here.
func maxFiles() uint64 { return minFiles }

// maxProcesses knows no limit here.
func maxProcesses() uint64 { return minProcesses }
