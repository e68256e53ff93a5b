package process

import (
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/process/launch"
)

// TestEndBeforeStatus kills a program's process before its status: the start fails at once, and gives up the
// templates that it came from.
func TestEndBeforeStatus(t *testing.T) {
	b := newBackend(t, Config{})
	one, err := b.Start(t.Context(), backends.Spec{ID: "ended", Language: "shell"})
	if err != nil {
		t.Fatal(err)
	}
	s := one.(*Sandbox)
	defer s.Close()
	pipes, err := s.newPipes()
	if err != nil {
		t.Fatal(err)
	}
	defer pipes.close()
	p := newPlan(4)
	p.do("exit", unix.SYS_EXIT_GROUP, val(7))
	_, err = s.startProcess(t.Context(), p, pipes, launch.ForProgram)
	pipes.closeProgramEnds()
	if err == nil || !strings.Contains(err.Error(), "ended before it became the program: exit 7") {
		t.Errorf("got %v", err)
	}
	if from := s.Init.template; from == nil || from.Good() {
		t.Errorf("the template %v is kept", from)
	}
	after, err := b.Start(t.Context(), backends.Spec{ID: "after", Language: "shell"})
	if err != nil {
		t.Fatal(err)
	}
	defer after.Close()
	if from := after.(*Sandbox).Init.template; from == nil || !from.Good() || from == s.Init.template {
		t.Errorf("the next one is of the template %v", from)
	}
}
