package answer

import (
	"testing"

	"github.com/sandboxmcp/sandboxmcp/pipeline"
)

// TestPlainBusy: an operation without the protocol that finds the server busy gets a Retry-After.
func TestPlainBusy(t *testing.T) {
	for stage, want := range map[string]int{pipeline.StageQueue: 503, pipeline.StageAudit: 503, pipeline.StageVault: 422} {
		a := Failure("execute_code", &pipeline.Error{Stage: stage, Reason: "it is so", Denied: true})
		if status, _ := a.Facts.(*Common).HTTPFault(); status != want {
			t.Errorf("%s: got %d, want %d", stage, status, want)
		}
	}
}
