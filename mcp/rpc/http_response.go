package rpc

import (
	"context"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/sandboxmcp/sandboxmcp/pipeline/door"
	"github.com/sandboxmcp/sandboxmcp/pipeline/identity"
)

const headerSession = "Mcp-Session-Id"

// refusal is a request that is not served, with the fault that answers it.
type refusal struct {
	status int
	retry  time.Duration // when to try again; 0 is unknown
	Fault
}

func refuse(status int, text string) *refusal {
	return &refusal{status: status, Fault: Fault{code: mcp.INVALID_REQUEST, text: text}}
}

func busy(retry time.Duration, text string) *refusal {
	return &refusal{http.StatusServiceUnavailable, retry, Fault{code: codeBusy, text: text}}
}

// refuseDraining refuses a request to a server that is shutting down.
func refuseDraining() *refusal {
	no := refuse(http.StatusServiceUnavailable, "the server is shutting down")
	no.retry = time.Second
	return no
}

// setRetryAfter sets the Retry-After header.
func (no *refusal) setRetryAfter(w http.ResponseWriter) {
	(&door.Refused{Wait: no.retry}).RetryAfter(w.Header())
}

func writeMessage(w http.ResponseWriter, status int, b []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(b) // the client may be gone
}

// statusOf returns the HTTP status for the error of a request of the 2026-07-28 protocol, or of a failed initialize.
func statusOf(code int) int {
	switch code {
	case mcp.METHOD_NOT_FOUND:
		return http.StatusNotFound
	case codeBusy:
		return http.StatusServiceUnavailable
	case mcp.INVALID_REQUEST, mcp.INVALID_PARAMS, mcp.PARSE_ERROR, mcp.MISSING_REQUIRED_CLIENT_CAPABILITY:
		return http.StatusBadRequest
	}
	return http.StatusOK
}

// response is the response to one request: the answer as JSON, or a stream of events if anything precedes the answer.
type response struct {
	w        http.ResponseWriter
	stream   *stream
	replied  chan []byte  // receives the answer, or nil if the client no longer wants it; nil blocks forever
	jsonOnly bool         // the client accepts JSON only
	events   *door.Stream // begun if anything precedes the answer; nil until then
}

// newResponse returns the response to a message. For an operation without the protocol it is JSON with a status,
// unless the client asks for events.
func newResponse(w http.ResponseWriter, r *http.Request, m *Message) response {
	return response{w: w, stream: newStream(), replied: make(chan []byte, 1), jsonOnly: m.Plain && !namesType(r, "text/event-stream")}
}

// write writes the response. It returns once the request is answered, even if the client has disconnected.
func (a *response) write(ctx context.Context, m *Message, s *httpSession) {
	if m.method == string(mcp.MethodInitialize) && s.id != "" {
		a.w.Header().Set(headerSession, s.id)
	}
	defer a.stream.abandon()
	if !a.jsonOnly {
		a.events = door.BeginEvents(a.w)
		defer a.events.Close()
	}
	b, there := a.streamUntilAnswer(ctx)
	if !there {
		a.stream.abandon()
		<-a.replied
		return
	}
	streams := !a.jsonOnly && a.events.StopHeartbeat()
	status := http.StatusOK
	switch {
	case m.Plain:
		if status = m.status; status == http.StatusServiceUnavailable {
			busy(time.Second, "").setRetryAfter(a.w)
		}
	case m.Modern && m.task == nil:
		status = statusOf(m.faultCode)
	}
	switch {
	case streams && b != nil:
		a.writeEvent(b)
	case streams:
	case b == nil:
		a.w.WriteHeader(http.StatusAccepted)
	default:
		writeMessage(a.w, status, b)
	}
}

// streamUntilAnswer writes messages and notifications until the answer arrives or ctx ends.
func (a *response) streamUntilAnswer(ctx context.Context) (answer []byte, there bool) {
	for ctx.Err() == nil {
		select {
		case n := <-a.stream.notifications:
			a.writeEvent(encodeNotification(n))
		case b := <-a.stream.messages:
			a.writeNotifications()
			a.writeEvent(b)
		case b := <-a.replied:
			a.writeNotifications()
			return b, true
		case <-ctx.Done():
		}
	}
	return nil, false
}

func (a *response) writeEvent(b []byte) { a.writeChunk("event: message\ndata: " + string(b) + "\n\n") }

// writeNotifications writes the queued notifications, so that they precede the answer.
func (a *response) writeNotifications() {
	for range len(a.stream.notifications) {
		a.writeEvent(encodeNotification(<-a.stream.notifications))
	}
}

// writeChunk writes a piece of a stream at once. If the client is gone, the request's context ends.
func (a *response) writeChunk(text string) {
	if !a.jsonOnly {
		_ = a.events.Send([]byte(text))
	}
}

// newKey returns a key for a request outside of sessions: ids are unique per client, and clients may share
// credentials.
func (h *HTTP) newKey() string { return "\x00" + strconv.FormatInt(h.keys.Add(1), 10) }

// respond starts an admitted request and writes its response. Since the 2026-07-28 protocol a disconnect cancels the
// request; before, the request continues. Expired credentials cancel it in both eras.
func (h *HTTP) respond(w http.ResponseWriter, r *http.Request, s *httpSession, m *Message) *refusal {
	i, _ := identity.From(r.Context())
	a := newResponse(w, r, m)
	m.release = door.VisitOf(r.Context()).RetainBody()
	var bad *Fault
	err := door.Decode(r.Context(), m.size, 0, func() error {
		bad = s.conn.startRequest(identity.With(s.ctx, i), m, a.stream, func(b []byte) { a.replied <- b })
		return nil
	})
	if err != nil || bad != nil {
		m.release()
	}
	switch {
	case err != nil:
		return refuseBody(err)
	case bad != nil:
		return &refusal{status: statusOf(bad.code), Fault: *bad}
	}
	defer s.conn.cancelOnDisconnect(r.Context(), m)()
	a.write(r.Context(), m, s)
	return nil
}

// cancelOnDisconnect cancels a request when its client disconnects or its credentials expire, until stop is called.
func (c *conn) cancelOnDisconnect(ctx context.Context, m *Message) (stop func() bool) {
	return context.AfterFunc(ctx, func() {
		if cause := context.Cause(ctx); m.Modern || !errors.Is(cause, context.Canceled) {
			c.cancel(m.key, cause)
		}
	})
}

// namesType reports whether the client names one of these content types in Accept.
func namesType(r *http.Request, kinds ...string) bool {
	for _, value := range r.Header.Values("Accept") {
		for accepted := range strings.SplitSeq(value, ",") {
			t, params, err := mime.ParseMediaType(accepted)
			if q, no := strconv.ParseFloat(params["q"], 64); err == nil && (no != nil || q > 0) && slices.Contains(kinds, t) {
				return true
			}
		}
	}
	return false
}

// refuseBody refuses a request whose body can't be read.
func refuseBody(err error) *refusal {
	if full, ok := errors.AsType[*door.Refused](err); ok {
		no := busy(full.Wait, full.Text)
		no.status = full.Status
		return no
	}
	if _, long := errors.AsType[*http.MaxBytesError](err); long {
		return refuse(http.StatusRequestEntityTooLarge, fmt.Sprintf("the body is too large: the maximum is %d bytes; write large data to a "+
			"session in parts", door.MaxBody))
	}
	return refuse(http.StatusBadRequest, "the body can't be read")
}
