package e2b

import (
	"math"
	"net/http"
	"time"

	"github.com/sandboxmcp/sandboxmcp/pipeline/session"

	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/door"
)

// maxSeconds is more than any server allows, and fits into a duration.
const maxSeconds = math.MaxInt32

// setLifetime lets a sandbox end in seconds from now; with extend, it never moves the end forward.
func (s *Server) setLifetime(r *http.Request, b *Sandbox, seconds int64, extend bool) error {
	at := time.Now().Add(time.Duration(min(seconds, maxSeconds)) * time.Second)
	_, _, err := pipeline.Do(r.Context(), s.cfg.Pipeline, session.Change{
		Namespace: b.Namespace, Session: b.session(), Ends: at, Extend: extend,
	})
	return err
}

// secondsOf reads the timeout in a request's body.
func secondsOf(r *http.Request, lack int64) (seconds int64, err error) {
	q := struct{ Timeout float64 }{float64(lack)}
	if err := decodeOptional(r, &q); err != nil {
		return 0, err
	}
	if q.Timeout < 0 || q.Timeout != math.Trunc(q.Timeout) {
		return 0, door.Refuse(http.StatusBadRequest, "timeout must be a number of seconds, 0 or more")
	}
	return int64(min(q.Timeout, maxSeconds)), nil
}

func (s *Server) setTimeout(w http.ResponseWriter, r *http.Request, b *Sandbox) error {
	seconds, err := secondsOf(r, defaultTimeout)
	if err != nil {
		return err
	}
	if err := s.setLifetime(r, b, seconds, false); err != nil {
		return err
	}
	return door.Reply(w, http.StatusNoContent, nil)
}

// connect answers with the data to reach a sandbox, and extends its life to the requested time if that is later. A
// paused sandbox is resumed.
func (s *Server) connect(w http.ResponseWriter, r *http.Request, b *Sandbox) error {
	seconds, err := secondsOf(r, defaultTimeoutOf(r))
	if err != nil {
		return err
	}
	b.changing.Lock()
	defer b.changing.Unlock()
	status := http.StatusOK
	if s.isPaused(b) {
		status, err = http.StatusCreated, s.resume(r, b, seconds)
	} else {
		err = s.setLifetime(r, b, seconds, true)
	}
	if err != nil {
		return err
	}
	return door.Reply(w, status, s.connection(r, b))
}
