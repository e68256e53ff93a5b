package call

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"

	"github.com/sandboxmcp/sandboxmcp/backends"
)

// version covers everything that the two sides send each other. They are the same binary, unless a mounted or seeded
// one was left over from another release.
const version = 5

// Sizes of the largest messages, in bytes of JSON. The init's may come from a program that
// has taken it over.
const (
	maxInitMessage   = 1 << 20
	maxServerMessage = 16 << 20 // a Spec with certificates, the arguments of a command
)

// Messages are a length of four bytes, high ones first, and JSON. Text of arbitrary bytes travels as bytes, since JSON
// would not keep what is not UTF-8.
type (
	// greeting is the first thing on a connection, and the only one that is not HTTP.
	greeting struct {
		Version int
		Facts   Facts
	}

	// request begins the body of each request. Content may follow.
	request struct {
		Op      string
		Spec    *backends.Spec   `json:",omitempty"`
		Exec    *command         `json:",omitempty"`
		Command uint64           `json:",omitempty"` // that a part or a signal is for
		Size    *backends.Size   `json:",omitempty"`
		Put     *put             `json:",omitempty"`
		Open    *fileEntry       `json:",omitempty"`
		Limit   *backends.Limits `json:",omitempty"`
		Socket  int              `json:",omitempty"` // in the order of sockets
		Conn    uint64           `json:",omitempty"`
		Packet  *packet          `json:",omitempty"`
	}
	command struct {
		Args, Env [][]byte
		Dir       []byte
		Main      bool
		Terminal  *backends.Size `json:",omitempty"`
		// Which streams the caller has. Those that are not the body of the request or its response have requests of their own.
		Stdin, Stdout, Stderr, Channel bool
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
		ID        backends.FileID
	}

	// response begins the body of each response, or is its trailer.
	response struct {
		Built   *built                `json:",omitempty"`
		Begun   *backends.Containment `json:",omitempty"`
		Result  *backends.Result      `json:",omitempty"`
		File    *fileEntry            `json:",omitempty"`
		Usage   *backends.Usage       `json:",omitempty"`
		Limits  *backends.Limits      `json:",omitempty"`
		Arrival *arrival              `json:",omitempty"`
		Packet  *packet               `json:",omitempty"`
		Failure *failure              `json:",omitempty"`
		Skipped int                   `json:",omitempty"`
		Done    bool                  `json:",omitempty"`
	}
	built struct {
		Descriptors bool // the sockets came as descriptors, else their connections have to be asked for
		Gateway     bool
		Ports       int
	}
	// arrival is a connection that a program has made.
	arrival struct {
		Conn          uint64
		Local, Remote netip.AddrPort
	}
	packet struct {
		Remote netip.AddrPort
		Data   []byte
	}
)

// The operations of a request.
const (
	opPrepare = "prepare" // for the sandbox that is probably asked for
	opBuild   = "build"   // it, once
	opClose   = "close"
	opUsage   = "usage"
	opLimit   = "limit"

	opExec      = "exec"      // content: standard input, and standard output; the trailer has the result
	opStderr    = "stderr"    // of a command
	opChannel   = "channel"   // of a command: content in both directions
	opCancel    = "cancel"    // a command
	opInterrupt = "interrupt" // a command
	opTerminate = "terminate" // a command
	opResize    = "resize"    // a command's terminal

	opPut  = "put"  // content: a file
	opEach = "each" // a response for each file
	opOpen = "open" // content: a file that was listed

	opAccept  = "accept"  // waits for a connection; content: what the program sends
	opSend    = "send"    // content: what is sent on a connection
	opReceive = "receive" // a response for each packet that comes to the gateway's DNS
	opReply   = "reply"   // sends one
)

var errLong = errors.New("a message is too long")

// encode returns the bytes of a message.
func encode(m any, limit int) ([]byte, error) {
	text, err := json.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("encode a message: %w", err)
	}
	if len(text) > limit {
		return nil, fmt.Errorf("%w: %d bytes, and it may have %d", errLong, len(text), limit)
	}
	return append(binary.BigEndian.AppendUint32(make([]byte, 0, 4+len(text)), uint32(len(text))), text...), nil
}

// write sends a message of the init's with a single Write.
func write(w io.Writer, m any) error {
	b, err := encode(m, maxInitMessage)
	if err == nil {
		_, err = w.Write(b)
	}
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

// messageName is the header that has a request's message, if that fits: the body of most requests is then empty.
const messageName = "Message"

// putMessage puts a message into a header if it fits there, and returns the part of it that goes before the content.
func putMessage(h http.Header, message []byte) *bytes.Reader {
	const most = 2 << 10 // bytes
	text := message[4:]
	if len(text) > most || bytes.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' }) {
		return bytes.NewReader(message)
	}
	h[messageName] = []string{string(text)}
	return bytes.NewReader(nil)
}

// takeMessage reads the message of a request.
func takeMessage(r *http.Request, m any) error {
	if text := r.Header.Get(messageName); text != "" {
		return json.Unmarshal([]byte(text), m)
	}
	return read(r.Body, m, maxServerMessage)
}

// trailerName is the trailer that ends a response with content: without it, the content was cut.
const trailerName = "End"

// setTrailer has a response end with a message.
func setTrailer(h http.Header, m response) error {
	text, err := json.Marshal(m)
	h.Set(http.TrailerPrefix+trailerName, base64.StdEncoding.EncodeToString(text))
	return err
}

// readTrailer returns the message that ended a response.
func readTrailer(h http.Header) (m response, err error) {
	text, err := base64.StdEncoding.DecodeString(h.Get(trailerName))
	if err == nil {
		err = json.Unmarshal(text, &m)
	}
	if err != nil {
		err = fmt.Errorf("its init broke the protocol: content without an end: %w", err)
	}
	return m, err
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
