package vault

import (
	"bytes"
	"strings"
	"sync"
	"testing"
)

// Values of all sizes, kept and released in any order by many at once, never share a byte, and what is
// released is wiped and given back.
func TestPages(t *testing.T) {
	p := &pages{}
	var all sync.WaitGroup
	for g := range 8 {
		all.Go(func() {
			for i := range 300 {
				n := []int{1, 63, 64, 65, 4096, 20_000, MaxValue}[(i+g)%7]
				value := bytes.Repeat([]byte{byte(1 + g), byte(i)}, n/2+1)[:n]
				one, releaseOne := p.keep(value)
				two, releaseTwo := p.keep(value)
				two[0]++
				if !bytes.Equal(one, value) || len(two) != n {
					t.Errorf("%d bytes are not as they were", n)
				}
				releaseOne()
				if two[0] != value[0]+1 || !bytes.Equal(two[1:], value[1:]) {
					t.Errorf("%d bytes changed when others were released", n)
				}
				releaseTwo()
				releaseTwo() // a second time is nothing
			}
		})
	}
	all.Wait()
	if limit := len(slotSizes) * regionSize; p.mapped > limit {
		t.Errorf("%d bytes stay mapped, more than %d", p.mapped, limit)
	}
}

// Hundreds of secrets in a thousand sessions stay within the bound, and all comes back.
func TestPagesAreBounded(t *testing.T) {
	p := &pages{}
	long := []byte(strings.Repeat("x", MaxValue))
	var releases []func()
	for range maxMapped/regionSize + 10 {
		stored, release := p.keep(long)
		if !bytes.Equal(stored, long) {
			t.Fatal("what is beyond the bound is not kept")
		}
		releases = append(releases, release)
	}
	if p.mapped > maxMapped {
		t.Errorf("%d bytes are mapped, more than %d", p.mapped, maxMapped)
	}
	for _, release := range releases {
		release()
	}
	if p.mapped > regionSize {
		t.Errorf("%d bytes stay mapped", p.mapped)
	}
}

func TestNoPages(t *testing.T) {
	var p *pages
	value := []byte("the value")
	stored, release := p.keep(value)
	if !bytes.Equal(stored, value) || &stored[0] == &value[0] {
		t.Errorf("got %q", stored)
	}
	if release(); stored[0] != 0 {
		t.Error("it is not wiped")
	}
}
