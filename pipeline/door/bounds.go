package door

import "time"

// Bounds of one client and of all. A request is one JSON-RPC message or a small file; nginx and Go's own servers allow
// as many bytes of headers, or more.
const (
	maxHeader  = 16 << 10  // bytes; net/http adds 4 KiB
	maxStreams = 100       // requests at once on one connection of HTTP/2: the least that RFC 9113 recommends
	maxWindow  = 128 << 10 // bytes that a connection of HTTP/2 brings before they are asked for
	writeSize  = 64 << 10  // bytes of an answer that the time for a write is for
)

// MaxBody is the most bytes of the body of a request, unless it brings files: while it is decoded, there are some
// copies of it.
const MaxBody = 16 << 20

// bounds are those that tests can't wait for, or can't fill.
type bounds struct {
	connections int           // in all: a descriptor each
	each        int           // of one address: an agent has a stream and some requests, and several may be behind one address
	header      time.Duration // until all headers of a request are there
	idle        time.Duration // between requests
	unproven    time.Duration // between requests of a connection of which none was of a proven identity
	write       time.Duration // of writeSize bytes: a client that doesn't read holds what the server has written
	body        time.Duration // until a body is there, and a second more for each rate bytes
	rate        int64

	held         int64         // bytes in memory of all requests under way; those of one identity are a quarter of that
	heldUnproven int64         // bytes of all that have no identity yet
	heldAlways   int64         // bytes that an identity may hold whatever the others do
	room         time.Duration // that a request waits for memory
}

var usual = bounds{connections: 1024, each: 512, header: 10 * time.Second, idle: 2 * time.Minute, unproven: 10 * time.Second, write: 30 * time.Second,
	body: 30 * time.Second, rate: 64 << 10, held: 128 << 20, heldUnproven: 8 << 20, heldAlways: 512 << 10, room: time.Second}
