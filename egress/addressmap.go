package egress

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"sync"
)

const (
	// addressBase is 127.64.0.0, the start of the addresses of names. They stay below 127.128.0.0, and apart from
	// addresses that programs use themselves: 127.0.0.1, 127.0.1.1, 127.0.0.53.
	addressBase = 127<<24 | 64<<16
	// maxNames bounds the memory for names, which a program can make up below *.example.com: 20 MiB of the longest names.
	maxNames = 1 << 16
)

// addressMap gives each name its own address in 127.64.0.0/10, so that a connection's address identifies the name. A
// name keeps its address for the lifetime of the map, since programs cache addresses for longer than any TTL. The zero
// value is empty. It is safe for concurrent use.
type addressMap struct {
	mu    sync.Mutex
	names []string          // names[i] has the address addressBase+1+i
	at    map[string]uint32 // the address of each
}

// address returns the address of a canonical name, and assigns one to a new name. The error, for users, says that the
// map is full.
func (b *addressMap) address(name string) (netip.Addr, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	at, known := b.at[name]
	if !known {
		if len(b.names) >= maxNames {
			return netip.Addr{}, fmt.Errorf("%d names were looked up in this sandbox, which is as many as it can have: use a new one", maxNames)
		}
		if b.at == nil {
			b.at = map[string]uint32{}
		}
		b.names = append(b.names, name)
		at = addressBase + uint32(len(b.names))
		b.at[name] = at
	}
	return netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, at))), nil
}

// name returns the name of an address.
func (b *addressMap) name(address netip.Addr) (string, bool) {
	address = address.Unmap()
	if !address.Is4() {
		return "", false
	}
	four := address.As4()
	i := int64(binary.BigEndian.Uint32(four[:])) - addressBase - 1
	b.mu.Lock()
	defer b.mu.Unlock()
	if i < 0 || i >= int64(len(b.names)) {
		return "", false
	}
	return b.names[i], true
}
