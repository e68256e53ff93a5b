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

// refused is why a request is not served: the fault is its answer.
type refused struct {
	status int
	retry  time.Duration // after which it may be served; 0 says nothing
	Fault
}

func refuse(status int, text string) *refused {
	return &refused{status: status, Fault: Fault{code: mcp.INVALID_REQUEST, text: text}}
}

func busy(retry time.Duration, text string) *refused {
	return &refused{http.StatusServiceUnavailable, retry, Fault{code: codeBusy, text: text}}
}

// draining refuses a request of a server that takes no more.
func draining() *refused {
	no := refuse(http.StatusServiceUnavailable, "the server ends")
	no.retry = time.Second
	return no
}

// later says in the headers when the request may be served.
func (no *refused) later(w http.ResponseWriter) {
	(&door.Refused{Wait: no.retry}).RetryAfter(w.Header())
}

func writeMessage(w http.ResponseWriter, status int, b []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(b) // the client may be gone
}

// statusOf is the HTTP status that goes with the error of a request of the 2026-07-28 protocol, or of one that was not
// begun.
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

// response is the response to one request: the answer as JSON, or a stream of events where something else comes before
// it.
type response struct {
	w       http.ResponseWriter
	to      *stream
	replied chan []byte  // gets the answer, or nil if the client wants none; nil never does
	whole   bool         // the client takes the answer alone
	events  *door.Stream // where something comes before the answer; nil never is begun
}

// newResponse returns the response to a message. Without the protocol it is JSON with its status, unless the client
// asks for events.
func newResponse(w http.ResponseWriter, r *http.Request, m *Message) response {
	return response{w: w, to: newStream(), replied: make(chan []byte, 1), whole: m.Plain && !names(r, "text/event-stream")}
}

// write writes the response, and returns when the request is answered, also if the client is gone by then.
func (a *response) write(ctx context.Context, m *Message, s *httpSession) {
	if m.method == string(mcp.MethodInitialize) && s.id != "" {
		a.w.Header().Set(headerSession, s.id)
	}
	defer a.to.abandon()
	if !a.whole {
		a.events = door.BeginEvents(a.w)
		defer a.events.Close()
	}
	b, there := a.follow(ctx)
	if !there {
		a.to.abandon()
		<-a.replied
		return
	}
	streams := !a.whole && a.events.Hush()
	status := http.StatusOK
	switch {
	case m.Plain:
		if status = m.status; status == http.StatusServiceUnavailable {
			busy(time.Second, "").later(a.w)
		}
	case m.Modern && m.task == nil:
		status = statusOf(m.failed)
	}
	switch {
	case streams && b != nil:
		a.event(b)
	case streams:
	case b == nil:
		a.w.WriteHeader(http.StatusAccepted)
	default:
		writeMessage(a.w, status, b)
	}
}

// follow sends what there is to say until there is the answer, or ctx ends.
func (a *response) follow(ctx context.Context) (answer []byte, there bool) {
	for ctx.Err() == nil {
		select {
		case n := <-a.to.notifications:
			a.event(encodeNotification(n))
		case b := <-a.to.messages:
			a.notified()
			a.event(b)
		case b := <-a.replied:
			a.notified()
			return b, true
		case <-ctx.Done():
		}
	}
	return nil, false
}

func (a *response) event(b []byte) { a.chunk("event: message\ndata: " + string(b) + "\n\n") }

// notified sends the notifications that wait: those before an answer go before it.
func (a *response) notified() {
	for range len(a.to.notifications) {
		a.event(encodeNotification(<-a.to.notifications))
	}
}

// chunk sends a piece of a stream at once. A client that is gone is noticed by the end of the request's context.
func (a *response) chunk(text string) {
	if !a.whole {
		_ = a.events.Send([]byte(text))
	}
}

// newKey returns a key of a request outside of sessions: ids are one client's, and many may have the same credentials.
func (h *HTTP) newKey() string { return "\x00" + strconv.FormatInt(h.keys.Add(1), 10) }

// respond has a request answered that is admitted. A client that goes away cancels what it waits for since the protocol
// 2026-07-28; before that, what was begun goes on. Credentials that end cancel it in any case.
func (h *HTTP) respond(w http.ResponseWriter, r *http.Request, s *httpSession, m *Message) *refused {
	i, _ := identity.From(r.Context())
	a := newResponse(w, r, m)
	m.release = door.VisitOf(r.Context()).Keep()
	var bad *Fault
	err := door.Decode(r.Context(), m.size, 0, func() error {
		bad = s.conn.request(identity.With(s.ctx, i), m, a.to, func(b []byte) { a.replied <- b })
		return nil
	})
	if err != nil || bad != nil {
		m.release()
	}
	switch {
	case err != nil:
		return unread(err)
	case bad != nil:
		return &refused{status: statusOf(bad.code), Fault: *bad}
	}
	defer s.conn.cancelWith(r.Context(), m)()
	a.write(r.Context(), m, s)
	return nil
}

// cancelWith cancels what a request began when its client goes away, or its credentials end, until stop.
func (c *conn) cancelWith(ctx context.Context, m *Message) (stop func() bool) {
	return context.AfterFunc(ctx, func() {
		if cause := context.Cause(ctx); m.Modern || !errors.Is(cause, context.Canceled) {
			c.cancel(m.key, cause)
		}
	})
}

// names reports whether the client says that it takes one of these types of content.
func names(r *http.Request, kinds ...string) bool {
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

// unread refuses a request whose body can't be read.
func unread(err error) *refused {
	if full, ok := errors.AsType[*door.Refused](err); ok {
		no := busy(full.Wait, full.Text)
		no.status = full.Status
		return no
	}
	if _, long := errors.AsType[*http.MaxBytesError](err); long {
		return refuse(http.StatusRequestEntityTooLarge, fmt.Sprintf("%d bytes are the most: put large data into a session piece by piece", door.MaxBody))
	}
	return refuse(http.StatusBadRequest, "the body can't be read")
}
