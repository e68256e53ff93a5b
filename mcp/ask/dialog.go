package ask

import (
	"fmt"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/sandboxmcp/sandboxmcp/mcp/answer"
	"github.com/sandboxmcp/sandboxmcp/pipeline/approval"
)

// choice is a choice in a dialog. Clients display the label, or the value if they do not support labels.
type choice struct{ value, label, scope string }

const deny = "deny"

// choices returns the possible answers to q: no, or yes to the whole question or to less.
func choices(q approval.Question) []choice {
	all := []choice{{deny, "Deny", ""}}
	if q.Run != "" {
		all = append(all, choice{"allow_run", "Allow for this run", approval.ScopeRun})
	}
	if q.Session != "" {
		all = append(all, choice{"allow_session", "Allow for this session", approval.ScopeSession})
	}
	return append(all, choice{"allow_time", fmt.Sprintf("Allow for %s in namespace %s", answer.Duration(q.For), q.Namespace),
		approval.ScopeTime})
}

// readChoice returns the user's answer to q; false means no answer.
func readChoice(q approval.Question, response *mcp.ElicitationResult) (approval.Answer, bool) {
	a := approval.Answer{By: approval.Elicitation()}
	content, _ := response.Content.(map[string]any)
	switch {
	case response.Action == mcp.ElicitationResponseActionDecline, content["decision"] == deny:
		a.Reason = "the user denied it"
		return a, true
	case response.Action != mcp.ElicitationResponseActionAccept:
		return a, false
	}
	for _, d := range choices(q)[1:] {
		if content["decision"] == d.value {
			a.Allowed, a.Scope = true, d.scope
			return a, true
		}
	}
	return a, false
}

// dialog returns the text and the choices for the client's user.
func dialog(q approval.Question) mcp.ElicitationParams {
	var values, labels []string
	for _, d := range choices(q) {
		values, labels = append(values, d.value), append(labels, d.label)
	}
	return mcp.ElicitationParams{
		Mode:    mcp.ElicitationModeForm,
		Message: dialogText(q),
		RequestedSchema: map[string]any{
			"type": "object", "required": []string{"decision"},
			"properties": map[string]any{"decision": map[string]any{
				"type": "string", "title": "Decision", "description": phrasesOf(q.Kind).choice, "enum": values, "enumNames": labels,
			}},
		},
	}
}
