package e2b

import (
	"encoding/json"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/sandboxmcp/sandboxmcp/pipeline/identity"
)

// fault is an error as E2B's API has it.
type fault struct {
	Code    int    `json:"code"` // of HTTP
	Message string `json:"message"`
}

func reply(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // the client may be gone
}

func refuse(w http.ResponseWriter, status int, message string) {
	reply(w, status, fault{status, message})
}

// refuseIdentity answers a request of nobody, or of somebody who asks too often.
func refuseIdentity(w http.ResponseWriter, e *identity.Refused) {
	if e.Wait > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(e.Wait.Seconds()))))
	}
	refuse(w, e.Status, e.Text+": "+e.Hint)
}

// parseUnix reads seconds since 1970.
func parseUnix(text string) (time.Time, error) {
	seconds, err := strconv.ParseInt(text, 10, 64)
	return time.Unix(seconds, 0), err
}
