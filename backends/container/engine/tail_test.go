package engine

import (
	"fmt"
	"strings"
	"testing"
)

func TestTail(t *testing.T) {
	var tail Tail
	if got := tail.String(); got != "" {
		t.Errorf("of nothing: got %q", got)
	}
	for i := range 1000 {
		if n, err := fmt.Fprintf(&tail, "line %d\n", i); n < 7 || err != nil {
			t.Fatal(n, err)
		}
	}
	fmt.Fprint(&tail, "it \x1b[31mbr", "oke\r\n")
	if want := "line 997; line 998; line 999; it [31mbroke"; tail.String() != want {
		t.Errorf("got %q, want %q", tail.String(), want)
	}
	fmt.Fprint(&tail, strings.Repeat("a", 1<<20)+"end")
	if got := tail.String(); len(got) > Longest || len(tail.last) != tailSize || strings.Contains(got, "line") {
		t.Errorf("after much: %d bytes are kept, and %q is shown", len(tail.last), got)
	}
}
