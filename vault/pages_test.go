package vault

import (
	"bytes"
	"strings"
	"sync"
	"testing"
)

// TestPages: values of all sizes, leased and released concurrently, never share a byte, and all memory is released.
func TestPages(t *testing.T) {
	p := &pages{}
	var all sync.WaitGroup
	for g := range 8 {
		all.Go(func() {
			for i := range 300 {
				n := []int{1, 63, 64, 65, 4096, 20_000, MaxValue}[(i+g)%7]
				value := bytes.Repeat([]byte{byte(1 + g), byte(i)}, n/2+1)[:n]
				s, other := p.allocate(2*n), p.allocate(n)
				one, two, three := s.move(bytes.Clone(value)), s.move(bytes.Clone(value)), other.move(bytes.Clone(value))
				two[0]++
				if !bytes.Equal(one, value) || !bytes.Equal(three, value) || len(two) != n || cap(one) != n {
					t.Errorf("%d bytes are not as they were", n)
				}
				other.release()
				if two[0] != value[0]+1 || !bytes.Equal(two[1:], value[1:]) {
					t.Errorf("%d bytes changed when others were released", n)
				}
				s.release()
			}
		})
	}
	all.Wait()
	if n := p.mapped.Load(); n != 0 {
		t.Errorf("%d bytes stay mapped", n)
	}
}

// TestPagesAreBounded: hundreds of secrets in a thousand sessions stay within the bound, and all memory is
// released.
func TestPagesAreBounded(t *testing.T) {
	p := &pages{}
	long := strings.Repeat("x", MaxValue)
	var slabs []*slab
	for range maxMapped/MaxValue + 10 {
		s := p.allocate(MaxValue)
		if string(s.move([]byte(long))) != long {
			t.Fatal("what is beyond the bound is not kept")
		}
		slabs = append(slabs, s)
	}
	if n := p.mapped.Load(); n > maxMapped {
		t.Errorf("%d bytes are mapped, more than %d", n, maxMapped)
	}
	for _, s := range slabs {
		s.release()
	}
	if n := p.mapped.Load(); n != 0 {
		t.Errorf("%d bytes stay mapped", n)
	}
}

// TestNoPages: memory that is not mapped is wiped, and so are moved values.
func TestNoPages(t *testing.T) {
	p := &pages{}
	p.mapped.Store(maxMapped)
	s, value := p.allocate(9), []byte("the value")
	moved := s.move(value)
	if string(moved) != "the value" || value[0] != 0 {
		t.Errorf("got %q, and %q stays", moved, value)
	}
	if s.release(); moved[0] != 0 {
		t.Error("it is not wiped")
	}
}
