package door

import "time"

// Bounds of one client and of all clients. A request is one JSON-RPC message or a small file; nginx and Go's own
// servers allow at least as many bytes of headers.
const (
	maxHeader  = 16 << 10  // bytes; net/http adds 4 KiB
	maxStreams = 100       // concurrent requests on one HTTP/2 connection: the minimum that RFC 9113 recommends
	maxWindow  = 128 << 10 // receive window of an HTTP/2 connection, in bytes
	writeSize  = 64 << 10  // bytes of an answer per write deadline
)

// MaxBody bounds the body of a request without files, in bytes: decoding makes some copies of it.
const MaxBody = 16 << 20

// bounds are the bounds that tests change, because they can't wait for them or fill them.
type bounds struct {
	connections int           // total: each takes a descriptor
	each        int           // per address: an agent has a stream and some requests, and several agents may share an address
	header      time.Duration // for all headers of a request
	idle        time.Duration // between requests
	unproven    time.Duration // between requests of a connection that has proved no identity
	write       time.Duration // for writeSize bytes: a client that does not read keeps them in memory
	body        time.Duration // for a body, plus a second for each rate bytes
	rate        int64

	held         int64         // bytes in memory of all running requests; one identity may have a quarter
	heldUnproven int64         // bytes of all requests without an identity so far
	heldAlways   int64         // bytes that an identity may always hold
	room         time.Duration // maximum wait of a request for memory
}

var usual = bounds{connections: 1024, each: 512, header: 10 * time.Second, idle: 2 * time.Minute, unproven: 10 * time.Second,
	write: 30 * time.Second,
	body:  30 * time.Second, rate: 64 << 10, held: 128 << 20, heldUnproven: 8 << 20, heldAlways: 512 << 10, room: time.Second}
