package e2b

import (
	"net/http"

	"github.com/sandboxmcp/sandboxmcp/pipeline/door"
)

// fault is an error as E2B's API has it.
type fault struct {
	Code    int    `json:"code"` // of HTTP
	Message string `json:"message"`
}

func refuse(w http.ResponseWriter, status int, message string) {
	door.Reply(w, status, fault{status, message})
}
