package web

import (
	"strings"
	"testing"
)

func TestOneLine(t *testing.T) {
	for _, n := range []int{0, 200, 201, 450, 100_000} {
		if got := oneLine(strings.Repeat("x\n", n)); strings.Contains(got, "\n") || len(got) > 203 {
			t.Errorf("%d lines: got %d bytes, %q", n, len(got), got[:min(len(got), 300)])
		}
	}
}
