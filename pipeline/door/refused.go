package door

import (
	"encoding/json"
	"math"
	"net/http"
	"strconv"
	"time"
)

// Refused is the error of a request that is not carried out.
type Refused struct {
	Status int           // of HTTP
	Code   string        // of RFC 6750, such as "invalid_token"; "" is none
	Text   string        // for the sender
	Hint   string        // what the sender can do about it; "" is nothing
	Wait   time.Duration // after which to try again; 0 says nothing about that
}

// Error implements [error].
func (r *Refused) Error() string { return r.Text }

// RetryAfter says in the header of an answer, in whole seconds, when to try again, if that is known.
func (r *Refused) RetryAfter(h http.Header) {
	if r.Wait > 0 {
		h.Set("Retry-After", strconv.Itoa(int(math.Ceil(r.Wait.Seconds()))))
	}
}

// WriteWith has refuse answer in the form of a protocol, with the hint behind the text.
func (r *Refused) WriteWith(w http.ResponseWriter, refuse func(w http.ResponseWriter, status int, text string)) {
	r.RetryAfter(w.Header())
	refuse(w, r.Status, r.Text+": "+r.Hint)
}

// Refuse returns the error with which a handler refuses a request.
func Refuse(status int, text string) error { return &Refused{Status: status, Text: text} }

// Busy returns the error of a request for which there is no room at the moment: its status is 429 where the sender's
// own requests have the room, and 503 where those of others do.
func Busy(status int, text string) *Refused {
	return &Refused{Status: status, Text: text, Hint: "try again later", Wait: time.Second}
}

// Reply answers with a JSON value, or for nil with a status alone. An answer that is busy says when to try again. Reply
// returns nil, as a handler does that has answered.
func Reply(w http.ResponseWriter, status int, body any) error {
	if body == nil {
		w.WriteHeader(status)
		return nil
	}
	if (status == http.StatusServiceUnavailable || status == http.StatusTooManyRequests) && w.Header().Get("Retry-After") == "" {
		w.Header().Set("Retry-After", "1")
	}
	writeJSON(w, status, body)
	return nil
}

// writeJSON writes a JSON value as an answer that nobody stores.
func writeJSON(w http.ResponseWriter, status int, body any) {
	b, err := json.Marshal(body)
	if err != nil {
		status, b = http.StatusInternalServerError, []byte(`{"error":"what the server has to say can't be written as JSON"}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(append(b, '\n')) // a client that has gone needs no answer
}

// Warn says something in the header of an answer that has no body; "" is nothing.
func Warn(w http.ResponseWriter, text string) {
	if text != "" {
		w.Header().Set("Warning", `199 sandboxmcp "`+text+`"`) // RFC 7234, section 5.5
	}
}
