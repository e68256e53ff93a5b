package ask

import (
	"fmt"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/sandboxmcp/sandboxmcp/mcp/answer"
	"github.com/sandboxmcp/sandboxmcp/pipeline/approval"
)

// decided is a button of a dialog. Clients show the label, or the value where they know no labels.
type decided struct{ value, label, scope string }

const deny = "deny"

// decisions returns the possible answers to q: no, or yes to the whole question or to less.
func decisions(q approval.Question) []decided {
	all := []decided{{deny, "Deny", ""}}
	if q.Run != "" {
		all = append(all, decided{"allow_run", "Allow for this run", approval.ScopeRun})
	}
	if q.Session != "" {
		all = append(all, decided{"allow_session", "Allow for this session", approval.ScopeSession})
	}
	return append(all, decided{"allow_time", fmt.Sprintf("Allow for %s in namespace %s", answer.Duration(q.For), q.Namespace), approval.ScopeTime})
}

// decision reads the answer of a client's user to q; false means that there is none.
func decision(q approval.Question, response *mcp.ElicitationResult) (approval.Answer, bool) {
	a := approval.Answer{By: approval.Elicitation()}
	content, _ := response.Content.(map[string]any)
	switch {
	case response.Action == mcp.ElicitationResponseActionDecline, content["decision"] == deny:
		a.Reason = "the user said no"
		return a, true
	case response.Action != mcp.ElicitationResponseActionAccept:
		return a, false
	}
	for _, d := range decisions(q)[1:] {
		if content["decision"] == d.value {
			a.Allowed, a.Scope = true, d.scope
			return a, true
		}
	}
	return a, false
}

// dialog returns the text and the choices of a question for the client's user.
func dialog(q approval.Question) mcp.ElicitationParams {
	var values, labels []string
	for _, d := range decisions(q) {
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
