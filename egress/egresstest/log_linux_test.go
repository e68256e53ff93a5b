package egresstest

import (
	"fmt"
	"strings"
	"sync"
	"time"
)

// event is a packet, query or request that arrived outside of the sandbox.
type event struct {
	at   time.Time
	kind string // "query", "packet", "tls", "request" or "bytes"
	host string // the server's name, or the packet's destination
	text string
}

func (e event) String() string { return fmt.Sprintf("%s at %s: %s", e.kind, e.host, e.text) }

// journal collects the events of all servers and taps of a world.
type journal struct {
	mu     sync.Mutex
	events []event
}

func (j *journal) record(kind, host, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	j.mu.Lock()
	defer j.mu.Unlock()
	j.events = append(j.events, event{time.Now(), kind, host, text})
}

// takeEvents returns the events since the last call.
func (j *journal) takeEvents() []event {
	j.mu.Lock()
	defer j.mu.Unlock()
	events := j.events
	j.events = nil
	return events
}

// bytesLog keeps up to 8 KiB that a connection received, until they are reported once.
type bytesLog struct {
	strings.Builder
	once sync.Once
}

func (b *bytesLog) record(p []byte) {
	if room := 8<<10 - b.Len(); room > 0 {
		b.Write(p[:min(room, len(p))])
	}
}
