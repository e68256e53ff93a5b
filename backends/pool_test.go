package backends

import (
	"fmt"
	"strings"
	"testing"
)

// TestMiss gives a pool more reasons than it remembers.
func TestMiss(t *testing.T) {
	var p Pool
	p.Miss(strings.Repeat("x", longestReason+1))
	for i := range 10 * mostReasons {
		p.Miss(fmt.Sprintf("PYTHON_%d is set", i))
		p.Miss("PYTHON_0 is set")
	}
	if len(p.Cold) > mostReasons+1 {
		t.Errorf("%d reasons are remembered, want %d at most", len(p.Cold), mostReasons+1)
	}
	if got, want := p.Cold["PYTHON_0 is set"], int64(10*mostReasons+1); got != want {
		t.Errorf("the first reason was counted %d times, want %d", got, want)
	}
	sum := int64(0)
	for _, n := range p.Cold {
		sum += n
	}
	if sum != p.Misses || p.Misses != 20*mostReasons+1 {
		t.Errorf("%d misses have %d reasons, want %d of both", p.Misses, sum, 20*mostReasons+1)
	}
}
