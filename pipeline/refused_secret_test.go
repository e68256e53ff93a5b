package pipeline

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/audit"
	"github.com/sandboxmcp/sandboxmcp/backends/kernel"
	"github.com/sandboxmcp/sandboxmcp/vault"
)

// TestRefusalsAreRedacted mixes up fields: a request has the value of a secret, which it asks for, where
// it does not belong. Most are refused before anything is lent, with what was wrong quoted.
func TestRefusalsAreRedacted(t *testing.T) {
	for _, value := range []string{"Zq7v-" + strings.Repeat("Xw", 12), "Zq7v" + strings.Repeat("Xw3", 40)} {
		for name, change := range map[string]func(q *Request){
			"name":         func(q *Request) { q.Name = value + ".py" },
			"extension":    func(q *Request) { q.Name, q.Language = "x."+value, "" },
			"language":     func(q *Request) { q.Language = value },
			"backend":      func(q *Request) { q.Backend = value },
			"profile":      func(q *Request) { q.Profile = value },
			"layer":        func(q *Request) { q.Require = []string{value} },
			"session":      func(q *Request) { q.Session = value },
			"secret":       func(q *Request) { q.Secrets = append(q.Secrets, value) },
			"variable":     func(q *Request) { q.Env = []string{value + "=1"} },
			"domain":       func(q *Request) { q.Allow = []string{value} },
			"part":         func(q *Request) { q.Allow = []string{value + ".example.com"} },
			"input":        func(q *Request) { q.Inputs = []Input{{Host: "/no/such/" + value}} },
			"code":         func(q *Request) { q.Code = []byte("def " + value + "(:") },
			"not a secret": func(q *Request) { q.Secrets = []string{"NONE", "KEY"}; q.Profile = value },
		} {
			t.Run(fmt.Sprintf("%s, %d bytes", name, len(value)), func(t *testing.T) {
				r := newRig(t, nil)
				r.memory.Set("default", "KEY", []byte(value))
				q := Request{Language: "python", Code: []byte("1"), Secrets: []string{"KEY"}}
				change(&q)
				res, err := r.Do(t.Context(), q)
				told, _ := json.Marshal(res)
				text := fmt.Sprintf("%s %+v %v", told, res, err)
				for row, err := range r.log.Rows(t.Context(), audit.Filter{}) {
					if err != nil {
						t.Fatal(err)
					}
					text += string(row.Data)
				}
				if i := strings.Index(text, value[:12]); i >= 0 {
					t.Errorf("the secret is in %s", text[max(0, i-100):i+12])
				}
				if _, err := r.Do(t.Context(), Request{Language: "shell", Code: []byte("echo $KEY"), Secrets: []string{"KEY"}}); err != nil {
					t.Errorf("afterwards: %v", err)
				}
			})
		}
	}
}

// TestTypeIsCut has the name of an error's type, which drivers cut, end in the middle of a secret.
func TestTypeIsCut(t *testing.T) {
	memory := vault.NewMemory()
	secret := "Zq7v" + strings.Repeat("Xw3", 40)
	memory.Set("default", "KEY", []byte(secret))
	lease, err := vault.New(memory).Lease(t.Context(), "default", []string{"KEY"})
	if err != nil {
		t.Fatal(err)
	}
	defer lease.Close()
	r := &run{veil: veil{vault.Leases{lease}, &unknown{}}}
	r.res.Error = &kernel.Error{Type: (strings.Repeat("e", 150) + secret)[:200]}
	if r.scrub(); strings.Contains(r.res.Error.Type, "Zq7v") || !strings.HasPrefix(r.res.Error.Type, "eee") {
		t.Errorf("got %q", r.res.Error.Type)
	}
}
