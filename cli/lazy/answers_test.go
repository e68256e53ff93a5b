package lazy

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"
)

// TestAnswers checks that answers expire, and that their number is bounded.
func TestAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var a Answers[int]
		if got, ok := a.Get("a", time.Minute); ok {
			t.Errorf("got %d of nothing", got)
		}
		a.Put("a", 1)
		time.Sleep(30 * time.Second)
		if got, ok := a.Get("a", time.Minute); !ok || got != 1 {
			t.Errorf("got %d %v", got, ok)
		}
		time.Sleep(30 * time.Second)
		if got, ok := a.Get("a", time.Minute); ok {
			t.Errorf("after a minute: got %d", got)
		}
		for i := range 10 * maxAnswers {
			a.Put(strconv.Itoa(i), i)
		}
		if got, ok := a.Get(strconv.Itoa(10*maxAnswers-1), time.Minute); !ok || got != 10*maxAnswers-1 || len(a.all) > maxAnswers {
			t.Errorf("got %d %v, of %d", got, ok, len(a.all))
		}
	})
}
