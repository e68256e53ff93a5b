package response

import (
	"net/http"

	"github.com/sandboxmcp/sandboxmcp/pipeline/operation"
)

// Refused is why a request is not carried out: a status of HTTP, and a text for its sender.
type Refused struct {
	Status int
	Text   string
}

// Error implements [error].
func (r *Refused) Error() string { return r.Text }

// Refuse returns the error with which a handler refuses a request.
func Refuse(status int, text string) error { return &Refused{status, text} }

// Reply answers with JSON, or for nil with a status alone. It returns nil, as a handler does that has answered.
func Reply(w http.ResponseWriter, status int, body any) error {
	if body == nil {
		w.WriteHeader(status)
	} else {
		operation.Reply(w, status, body)
	}
	return nil
}

// Warn says something in the header of an answer that has no body; "" is nothing.
func Warn(w http.ResponseWriter, text string) {
	if text != "" {
		w.Header().Set("Warning", `199 sandboxmcp "`+text+`"`) // RFC 7234, section 5.5
	}
}
