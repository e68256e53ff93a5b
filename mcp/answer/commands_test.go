package answer

import (
	"testing"
	"time"

	"github.com/sandboxmcp/sandboxmcp/pipeline/approval"
)

// TestCommands: the offered command is a single shell word, and is left out if it can't be typed or would grant more
// than the question.
func TestCommands(t *testing.T) {
	for _, test := range []struct {
		q    approval.Question
		want string
	}{
		{approval.Question{Kind: approval.Egress, What: "a.example.com", Namespace: "own"}, "sandboxmcp egress a.example.com --for 1h"},
		{approval.Question{Kind: approval.Host, What: "run git log '*'", Namespace: "own"},
			`sandboxmcp host access allow 'git log '\''*'\''' --for 1h`},
		{approval.Question{Kind: approval.Host, What: "read /srv", Namespace: "n"},
			"sandboxmcp host access allow /srv --kind read --for 1h --namespace n"},
		{approval.Question{Kind: approval.Host, What: "run a\x1b[2J", Namespace: "n"}, "sandboxmcp approve I"},
		{approval.Question{Kind: approval.Egress, What: "a.example.com", Namespace: "n", Session: "s"}, "sandboxmcp egress approve I"},
		{approval.Question{Kind: approval.Package, What: "python: a", Namespace: "n"}, "sandboxmcp approve I"},
	} {
		test.q.ID, test.q.For = "I", time.Hour
		if all := Commands(test.q, "own"); all[len(all)-1] != test.want {
			t.Errorf("%+v: got %q", test.q, all)
		}
	}
}
