package leakcheck

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
)

// TestSearch leaks secrets without a sandbox: the search must find all.
func TestSearch(t *testing.T) {
	python := hosttest.Program(t, "python3")
	all := newMint(t).secrets(60)
	s := newSearch(all)
	file, err := filepath.Abs("testdata/hostile.py")
	if err != nil {
		t.Fatal(err)
	}
	names, _ := encodings(t)
	for _, name := range names {
		cmd := exec.Command(python, file)
		cmd.Dir = t.TempDir()
		cmd.Env = []string{"ENCODING=" + name, "PATH=" + os.Getenv("PATH"), "LANG=C.UTF-8"}
		for key, secret := range all {
			cmd.Env = append(cmd.Env, key+"="+secret.value)
		}
		out, _ := cmd.Output() // it ends with an exception
		found := s.secretsIn(string(out))
		for key := range all {
			if found[key] == "" {
				t.Errorf("%s: %s (%s) is not found", name, key, all[key].format)
			}
		}
	}
	if found := s.secretsIn("nothing of value, " + strings.Repeat("0123456789abcdef", 100)); len(found) > 0 {
		t.Errorf("found what is not there: %v", found)
	}
}
