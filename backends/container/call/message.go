package call

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"

	"github.com/sandboxmcp/sandboxmcp/backends"
)

// version is of all that the two sides say to each other. They are the same binary, but for a mounted
// or seeded one that was left over.
const version = 3

// How long a message may be, in bytes of JSON. What comes from the init may come from a program that
// has taken it over.
const (
	maxInitMessage   = 1 << 20
	maxServerMessage = 16 << 20 // a Spec with certificates, the arguments of a command
)

// Messages are a length of four bytes, high ones first, and JSON. Text that may be any bytes travels as
// bytes, since JSON would not keep what is not UTF-8.
type (
	greeting struct {
		Version int
		Facts   Facts
	}
	build struct {
		Spec        backends.Spec
		PrepareOnly bool // only prepare for it: what is to be built comes later, and nothing is answered now
	}
	built struct {
		Failure   *failure `json:",omitempty"`
		Handed    bool     // the sockets follow as descriptors, else what comes to them comes as streams
		Listeners int
		Gateway   bool
		Ports     int
	}

	// request is what a stream that the server opens begins with.
	request struct {
		Op    string
		Exec  *command         `json:",omitempty"`
		Put   *put             `json:",omitempty"`
		Open  *fileEntry       `json:",omitempty"`
		Limit *backends.Limits `json:",omitempty"`
	}
	command struct {
		Args, Env [][]byte
		Dir       []byte
		Main      bool
		Terminal  *backends.Size `json:",omitempty"`
		// Streams for its parts, 0 where the caller wants none.
		Stdin, Stdout, Stderr, Channel uint32
	}
	put struct {
		Name []byte
		Mode uint32
	}
	// fileEntry is one file of a walk.
	fileEntry struct {
		Name      []byte
		Size      int64
		Mode      uint32
		Sec, Nsec int64 // Changed
		Number    uint64
	}
	// response is what the init says of a command, or of a walk, or in answer to a request.
	response struct {
		Begun   *backends.Containment `json:",omitempty"`
		Result  *backends.Result      `json:",omitempty"`
		File    *fileEntry            `json:",omitempty"`
		Usage   *backends.Usage       `json:",omitempty"`
		Limits  *backends.Limits      `json:",omitempty"`
		Failure *failure              `json:",omitempty"`
		Skipped int                   `json:",omitempty"`
		Done    bool                  `json:",omitempty"`
	}
	// arrival is what a stream that the init opens begins with.
	arrival struct {
		Socket        int // in the order of sockets
		Local, Remote netip.AddrPort
	}
)

// The operations of a request.
const (
	opPart  = "part" // a stream for one part of a command
	opExec  = "exec"
	opPut   = "put"
	opEach  = "each"
	opOpen  = "open"
	opUsage = "usage"
	opLimit = "limit"
	opClose = "close"

	opPackets = "packets" // what comes to the gateway's DNS
)

var errLong = errors.New("a message is too long")

// write sends a message in one piece.
func write(w io.Writer, m any, limit int) error {
	text, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("encode a message: %w", err)
	}
	if len(text) > limit {
		return fmt.Errorf("%w: %d bytes, and it may have %d", errLong, len(text), limit)
	}
	_, err = w.Write(append(binary.BigEndian.AppendUint32(make([]byte, 0, 4+len(text)), uint32(len(text))), text...))
	return err
}

// read takes one message, and not a byte more.
func read(r io.Reader, m any, limit int) error {
	var header [4]byte
	if _, err := io.ReadFull(r, header[:]); err != nil {
		return err
	}
	n := int64(binary.BigEndian.Uint32(header[:]))
	if n > int64(limit) {
		return fmt.Errorf("%w: %d bytes, and it may have %d", errLong, n, limit)
	}
	// A length alone does not make us take memory.
	var text bytes.Buffer
	if _, err := io.CopyN(&text, r, n); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return err
	}
	if err := json.Unmarshal(text.Bytes(), m); err != nil {
		return fmt.Errorf("decode a message: %w", err)
	}
	return nil
}

// toBytes are strings as bytes, and strings back.
func toBytes(all []string) [][]byte {
	out := make([][]byte, len(all))
	for i, s := range all {
		out[i] = []byte(s)
	}
	return out
}

func toStrings(all [][]byte) []string {
	out := make([]string, len(all))
	for i, b := range all {
		out[i] = string(b)
	}
	return out
}
