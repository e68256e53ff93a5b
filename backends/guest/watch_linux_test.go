package guest

import (
	"context"
	"io"
	"net"
	"net/http"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends/duplex"
)

// TestUnaskedAnswers: an agent under a program's control that sends unrequested answers does not crash the server.
func TestUnaskedAnswers(t *testing.T) {
	ours, theirs := net.Pipe()
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, "{}\n{}\n{\"name\":\"last\"}\n")
	})}
	go duplex.Serve(s, duplex.New(theirs))
	defer s.Close()
	c := &Client{}
	if err := c.connect(t.Context(), ours); err != nil {
		t.Fatal(err)
	}
	last := ""
	err := c.Watch(t.Context(), Watch{Path: "/"}, func(func(context.Context) error) error { return nil },
		func(e Event) error { last = e.Name; return nil })
	if err != nil || last != "last" {
		t.Errorf("the last event is of %q, %v", last, err)
	}
}
