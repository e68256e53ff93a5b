package e2b

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// slow is a client that does not read.
type slow struct {
	*httptest.ResponseRecorder
	reads chan struct{}
}

func (s *slow) Write(b []byte) (int, error) {
	<-s.reads
	return s.ResponseRecorder.Write(b)
}

// TestQueue: who shows something waits for no client, and the client gets all of it in its order.
func TestQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &slow{httptest.NewRecorder(), make(chan struct{})}
		q := newQueue(&lines{w: w, rc: http.NewResponseController(w)})
		for n := range 100 {
			q.add(map[string]int{"n": n}) // would block for good
		}
		synctest.Wait()
		close(w.reads)
		q.close()
		if got := strings.Count(w.Body.String(), "\n"); got != 100 || !strings.HasSuffix(w.Body.String(), "{\"n\":99}\n") {
			t.Errorf("got %d lines: %.100s", got, w.Body)
		}
	})
}

// TestStream: a line that is written in pieces is sent whole, one without an end is sent after a moment, and no character is cut.
func TestStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := httptest.NewRecorder()
		s := &stream{to: &lines{w: w, rc: http.NewResponseController(w)}, kind: "stdout"}
		for _, step := range []struct {
			write string
			wait  time.Duration
			want  []string // texts sent
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

// texts returns the texts of lines that were sent.
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
