package main

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// Which package is initialised when is the linker's choice, by their imports and names. Nothing depends on it but how
// long a run takes: what cli/ahead begins has as much time as passes between its turn and main.
func TestInitialised(t *testing.T) {
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), "GODEBUG=inittrace=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var order []string
	for l := range strings.Lines(string(out)) {
		if words := strings.Fields(l); len(words) > 1 && words[0] == "init" {
			order = append(order, words[1])
			for _, heavy := range []string{"google.golang.org/grpc"} { // was in the program once, where little of it was used
				if strings.HasPrefix(words[1], heavy) {
					t.Errorf("the program has %s again: go mod why -m says by whom", words[1])
				}
			}
		}
	}
	const ahead = "github.com/sandboxmcp/sandboxmcp/cli/ahead"
	at := slices.Index(order, ahead)
	for _, slow := range []string{"github.com/santhosh-tekuri/jsonschema/v6", "modernc.org/sqlite", "net/http"} {
		if i := slices.Index(order, slow); at < 0 || i < at {
			t.Errorf("%s comes %dth, want it after %s, which comes %dth: see what that has come to import", slow, i, ahead, at)
		}
	}
}
