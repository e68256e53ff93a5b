package envd

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sandboxmcp/sandboxmcp/pipeline/door"
)

// The protocol is connectrpc.com/docs/protocol: unary calls and streams over HTTP, with JSON or protobuf.

// code is an error code of the protocol.
type code string

const (
	canceled          code = "canceled"
	unknown           code = "unknown"
	invalidArgument   code = "invalid_argument"
	deadlineExceeded  code = "deadline_exceeded"
	notFound          code = "not_found"
	alreadyExists     code = "already_exists"
	permissionDenied  code = "permission_denied"
	resourceExhausted code = "resource_exhausted"
	failed            code = "failed_precondition"
	unimplemented     code = "unimplemented"
	internal          code = "internal"
	unavailable       code = "unavailable"
	unauthenticated   code = "unauthenticated"
)

// statuses are the HTTP statuses of unary errors; the default is 500.
var statuses = map[code]int{
	canceled: 499, invalidArgument: 400, deadlineExceeded: 504, notFound: 404, alreadyExists: 409, permissionDenied: 403,
	resourceExhausted: 429, failed: 400, unimplemented: 501, unavailable: 503, unauthenticated: 401,
}

// fault is an error of the protocol.
type fault struct {
	Code    code   `json:"code"`
	Message string `json:"message,omitempty"`
}

func (f *fault) Error() string { return f.Message }

func faultf(c code, format string, args ...any) *fault {
	return &fault{c, fmt.Sprintf(format, args...)}
}

// maxMessage bounds a message of a client, in bytes.
const maxMessage = 16 << 20

// call is one call of a client.
type call struct {
	*Server
	Target
	w         http.ResponseWriter
	r         *http.Request
	ctx       context.Context // with the client's time limit
	cancel    context.CancelFunc
	limit     time.Duration // of the client; 0 is none
	binary    bool
	stream    bool
	out       *door.Stream // nil until the first message is sent
	keepalive any          // the keepalive message of a stream; nil sends none
	keepSent  time.Duration
}

// openCall reads the headers of a call. It answers an invalid one and returns nil.
func (s *Server) openCall(w http.ResponseWriter, r *http.Request, t Target) *call {
	c := &call{Server: s, Target: t, w: w, r: r, ctx: r.Context()}
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		w.WriteHeader(http.StatusMethodNotAllowed)
		return nil
	}
	kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	kind, c.stream = strings.CutPrefix(kind, "application/connect+")
	switch strings.TrimPrefix(kind, "application/") {
	case "json":
	case "proto":
		c.binary = true
	default:
		w.Header().Set("Accept-Post", "application/json, application/proto, application/connect+json, application/connect+proto")
		w.WriteHeader(http.StatusUnsupportedMediaType)
		return nil
	}
	if text := r.Header.Get("Connect-Timeout-Ms"); text != "" {
		ms, err := strconv.ParseUint(text, 10, 33)
		if err != nil || len(text) > 10 {
			c.fail(faultf(invalidArgument, "Connect-Timeout-Ms must be a number of up to ten digits"))
			return nil
		}
		if c.limit = time.Duration(ms) * time.Millisecond; ms > 0 {
			c.ctx, c.cancel = context.WithTimeout(c.ctx, c.limit)
		}
	}
	if c.cancel == nil {
		c.ctx, c.cancel = context.WithCancel(c.ctx)
	}
	if seconds, err := strconv.Atoi(r.Header.Get("Keepalive-Ping-Interval")); err == nil && seconds > 0 && seconds <= maxKeepalive {
		c.keepSent = time.Duration(seconds) * time.Second
	} else {
		c.keepSent = defaultKeepalive
	}
	return c
}

const (
	defaultKeepalive = 90 * time.Second // interval of a silent stream's keepalives
	maxKeepalive     = 3600             // seconds that a client can request
)

func (c *call) unmarshal(b []byte, message any) error {
	values := int64(0)
	if !c.binary {
		values = door.Values(b)
	}
	err := door.Decode(c.ctx, len(b), values, func() error {
		switch {
		case c.binary:
			return decode(b, message)
		case len(b) > 0:
			return json.Unmarshal(b, message)
		}
		return nil
	})
	if err != nil {
		return c.unread(err, "unmarshal message: %v", err)
	}
	return nil
}

func (c *call) marshal(message any) []byte {
	if c.binary {
		return encode(message)
	}
	b, err := json.Marshal(message)
	if err != nil {
		panic("encode message: " + err.Error())
	}
	return b
}

