package vault

import (
	"os"
	"sync"
	"sync/atomic"
)

// pages allocates memory for the values of each lease, which is neither swapped nor dumped as far as RLIMIT_MEMLOCK
// allows.
//
// Other copies exist: the encodings of the matcher, the strings that Env returns, and short-lived ones of age, SQLite
// and the keyring. No process that leases secrets writes a core dump by itself, see noCore.
type pages struct {
	begun  sync.Once
	mapped atomic.Int64 // bytes
}

// maxMapped bounds the memory that is locked, in bytes: a hundred secrets in each of a thousand sessions, with a
// margin. Values beyond it are in ordinary memory.
const maxMapped = 64 << 20

// slab is the memory of a lease.
type slab struct {
	memory, free []byte
	owner        *pages // nil for ordinary memory
}

// allocate returns a slab of size bytes.
func (p *pages) allocate(size int) *slab {
	p.begun.Do(disableCoreDumps)
	page := os.Getpagesize()
	size = (size + page - 1) / page * page
	s := &slab{}
	if p.mapped.Add(int64(size)) <= maxMapped {
		s.memory = mapLocked(size)
	}
	if s.memory != nil {
		s.owner = p
	} else {
		p.mapped.Add(-int64(size))
		s.memory = make([]byte, size)
	}
	s.free = s.memory
	return s
}

// move returns a copy of value, and wipes value.
func (s *slab) move(value []byte) []byte {
	n := copy(s.free, value)
	moved := s.free[:n:n]
	s.free = s.free[n:]
	clear(value)
	return moved
}

// release wipes and frees the memory, which must not be used any more.
func (s *slab) release() {
	clear(s.memory)
	if s.owner != nil {
		s.owner.mapped.Add(-int64(len(s.memory)))
		unmap(s.memory)
	}
}
