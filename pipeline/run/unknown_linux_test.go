package run_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/audit"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/pipelinetest"
	"github.com/sandboxmcp/sandboxmcp/pipeline/session"
)

// TestUnknownTokensInSessions: displays of a session's code take other routes than its output.
func TestUnknownTokensInSessions(t *testing.T) {
	p, _, _ := pipelinetest.NewReal(t, func(c *pipeline.Config) { c.UnknownTokens = pipeline.UnknownMask })
	s := pipelinetest.Open(t, p, session.New{})
	token := "'" + stranger[:9] + "' + '" + stranger[9:] + "'"
	for _, code := range []string{"t = " + token, "t", "display({'text/html': t}, raw=True)", "raise ValueError(t)", "type(t, (), {})()",
		"print(t)"} {
		res := pipelinetest.Cell(t, p, s.ID, code, nil)
		reported, _ := json.Marshal(res)
		if strings.Contains(string(reported), stranger) {
			t.Errorf("%s: %s", code, reported)
		}
		if code != "t = "+token && !strings.Contains(fmt.Sprint(res.Warnings), "GitHub") {
			t.Errorf("%s: warnings %q", code, res.Warnings)
		}
	}
	state, err := session.Inspect(t.Context(), p, "", s.ID)
	if reported, _ := json.Marshal(state); err != nil || strings.Contains(string(reported), stranger) || len(state.Variables) == 0 {
		t.Errorf("%v: %s", err, reported)
	}
}

// TestCaptureInSessions: displays of code are captured like its output.
func TestCaptureInSessions(t *testing.T) {
	p, log, _ := pipelinetest.NewReal(t, func(c *pipeline.Config) { c.Capture.Output = true })
	s := pipelinetest.Open(t, p, session.New{})
	pipelinetest.Cell(t, p, s.ID, "'shown-4711'", nil)
	pipelinetest.Cell(t, p, s.ID, "x = 1", nil)
	rows := 0
	for row, err := range log.Rows(t.Context(), audit.Filter{Kinds: []string{pipeline.ExecutionCaptured}}) {
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(row.Data), "shown-4711") {
			rows++
		}
	}
	if rows != 1 {
		t.Errorf("%d rows have the value", rows)
	}
}
