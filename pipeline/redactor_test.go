package pipeline

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/vault"
)

// TestCutByDriver: each way in which a driver cuts, wherever in the secret that is.
func TestCutByDriver(t *testing.T) {
	const secret = "hunter2-hunter2-hunter2"
	memory := vault.NewMemory()
	memory.Set("default", "TOKEN", []byte(secret))
	lease, err := vault.New(memory).Lease(t.Context(), "default", []string{"TOKEN"})
	if err != nil {
		t.Fatal(err)
	}
	r := &Run{Redactor: Redactor{Leases: vault.Leases{lease}, Tokens: &TokenFinder{}}}
	for at := range len(secret) {
		head, tail := "value: "+secret[:at], secret[at:]+" in line 7\nEnd: of it\n"
		for _, text := range []string{
			head + "\n[cut: 262200 bytes in all]",
			head + "\n[23 of 262200 characters are left out]",
			head + "\n[23 more bytes are left out]",
			head + "\n[4711 characters are left out]\n" + tail,
			head + "\n[4711 characters are left out]\n" + secret[at:],
		} {
			got := r.CleanCut(text)
			if strings.Contains(got, "hunter") || strings.Contains(got, "ter2") {
				t.Errorf("%q became %q", text, got)
			}
			if !strings.Contains(got, "value: ") || !strings.Contains(got, "left out]") && !strings.Contains(got, "in all]") {
				t.Errorf("%q became %q, which says too little", text, got)
			}
			if strings.Contains(text, "End") && !strings.Contains(got, "\nEnd: of it\n") {
				t.Errorf("%q became %q, without its end", text, got)
			}
		}
	}
	whole := fmt.Sprintf("[12 bytes are left out] is what it says, and %s no more", secret)
	if got := r.CleanCut(whole); got != strings.ReplaceAll(whole, secret, vault.Mark) {
		t.Errorf("got %q", got)
	}
}
