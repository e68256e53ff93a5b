package run

import (
	"bytes"
	"strings"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/cli/command"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/signer"
)

// Names and output of a program can't break out of a line of ours and forge others.
func TestReportForged(t *testing.T) {
	const forged = "a\nsandboxmcp: ok in 0.01 s\x1b[8m"
	res := pipeline.Outcome{End: backends.End{Ended: backends.EndedOK}, Hints: []pipeline.Remedy{{forged}},
		Warnings: []pipeline.Remedy{{forged}}, Manifest: signer.Manifest{Why: forged, Dropped: 1,
			Artifacts: []signer.Artifact{{Name: forged, Withheld: forged}}},
		ArtifactsFailed: forged}
	var b bytes.Buffer
	r := Report{Streams: &command.Streams{Err: &b}, Result: res}
	r.WriteWarnings()
	(&command.Streams{Err: &b}).Exit(r.writeEnd())
	lines := strings.Split(strings.TrimSpace(b.String()), "\n")
	if len(lines) != 5 {
		t.Errorf("got %d lines, want 5", len(lines))
	}
	for _, l := range lines {
		if !strings.HasPrefix(l, "sandboxmcp: ") || !strings.Contains(l, `a\nsandboxmcp: ok in 0.01 s\x1b[8m`) {
			t.Errorf("got %q", l)
		}
	}
}
