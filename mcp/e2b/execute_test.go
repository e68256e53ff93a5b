package e2b

import (
	"encoding/json"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandboxmcp/sandboxmcp/pipeline/door"
)

// TestStream: a line written in pieces is sent as a whole, an unfinished one is sent after a moment, and no character
// is split.
func TestStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := httptest.NewRecorder()
		out := door.BeginStream(w, "application/x-ndjson", "", 0, nil)
		defer out.Close()
		s := &stream{to: out, kind: "stdout"}
		for _, step := range []struct {
			write string
			wait  time.Duration
			want  []string // sent texts
		}{
			{"[1]", 0, nil}, {" \"a\"", 0, nil}, {"\nb\nc", 0, []string{"[1] \"a\"\nb\n"}},
			{"", lineTime, []string{"c"}},
			{"> \xe2\x82", lineTime, []string{"> "}}, {"\xac", lineTime, []string{"\u20ac"}},
			{"\xe2\x82", lineTime, nil},
		} {
			w.Body.Reset()
			s.Write([]byte(step.write))
			time.Sleep(step.wait)
			synctest.Wait()
			if got := texts(t, w.Body.String()); !slices.Equal(got, step.want) {
				t.Errorf("%q: sent %q, want %q", step.write, got, step.want)
			}
		}
		s.flush()
		if got := texts(t, w.Body.String()); len(got) != 1 {
			t.Errorf("at the end, sent %q", got)
		}
	})
}

// texts returns the texts of sent lines.
func texts(t *testing.T, sent string) (all []string) {
	t.Helper()
	for line := range strings.Lines(sent) {
		var l struct{ Text string }
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			t.Fatal(err)
		}
		all = append(all, l.Text)
	}
	return all
}
