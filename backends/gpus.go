package backends

import "path/filepath"

// GPUNodes returns the device nodes of this machine's graphics processors. Their existence does not mean that
// programs get them.
func GPUNodes() (nodes []string) {
	for _, pattern := range []string{"/dev/nvidia[0-9]*", "/dev/kfd", "/dev/dri/renderD*", "/dev/dxg"} {
		found, _ := filepath.Glob(pattern)
		nodes = append(nodes, found...)
	}
	return nodes
}
