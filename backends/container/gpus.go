package container

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/sandboxmcp/sandboxmcp/backends"
)

// checkGPUs refuses what is neither indices nor "all": it becomes part of device names.
func checkGPUs(gpus []string) error {
	if len(gpus) == 1 && gpus[0] == "all" {
		return nil
	}
	for i, gpu := range gpus {
		if _, err := strconv.ParseUint(gpu, 10, 16); err != nil || slices.Contains(gpus[:i], gpu) {
			return &backends.Refusal{Reason: fmt.Sprintf("%.100q is no index of a GPU, or named twice", gpu), Remedy: "use --gpus all, or indices such as --gpus 0,1"}
		}
	}
	return nil
}
