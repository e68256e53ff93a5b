package answer

import (
	"testing"
	"time"

	"github.com/sandboxmcp/sandboxmcp/pipeline/approval"
)

// What a person types is one word to a shell, and not offered where it can't be typed, or gives more than is asked for.
func TestCommands(t *testing.T) {
	for _, test := range []struct {
		q    approval.Question
		want string
	}{
		{approval.Question{Kind: approval.Egress, What: "a.example.com", Namespace: "own"}, "sandboxmcp egress a.example.com --for 1h"},
		{approval.Question{Kind: approval.Host, What: "run git log '*'", Namespace: "own"}, `sandboxmcp host access allow 'git log '\''*'\''' --for 1h`},
		{approval.Question{Kind: approval.Host, What: "read /srv", Namespace: "n"}, "sandboxmcp host access allow /srv --kind read --for 1h --namespace n"},
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
