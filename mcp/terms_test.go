package mcp

import (
	"errors"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/pipeline"
)

// What somebody wrote is quoted as it stands; what to do about it is in a tool's own parameters.
func TestReasonIsNotTranslated(t *testing.T) {
	r := explain(&pipeline.Error{Stage: pipeline.StageValidate, Reason: `"frob --env A=1 --input data" is not allowed`, Remedy: "give one of --secret and --env"})
	if r.Reason != `"frob --env A=1 --input data" is not allowed` || r.Remedy != "give one of secrets and env" {
		t.Errorf("got %+v", r)
	}
}

func TestOverCapInTools(t *testing.T) {
	for _, tt := range []struct{ flag, tool, want string }{
		{"timeout", "execute_code", "ask for at most timeout 30, or have a person raise caps.x in the configuration"},
		{"timeout", "create_session", "ask for at most resource_limits.timeout_seconds 30, or have a person raise caps.x in the configuration"},
		{"timeout", "set_resource_limits", "ask for at most timeout_seconds 30, or have a person raise caps.x in the configuration"},
		{"ram", "execute_code", "ask for at most resource_limits.max_ram_mb 30, or have a person raise caps.x in the configuration"},
		{"ram", "create_session", "ask for at most resource_limits.max_ram_mb 30, or have a person raise caps.x in the configuration"},
		{"ram", "set_resource_limits", "ask for at most max_ram_mb 30, or have a person raise caps.x in the configuration"},
		{"disk", "set_resource_limits", "ask for at most limits.disk_mb in the operator's configuration 30, or have a person raise caps.x in the configuration"},
	} {
		err := &pipeline.Error{Reason: "too much", Remedy: "for the command line", Over: &pipeline.OverCap{Limit: tt.flag, Cap: "30", Setting: "caps.x"}}
		if got := explain(inParameters(err, tt.tool)).Remedy; got != tt.want {
			t.Errorf("%s of %s: got %q, want %q", tt.flag, tt.tool, got, tt.want)
		}
	}
	if other := errors.New("another"); inParameters(other, "execute_code") != other {
		t.Error("another error was changed")
	}
}
