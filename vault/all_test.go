package vault

import (
	"strings"
	"testing"
)

// TestAll redacts secrets that no run has leased, of this namespace and from every store.
func TestAll(t *testing.T) {
	values := map[string]string{}
	for _, name := range []string{"env", "memory", "sealed", "other", "dashed"} {
		values[name] = strings.Repeat(name+"-value-", 3)
	}
	t.Setenv("SANDBOXMCP_SECRET_TEAM_IN_ENV", values["env"])
	t.Setenv("SANDBOXMCP_SECRET_TEAM_EMPTY", "")
	t.Setenv("SANDBOXMCP_SECRET_TEAM_A__IN_ENV", values["dashed"]) // in team-a
	memory, sealed := NewMemory(), NewSealed(t.TempDir(), nil)
	for _, err := range []error{
		memory.Set("team", "IN_MEMORY", []byte(values["memory"])),
		memory.Set("other", "IN_MEMORY", []byte(values["other"])),
		sealed.Add(t.Context(), Entry{Namespace: "team", Key: "SEALED"}, []byte(values["sealed"]), false),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	lease, err := New(Environment(), sealed, memory).LeaseAll(t.Context(), "team")
	if err != nil {
		t.Fatal(err)
	}
	defer lease.Close()
	for name, value := range values {
		leaked := strings.Contains(Leases{lease}.Redact("it is "+value), value)
		if want := name == "other" || name == "dashed"; leaked != want {
			t.Errorf("the value in %s is shown: %v, want %v", name, leaked, want)
		}
	}
}

// TestAllOfNothing checks a vault without secrets.
func TestAllOfNothing(t *testing.T) {
	for name, v := range map[string]*Vault{"nil": nil, "empty": New(), "stores": New(Environment(), NewSealed(t.TempDir(), nil),
		NewMemory())} {
		lease, err := v.LeaseAll(t.Context(), "default")
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		lease.Close()
	}
}
