package container

import (
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends"
)

func TestLanguageFor(t *testing.T) {
	for program, want := range map[string]string{"python3": "python", "/usr/bin/pytest": "python", "npm": "node", "R": "r", "make": "shell",
		"": "shell"} {
		if got := languageFor(&backends.Command{Args: []string{program}}); got != want {
			t.Errorf("%q gets the image of %s, want %s", program, got, want)
		}
	}
	if got := languageFor(nil); got != "shell" {
		t.Errorf("a command that nobody knows yet gets the image of %s", got)
	}
}
