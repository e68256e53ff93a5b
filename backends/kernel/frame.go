package kernel

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
)

// maxFrame bounds the bytes of a frame, in either direction. A driver that sends more is broken, or has been replaced.
const maxFrame = 64 << 20

// smallFrame bounds the bytes of a frame that arrives without a request. A larger one waits in the interpreter's
// memory for the next request.
const smallFrame = 256 << 10

// Bounds of a frame's content. Each element takes far more memory here than bytes in the frame: without bounds, 64 MiB
// of "{}," would become gigabytes.
const (
	maxForms     = 64      // forms of one value
	maxFormName  = 200     // bytes
	maxVariables = 100_000 // variables in a list
	maxFields    = 2 << 20 // fields of a language without JSON
)

// request is sent to a driver. Code, Name and Env are always present, even if empty.
type request struct {
	Op     string            `json:"op"` // "run", "set", "get" or "vars"
	ID     int64             `json:"id"`
	Code   string            `json:"code"`
	Name   string            `json:"name"`
	Env    map[string]string `json:"env"`
	Charts bool              `json:"charts,omitempty"`
	Tools  []Tool            `json:"tools,omitempty"`
	Mark   string            `json:"mark,omitempty"` // without the NUL bytes around it
	Key    string            `json:"key,omitempty"`
	Value  json.RawMessage   `json:"value,omitempty"`
}

// reply is sent by a driver.
type reply struct {
	Op      string          `json:"op"` // "ready", "display", "call" or "done"
	ID      int64           `json:"id"` // of the request
	Version string          `json:"version"`
	Ops     words           `json:"ops"` // requests beside "run" that an operator's kernel supports
	Data    Bundle          `json:"data"`
	Value   Bundle          `json:"value"`
	Error   *Error          `json:"error"`
	Exit    *int            `json:"exit"`
	JSON    json.RawMessage `json:"json"`
	Vars    variables       `json:"vars"`
	Call    int64           `json:"call"` // number of a tool call
	Name    string          `json:"name"`
	Args    json.RawMessage `json:"args"`
}

type words []string

// UnmarshalJSON refuses lists that are too long.
func (w *words) UnmarshalJSON(text []byte) error {
	return unmarshal(text, "%d words", maxForms, (*[]string)(w))
}

type variables []Variable

// UnmarshalJSON refuses lists that are too long.
func (v *variables) UnmarshalJSON(text []byte) error {
	return unmarshal(text, "%d variables", maxVariables, (*[]Variable)(v))
}

// UnmarshalJSON refuses a value in too many forms.
func (b *Bundle) UnmarshalJSON(text []byte) error {
	*b = nil // else the forms of a second value would join those of the first
	return unmarshal(text, "one thing in %d forms", maxForms, (*map[string]string)(b))
}

// unmarshal decodes a list or an object with at most limit members.
func unmarshal(text []byte, what string, limit int, into any) error {
	if n := countMembers(text); n > limit {
		return fmt.Errorf(what+", more than %d", n, limit)
	}
	return json.Unmarshal(text, into)
}

// countMembers returns the number of members of a JSON object or array, or 1 if it is empty.
func countMembers(b []byte) int {
	n, depth := 1, 0
	for i := 0; i < len(b); i++ {
		switch b[i] {
		case '"':
			for i++; i < len(b) && b[i] != '"'; i++ {
				if b[i] == '\\' {
					i++
				}
			}
		case '[', '{':
			depth++
		case ']', '}':
			depth--
		case ',':
			if depth == 1 {
				n++
			}
		}
	}
	return n
}

// codec encodes requests and decodes replies: JSON, except for a language without it.
type codec interface {
	driver(source string) ([]byte, error) // input of the bootstrap code
	encode(request) ([]byte, error)
	decode(body []byte) (reply, error)
}

// jsonCodec is the default codec.
type jsonCodec struct{}

func (jsonCodec) driver(source string) ([]byte, error) {
	return encodeFrame(map[string]string{"driver": source})
}

func (jsonCodec) encode(q request) ([]byte, error) { return encodeFrame(q) }

func (jsonCodec) decode(body []byte) (answer reply, err error) {
	err = json.Unmarshal(body, &answer)
	return answer, err
}

// encodeFrame returns v as JSON after its length: 4 bytes, big-endian.
func encodeFrame(v any) ([]byte, error) {
	buf := bytes.NewBuffer(make([]byte, 4, 512))
	e := json.NewEncoder(buf)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	frame := buf.Bytes()
	size := len(frame) - 4
	if size > maxFrame {
		return nil, tooLarge(size)
	}
	binary.BigEndian.PutUint32(frame, uint32(size))
	return frame, nil
}

// readFrame reads one frame. It allocates memory as bytes arrive, not by the announced length. Before a large frame
// it calls wait, which may return an error.
func readFrame(r io.Reader, c codec, wait func() error) (reply, error) {
	var header [4]byte
	if _, err := io.ReadFull(r, header[:]); err != nil {
		return reply{}, err
	}
	size := int64(binary.BigEndian.Uint32(header[:]))
	if size > maxFrame {
		return reply{}, fmt.Errorf("protocol: a frame of %d bytes, more than %d", size, maxFrame)
	}
	if size > smallFrame {
		if err := wait(); err != nil {
			return reply{}, err
		}
	}
	var body bytes.Buffer
	if _, err := io.CopyN(&body, r, size); err != nil {
		return reply{}, fmt.Errorf("protocol: a frame of %d bytes ended after %d", size, body.Len())
	}
	answer, err := c.decode(body.Bytes())
	if err != nil {
		return reply{}, fmt.Errorf("protocol: a frame that can't be read: %w", err)
	}
	return answer, nil
}

func tooLarge(size int) error {
	return fmt.Errorf("%d bytes are more than the %d of one request", size, maxFrame)
}
