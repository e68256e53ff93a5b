package backends

import (
	"fmt"
	"strings"
	"testing"
)

// TestMiss gives a pool more reasons than it records.
func TestMiss(t *testing.T) {
	var p Pool
	p.Miss(strings.Repeat("x", maxReasonBytes+1))
	for i := range 10 * maxReasons {
		p.Miss(fmt.Sprintf("PYTHON_%d is set", i))
		p.Miss("PYTHON_0 is set")
	}
	if len(p.Cold) > maxReasons+1 {
		t.Errorf("%d reasons are remembered, want %d at most", len(p.Cold), maxReasons+1)
	}
	if got, want := p.Cold["PYTHON_0 is set"], int64(10*maxReasons+1); got != want {
		t.Errorf("the first reason was counted %d times, want %d", got, want)
	}
	sum := int64(0)
	for _, n := range p.Cold {
		sum += n
	}
	if sum != p.Misses || p.Misses != 20*maxReasons+1 {
		t.Errorf("%d misses have %d reasons, want %d of both", p.Misses, sum, 20*maxReasons+1)
	}
}

// TestPoolCounters counts more kinds of programs than it distinguishes, and the idle sandboxes of a late kind.
func TestPoolCounters(t *testing.T) {
	var counters PoolCounters
	for i := range 2 * MaxKinds {
		counters.ForKind("python", int64(i)).Hits++
	}
	pools := counters.Pools([]Pool{{Language: "python", RAM: 1, Ready: 2, Memory: 3}, {Language: "node", RAM: 4, Ready: 5}})
	if len(pools) != MaxKinds+1 {
		t.Fatalf("%d kinds, want %d and the others", len(pools), MaxKinds)
	}
	if got := pools[0]; got.Language != "others" || got.Hits != MaxKinds || got.Ready != 5 {
		t.Errorf("others: got %+v", got)
	}
	if got := pools[2]; got.RAM != 1 || got.Hits != 1 || got.Ready != 2 || got.Memory != 3 {
		t.Errorf("with 1 byte: got %+v", got)
	}
}
