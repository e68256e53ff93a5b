package run

import (
	"io"
	"path/filepath"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/validate"
)

// swallow is a sandbox whose workspace discards the files put into it.
type swallow struct{ backends.Sandbox }

func (swallow) Files() backends.Files { return swallowed{} }

type swallowed struct{ backends.Files }

func (swallowed) Put(_ string, _ uint32, r io.Reader) error {
	var b [64]byte
	for {
		if _, err := r.Read(b[:]); err != nil {
			return nil
		}
	}
}

// A run that copies nothing of the host's does not pay for looking where our own files lie.
func TestPlaceSearchesForNothing(t *testing.T) {
	var own []string
	for range 10 {
		own = append(own, filepath.Join(t.TempDir(), "state"))
	}
	r := &pipeline.Run{Pipeline: pipeline.New(pipeline.Config{Protected: own})}
	e := &execution{Run: r, sandbox: swallow{}, plan: plan{program: validate.Checked{Name: "script.sh", Source: []byte("true")}}}
	e.limits.Disk = 1 << 20
	few := testing.AllocsPerRun(10, func() {
		if _, err := e.writeInputs(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
	if few > 40 {
		t.Errorf("to place a script takes %v allocations", few)
	}
}