// unread returns the fault of an unreadable message: too large, no memory at the moment, or else the text.
func (c *call) unread(err error, format string, args ...any) *fault {
	full, ok := errors.AsType[*door.Refused](err)
	switch {
	case errors.As(err, new(*http.MaxBytesError)):
		return faultf(resourceExhausted, "the message is too large: the maximum is %d bytes", maxMessage)
	case !ok:
		return faultf(invalidArgument, format, args...)
	}
	full.RetryAfter(c.w.Header())
	if full.Status == http.StatusServiceUnavailable {
		return faultf(unavailable, "%s", full.Text)
	}
	return faultf(resourceExhausted, "%s", full.Text)
}

// receive reads the message of a unary call or the next one of a stream; io.EOF is the end. E2B's SDKs never compress
// messages.
func (c *call) receive(message any) error {
	from, size := io.Reader(c.r.Body), c.r.ContentLength
	switch {
	case c.stream:
		var head [5]byte
		if _, err := io.ReadFull(from, head[:]); err == io.EOF {
			return err
		} else if err != nil {
			return c.unread(err, "protocol error: incomplete envelope: %v", err)
		}
		if size = int64(binary.BigEndian.Uint32(head[1:])); size > maxMessage {
			return faultf(resourceExhausted, "the message has %d bytes; the maximum is %d", size, maxMessage)
		}
		from = io.LimitReader(from, size)
		switch head[0] {
		case 0:
		case 1:
			return errCompressed
		default:
			return faultf(invalidArgument, "protocol error: invalid envelope flags %d", head[0])
		}
	case !slices.Contains([]string{"", "identity"}, c.r.Header.Get("Content-Encoding")):
		return errCompressed
	case size < 0:
		size = maxMessage
	}
	b, err := door.ReadAll(from, size, maxMessage)
	switch {
	case c.stream && (err != nil || int64(len(b)) != size):
		return c.unread(err, "protocol error: promised %d bytes in enveloped message, got %d bytes", size, len(b))
	case err != nil:
		return c.unread(err, "read message: %v", err)
	}
	return c.unmarshal(b, message)
}

var errCompressed = faultf(unimplemented, "compressed messages are not supported: send them uncompressed")

// receiveOnly reads the single message of a client.
func (c *call) receiveOnly(message any) error {
	err := c.receive(message)
	if err == io.EOF {
		return faultf(invalidArgument, "protocol error: no message")
	}
	if c.stream && err == nil { // net/http notices a disconnect only after the body is read
		io.Copy(io.Discard, io.LimitReader(c.r.Body, 1))
	}
	return err
}

// send writes a message of a stream at once.
func (c *call) send(message any) error { return c.sendEnvelope(0, c.marshal(message)) }

func (c *call) sendEnvelope(flags byte, b []byte) error {
	if c.out == nil {
		alive := ""
		if c.keepalive != nil {
			alive = string(envelope(0, c.marshal(c.keepalive)))
		}
		c.out = door.BeginStream(c.w, "application/connect+"+map[bool]string{true: "proto", false: "json"}[c.binary], alive, c.keepSent, c.cancel)
	}
	return c.out.Send(envelope(flags, b))
}

func envelope(flags byte, b []byte) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{flags}, uint32(len(b))), b...)
}

// close releases the resources of a call.
func (c *call) close() {
	if c.out != nil {
		c.out.Close()
	}
	c.cancel()
}

// endCall ends a call: a stream with its last envelope, a failed unary call with a status.
func (c *call) endCall(err error) {
	if err != nil {
		c.fail(c.faultOf(err))
	} else if c.stream {
		c.sendEnvelope(2, []byte("{}"))
	}
}

func (c *call) fail(f *fault) {
	if c.stream {
		text, _ := json.Marshal(map[string]*fault{"error": f})
		c.sendEnvelope(2, text)
		return
	}
	status, known := statuses[f.Code]
	if !known {
		status = http.StatusInternalServerError
	}
	c.w.Header().Set("Content-Type", "application/json")
	c.w.WriteHeader(status)
	json.NewEncoder(c.w).Encode(f)
}

// reply answers a unary call.
func (c *call) reply(message any) error {
	if c.stream {
		return c.send(message)
	}
	c.w.Header().Set("Content-Type", "application/"+map[bool]string{true: "proto", false: "json"}[c.binary])
	_, _ = c.w.Write(c.marshal(message)) // a disconnected client gets no error, either
	return nil
}

// contextFault returns the fault of a call whose context has ended.
func (c *call) contextFault() *fault {
	if errors.Is(context.Cause(c.ctx), context.DeadlineExceeded) {
		return faultf(deadlineExceeded, "context deadline exceeded")
	}
	return faultf(canceled, "context canceled")
}
