package kernel

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends"
)

// TestStartFails starts interpreters that fail at once.
func TestStartFails(t *testing.T) {
	for _, c := range []struct{ name, language, program, want string }{
		{"no such language", "cobol", "", `no kernel for language "cobol"`},
		{"no such program", "python", "/nowhere/python", "no such file"},
		{"another program", "python", "/bin/false", "ended (exit, exit code 1)"},
		{"silent program", "python", "/bin/cat", "context deadline exceeded"},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			program := c.program
			if c.name == "silent program" {
				ctx, cancel = context.WithTimeout(ctx, 200*time.Millisecond)
				defer cancel()
				program, _ = filepath.Abs("testdata/silent")
			}
			_, err := Start(ctx, newBare(t, map[string]string{"python": program}), c.language, backends.Command{Main: true})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q in it", err, c.want)
			}
		})
	}
}

// rogue is a sandbox whose interpreter sends the test's frames.
type rogue struct {
	bare
	say func(c io.Writer)
}

func (r *rogue) Exec(ctx context.Context, _ backends.Command, streams backends.Streams) (backends.Result, error) {
	ours, theirs := io.Pipe()
	streams.Channel(struct {
		io.Reader
		io.Writer
		io.Closer
	}{ours, io.Discard, ours})
	streams.Begun(backends.Containment{})
	go r.say(theirs)
	<-ctx.Done()
	return backends.Result{End: backends.End{Ended: backends.EndedCancelled}}, nil
}

// TestRogue checks that drivers taken over by a program are killed, and nothing else happens.
func TestRogue(t *testing.T) {
	frame := func(text string) []byte {
		return append([]byte{0, 0, 0, byte(len(text))}, text...)
	}
	for name, output := range map[string][]byte{
		"a frame too large": {0xff, 0xff, 0xff, 0xff},
		"half a frame":      {0, 0, 1, 0, '{'},
		"no JSON":           frame("hello"),
		"wrong types":       frame(`{"op":"done","id":"x"}`),
	} {
		t.Run(name, func(t *testing.T) {
			k, err := Start(t.Context(), &rogue{say: func(c io.Writer) {
				c.Write(frame(`{"op":"ready"}`))
				c.Write(output)
				c.(io.Closer).Close()
			}}, "python", backends.Command{Main: true})
			if err != nil {
				t.Fatal(err)
			}
			<-k.Done()
			if _, err := k.Death(); err == nil || !strings.HasPrefix(err.Error(), "protocol: ") {
				t.Errorf("got %v", err)
			}
		})
	}
	t.Run("answers that nobody asked for", func(t *testing.T) {
		k, err := Start(t.Context(), &rogue{say: func(c io.Writer) {
			c.Write(frame(`{"op":"ready"}`))
			for id := range 3 {
				c.Write(frame(fmt.Sprintf(`{"op":"done","id":%d,"value":{"text/plain":"%d"}}`, id, id)))
			}
		}}, "python", backends.Command{Main: true})
		if err != nil {
			t.Fatal(err)
		}
		defer k.Close()
		out, err := k.Run(t.Context(), Cell{Code: "1", Timeout: time.Hour})
		if err != nil || out.Value["text/plain"] != "1" {
			t.Errorf("got %+v %v", out, err)
		}
	})
}
