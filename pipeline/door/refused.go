package door

import (
	"encoding/json"
	"math"
	"net/http"
	"strconv"
	"time"
)

// Refused is the error of a request that is not performed.
type Refused struct {
	Status int           // HTTP status
	Code   string        // error code of RFC 6750, such as "invalid_token"; "" is none
	Text   string        // for the sender
	Hint   string        // advice for the sender; "" is none
	Wait   time.Duration // time after which to try again; 0 is unknown
}

// Error implements [error].
func (r *Refused) Error() string { return r.Text }

// RetryAfter sets the header Retry-After, in whole seconds, if the time is known.
func (r *Refused) RetryAfter(h http.Header) {
	if r.Wait > 0 {
		h.Set("Retry-After", strconv.Itoa(int(math.Ceil(r.Wait.Seconds()))))
	}
}

// WriteWith answers with refuse, in the form of a protocol, with the hint after the text.
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

// Reply answers with a JSON value, or for nil with a status alone. A busy status gets a Retry-After. Reply returns
// nil, so that handlers can return its result.
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

// writeJSON writes a JSON value as an answer that must not be cached.
func writeJSON(w http.ResponseWriter, status int, body any) {
	b, err := json.Marshal(body)
	if err != nil {
		status, b = http.StatusInternalServerError, []byte(`{"error":"the answer can't be encoded as JSON"}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(append(b, '\n')) // on error, the client has gone
}

// Warn sets a warning header, for an answer without a body; "" sets none.
func Warn(w http.ResponseWriter, text string) {
	if text != "" {
		w.Header().Set("Warning", `199 sandboxmcp "`+text+`"`) // RFC 7234, section 5.5
	}
}
