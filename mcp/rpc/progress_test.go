package rpc

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestKeepAlive: a silent call sends progress, so that the client does not give up.
func TestKeepAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		response := make(chan string, 100)
		p := newProgress(time.Minute, func(_ float64, message string) { response <- message })
		contain := func(want string) {
			if got := <-response; !strings.Contains(got, want) {
				t.Errorf("got %q, want %q in it", got, want)
			}
		}
		for i := range 3 {
			contain(fmt.Sprintf("running for %d s", 60*(i+1)))
		}
		release := p.ReportWaiting("waiting")
		for range 3 { // at once, then at the same interval
			contain("waiting")
		}
		release()
		contain("running for ")
		p.Report("last words")
		p.stop()
		var last string
		for len(response) > 0 {
			last = <-response
		}
		if last != "last words" {
			t.Errorf("the last is %q", last)
		}
	})
}

func TestLineWriter(t *testing.T) {
	for _, test := range []struct{ writes, want string }{
		{"a\n", "a"}, {"a\nb\n", "b"}, {"a\n|b", "b"}, {"a|b|c\n", "abc"}, {"10%\r|20%\r", "20%"}, {"x\n\n\n", "x"}, {"a\n|\n", "a"},
		{strings.Repeat("x", 100000), strings.Repeat("x", 4*maxProgress)},
	} {
		p := &progress{news: make(chan struct{}, 1)}
		w := p.Lines()
		for _, part := range strings.Split(test.writes, "|") {
			w.Write([]byte(part))
		}
		if p.line != test.want {
			t.Errorf("%.40q: got %.40q", test.writes, p.line)
		}
	}
}
