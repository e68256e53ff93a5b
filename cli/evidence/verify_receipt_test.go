package evidence

import (
	"strings"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/signer"
)

// TestUnlisted checks that artifacts that a receipt only counts are counted.
func TestUnlisted(t *testing.T) {
	x := receiptFacts{Artifacts: make([]receiptFile, 2)}
	if got := x.countFiles() + "; " + x.listContacts(); got != "2 artifacts; none" {
		t.Errorf("got %s", got)
	}
	x.Egress = []signer.Contact{{Name: "a.example", Port: 443, Allowed: true}, {Name: "b.example"}}
	if got := x.listContacts(); got != "a.example:443 allowed, b.example denied" {
		t.Errorf("got %s", got)
	}
	x.EgressUnlisted, x.ArtifactsUnlisted, x.ArtifactsWithheld, x.WithheldUnlisted = 7, 3, []string{"leak"}, 4
	if got := x.listContacts(); !strings.HasSuffix(got, "b.example denied, and 7 more") {
		t.Errorf("got %s", got)
	}
	if got := x.countFiles(); got != "5 artifacts (2 named here, 3 more in SHA256SUMS), and 5 withheld" {
		t.Errorf("got %s", got)
	}
	x.Egress = make([]signer.Contact, 30)
	if got := x.listContacts(); !strings.HasSuffix(got, ", and 17 more") {
		t.Errorf("got %s", got)
	}
}
