package backends

import (
	"errors"
	"fmt"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/pipeline/remedy"
)

func TestNotTried(t *testing.T) {
	for _, err := range []error{errors.New("it broke"),
		fmt.Errorf("start: %w", &Refusal{Layer: LayerNet, Reason: "why", Remedy: remedy.Text{"do"}})} {
		list := UntriedLayers(err)
		if len(list) != len(ContainmentLayers)+2 {
			t.Errorf("%v: got %d layers", err, len(list))
		}
		for _, l := range list {
			want := "not tried"
			if l.Name == LayerNet && err.Error() != "it broke" {
				want = "why"
			}
			if l.InForce || l.Detail != want || (l.Remedy.String() == "do") != (want == "why") {
				t.Errorf("%v: got %+v", err, l)
			}
		}
	}
}
