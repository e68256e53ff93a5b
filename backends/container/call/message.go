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

// version covers everything that the two sides send each other. They are the same binary, unless a mounted or seeded
// one was left over from another release.
const version = 4

// Sizes of the largest messages, in bytes of JSON. The init's may come from a program that
// has taken it over.
const (
	maxInitMessage   = 1 << 20
	maxServerMessage = 16 << 20 // a Spec with certificates, the arguments of a command
)

// Messages are a length of four bytes, high ones first, and JSON. Text of arbitrary bytes travels as bytes, since JSON
// would not keep what is not UTF-8.
type (
	greeting struct {
		Version int
		Facts   Facts
	}
	build struct {
		Spec        backends.Spec
		PrepareOnly bool // prepare for it only: the sandbox to build is sent later, and nothing is answered now
	}
	built struct {
		Failure     *failure `json:",omitempty"`
		Descriptors bool     `json:"Handed"` // the sockets follow as descriptors, else their connections arrive as streams
		Listeners   int
		Gateway     bool
		Ports       int
	}

	// request is the first message of a stream that the server opens.
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
		// Stream ids of its parts, 0 for parts that the caller leaves out.
		Stdin, Stdout, Stderr, Channel uint32
	}
	put struct {
		Name []byte
		Mode uint32
	}
	// fileEntry describes one file of a walk.
	fileEntry struct {
		Name      []byte
		Size      int64
		Mode      uint32
		Sec, Nsec int64 // Changed
		Number    uint64
	}
	// response is the init's message about a command, a walk or a request.
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
	// arrival is the first message of a stream that the init opens.
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

// write sends a message with a single Write.
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

// read reads one message, and not a byte more.
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

// toBytes encodes strings as bytes; toStrings decodes them.
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
