package container

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/sandboxmcp/sandboxmcp/backends"
)

var gpuIndex = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^(0|[1-9][0-9]?)$`) })

// CheckGPUs refuses what is neither indices nor "all": it becomes part of device names. All errors are a
// *backends.Refusal.
func CheckGPUs(gpus []string) error {
	if len(gpus) == 1 && gpus[0] == "all" {
		return nil
	}
	const remedy = "use --gpus all, --gpus none, or indices such as --gpus 0,1"
	for i, gpu := range gpus {
		if !gpuIndex().MatchString(gpu) {
			return &backends.Refusal{Reason: fmt.Sprintf("%.100q names no graphics processors", strings.Join(gpus, ",")), Remedy: remedy}
		}
		if slices.Contains(gpus[:i], gpu) {
			return &backends.Refusal{Reason: fmt.Sprintf("graphics processor %s is listed twice", gpu), Remedy: remedy}
		}
	}
	return nil
}
