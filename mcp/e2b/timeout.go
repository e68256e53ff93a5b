package e2b

import (
	"math"
	"net/http"
	"time"

	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/operation"
)

// maxSeconds is more than any server allows, and fits into a duration.
const maxSeconds = math.MaxInt32

// lifetime has a sandbox end after seconds from now on; extend keeps a later end.
func (s *Server) lifetime(r *http.Request, b *Sandbox, seconds int64, extend bool) error {
	at := time.Now().Add(time.Duration(min(seconds, maxSeconds)) * time.Second)
	_, err := s.cfg.Pipeline.Do(r.Context(), pipeline.ChangeSession{Namespace: b.Namespace, Session: b.session(), Ends: at, Extend: extend})
	return err
}

// secondsOf reads the seconds of a request's body, in a field.
func secondsOf(w http.ResponseWriter, r *http.Request, field string, lack int64) (seconds int64, ok bool) {
	q := map[string]any{}
	if r.ContentLength != 0 && !decode(w, r, &q) {
		return 0, false
	}
	value, named := q[field]
	if !named {
		return lack, true
	}
	number, is := value.(float64)
	if !is || number < 0 || number != math.Trunc(number) {
		refuse(w, http.StatusBadRequest, field+" must be a number of seconds from 0 on")
		return 0, false
	}
	return int64(min(number, maxSeconds)), true
}

func (s *Server) setTimeout(w http.ResponseWriter, r *http.Request, b *Sandbox) {
	seconds, ok := secondsOf(w, r, "timeout", defaultTimeout)
	if !ok {
		return
	}
	if err := s.lifetime(r, b, seconds, false); err != nil {
		refusePipeline(w, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// refresh keeps a sandbox for a while, an hour at most.
func (s *Server) refresh(w http.ResponseWriter, r *http.Request, b *Sandbox) {
	seconds, ok := secondsOf(w, r, "duration", defaultTimeout)
	if !ok {
		return
	}
	if seconds > 3600 {
		refuse(w, http.StatusBadRequest, "duration is 3600 seconds at most")
		return
	}
	if err := s.lifetime(r, b, seconds, true); err != nil {
		refusePipeline(w, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// connect answers how a sandbox is reached, and keeps it for as long as it is asked to: a shorter time changes nothing. One that is paused runs again.
func (s *Server) connect(w http.ResponseWriter, r *http.Request, b *Sandbox) {
	seconds, ok := secondsOf(w, r, "timeout", usualTimeout(r))
	if !ok {
		return
	}
	b.changing.Lock()
	defer b.changing.Unlock()
	status, err := http.StatusOK, error(nil)
	if s.paused(b) {
		status, err = http.StatusCreated, s.resume(r, b, seconds)
	} else {
		err = s.lifetime(r, b, seconds, true)
	}
	if err != nil {
		refusePipeline(w, err)
		return
	}
	operation.Reply(w, status, s.connection(b))
}
