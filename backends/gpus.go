package backends

import "path/filepath"

// GPUNodes returns the device nodes of graphics processors that this machine has. That there is one does not say that
// programs get it.
func GPUNodes() (nodes []string) {
	for _, pattern := range []string{"/dev/nvidia[0-9]*", "/dev/kfd", "/dev/dri/renderD*", "/dev/dxg"} {
		found, _ := filepath.Glob(pattern)
		nodes = append(nodes, found...)
	}
	return nodes
}
