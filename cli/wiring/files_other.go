//go:build !unix

package wiring

// space is unknown here.
func space(string) (free, total int64) { return 0, 0 }

// maxFiles knows no limit here.
func maxFiles() uint64 { return minFiles }

// maxProcesses knows no limit here.
func maxProcesses() uint64 { return minProcesses }
