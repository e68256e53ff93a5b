package mcp

import (
	"context"
	"net/http"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/sandboxmcp/sandboxmcp/pipeline/door"
)

// refused is why a request is not served: the fault is its answer.
type refused struct {
	status int
	retry  time.Duration // after which it may be served; 0 says nothing
	fault
}

func refuse(status int, text string) *refused {
	return &refused{status: status, fault: fault{code: mcp.INVALID_REQUEST, text: text}}
}

func busy(retry time.Duration, text string) *refused {
	return &refused{http.StatusServiceUnavailable, retry, fault{code: codeBusy, text: text}}
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

// statusOf is the HTTP status that goes with the error of a request of the 2026-07-28 protocol, or of one that was not begun.
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

// response is the response to one request: the answer as JSON, or a stream of events where something else comes before it.
type response struct {
	w       http.ResponseWriter
	to      *stream
	replied chan []byte  // gets the answer, or nil if the client wants none; nil never does
	whole   bool         // the client takes the answer alone
	events  *door.Stream // where something comes before the answer; nil never is begun
}

// newResponse returns the response to a message. Without the protocol it is JSON with its status, unless the client asks for events.
func newResponse(w http.ResponseWriter, r *http.Request, m *message) response {
	return response{w: w, to: newStream(), replied: make(chan []byte, 1), whole: m.plain && !names(r, "text/event-stream")}
}

// write writes the response, and returns when the request is answered, also if the client is gone by then.
func (a *response) write(ctx context.Context, m *message, s *httpSession) {
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
	case m.plain:
		if status = m.status; status == http.StatusServiceUnavailable {
			busy(time.Second, "").later(a.w)
		}
	case m.modern && m.task == nil:
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
