package e2b

import (
	"net/http"

	"github.com/sandboxmcp/sandboxmcp/pipeline/door"
)

// fault is an error in E2B's format.
type fault struct {
	Code    int    `json:"code"` // HTTP status
	Message string `json:"message"`
}

func refuse(w http.ResponseWriter, status int, message string) {
	door.Reply(w, status, fault{status, message})
}
