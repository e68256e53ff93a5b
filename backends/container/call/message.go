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
	"strings"

	"github.com/sandboxmcp/sandboxmcp/backends"
)

// version covers all messages of both sides. Both run the same binary, unless a mounted or seeded one is left from
// another release.
const version = 8

// Maximum message sizes, in bytes of JSON. A program that controls the init may send these messages.
const (
	maxInitMessage   = 1 << 20
	maxServerMessage = 16 << 20 // a Spec with certificates, the arguments of a command
)

// A request is JSON in a header. A message of the init is a length of four bytes, big endian, and JSON; content may
// follow. Strings that may not be UTF-8 travel as bytes, since JSON would change them.
type (
	// greeting is the first message on a connection, and the only one outside HTTP.
	greeting struct {
		Version int
		Facts   Facts
	}

	// request is a request of the server. Its content is the body.
	request struct {
		Op      string
		Spec    *backends.Spec   `json:",omitempty"`
		Exec    *command         `json:",omitempty"`
		Command uint64           `json:",omitempty"` // for a part or a signal
		Size    *backends.Size   `json:",omitempty"`
		Put     *put             `json:",omitempty"`
		Open    *fileEntry       `json:",omitempty"`
		Limit   *backends.Limits `json:",omitempty"`
		Socket  int              `json:",omitempty"` // index of a listener
		Conn    uint64           `json:",omitempty"`
		Packet  *packet          `json:",omitempty"`
		Skip    *skip            `json:",omitempty"`
	}
	command struct {
		Args, Env [][]byte
		Dir       []byte
		Main      bool
		Endless   bool           `json:",omitempty"`
		Terminal  *backends.Size `json:",omitempty"`
		// Streams that the caller has. Those outside the request's body and response have separate requests.
		Stdin, Stdout, Stderr, Channel bool
	}
	put struct {
		Name []byte
		Mode uint32
	}
	// fileEntry describes one file of a walk, or any path of a workspace with proposed changes.
	fileEntry struct {
		Name      []byte
		Size      int64
		Mode      uint32 // permission bits; of a change, an [fs.FileMode]
		Sec, Nsec int64  // Changed; of a change, ModTime
		ID        backends.FileID
		Target    []byte `json:",omitempty"` // of a change
		Removed   bool   `json:",omitempty"`
	}

	// response is the start of a response's body, or its trailer.
	response struct {
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
		Full    bool                  `json:",omitempty"` // the archive does not fit
	}
	// arrival is a connection from a program.
	arrival struct {
		Conn          uint64
		Local, Remote netip.AddrPort
	}
	packet struct {
		Remote netip.AddrPort
		Data   []byte
	}
)

// Operations of a request.
const (
	opPrepare = "prepare" // for the predicted sandbox
	opBuild   = "build"   // the sandbox, only once
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
	opSkip      = "skip"      // output of a command
	opCarry     = "carry"     // stops skipping

	opPut  = "put"  // content: a file
	opEach = "each" // a response for each file
	opOpen = "open" // content: a listed file

	opUnpack  = "unpack"  // content: an archive for the workspace
	opChanges = "changes" // a response for each path

	opAccept  = "accept"  // waits for a connection; content: what the program sends
	opSend    = "send"    // content: data for a connection
	opReceive = "receive" // a response for each packet to the gateway's DNS
	opReply   = "reply"   // sends a packet
)

var errLong = errors.New("a message is too long")

// writeMessage writes a message of the init in a single Write.
func writeMessage(w io.Writer, m any) error {
	text, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("encode a message: %w", err)
	}
	if err := checkLength(len(text), maxInitMessage); err != nil {
		return err
	}
	_, err = w.Write(append(binary.BigEndian.AppendUint32(make([]byte, 0, 4+len(text)), uint32(len(text))), text...))
	return err
}

func checkLength(n, limit int) error {
	if n > limit {
		return fmt.Errorf("%w: %d bytes, the maximum is %d", errLong, n, limit)
	}
	return nil
}

// readMessage reads exactly one message of the init.
func readMessage(r io.Reader, m any) error {
	var header [4]byte
	if _, err := io.ReadFull(r, header[:]); err != nil {
		return err
	}
	n := int(binary.BigEndian.Uint32(header[:]))
	if err := checkLength(n, maxInitMessage); err != nil {
		return err
	}
	// Memory is allocated as bytes arrive, not by the announced length.
	var text bytes.Buffer
	if _, err := io.CopyN(&text, r, int64(n)); err != nil {
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

// messageName is the header that carries a request.
const messageName = "Message"

// setMessage puts a request into a header. Headers permit all characters that JSON leaves unescaped, except one.
func setMessage(h http.Header, q request) error {
	text, err := json.Marshal(q)
	if err != nil {
		return fmt.Errorf("encode a message: %w", err)
	}
	h[messageName] = []string{strings.ReplaceAll(string(text), "\x7f", `\u007f`)}
	return checkLength(len(text), maxServerMessage)
}

// trailerName is the trailer that ends a response with content; without it, the content is incomplete.
const trailerName = "End"

// setTrailer sets the message that ends a response.
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
