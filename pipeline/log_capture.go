package pipeline

import (
	"encoding/json"
)

// Capture selects what the log holds of a run beside hashes, free of secrets, and cut.
type Capture struct{ Code, Output bool }

// executionCaptured is a kind of row. Listeners are not told: there is a row for who may see the text, not a crowd.
const executionCaptured = "execution.captured"

// maxCaptured is how much of a text a row holds, in bytes: JSON may need six bytes for one, and a row has
// room for 1 MiB.
const maxCaptured = 64 << 10

// captured is text that may be as long as maxCaptured.
type captured string

// captureOutput notes what a run has printed, and what a session's code has shown. It was redacted on its way.
func (r *run) captureOutput() {
	if !r.p.cfg.Capture.Output {
		return
	}
	if text := r.res.displaysJSON(); text != nil {
		r.note(executionCaptured, facts{"value": captured(text), "value_bytes": len(text)})
	}
	r.note(executionCaptured, facts{
		"stdout": captured(r.res.Stdout), "stdout_bytes": int64(len(r.res.Stdout)) + r.res.StdoutCut,
		"stderr": captured(r.res.Stderr), "stderr_bytes": int64(len(r.res.Stderr)) + r.res.StderrCut,
	})
}

// displaysJSON returns value, displays and error as JSON, nil without any.
func (r Outcome) displaysJSON() []byte {
	if r.Value == nil && r.Displays == nil && r.Error == nil {
		return nil
	}
	text, err := json.Marshal(map[string]any{"value": r.Value, "displays": r.Displays, "error": r.Error})
	if err != nil {
		return nil // all of it is text
	}
	return text
}
