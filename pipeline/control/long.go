package control

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/sandboxmcp/sandboxmcp/pipeline"
)

// maxLong is how many requests without an end may be under way, so that there is room for the short ones beside them.
const maxLong = 32

// long registers what takes as long as programs do. It ends with the client, or with the server.
func (l *Listener) long(mux *http.ServeMux) {
	for pattern, f := range map[string]http.HandlerFunc{
		"POST /v1/sessions":             l.create,
		"DELETE /v1/sessions/{id}":      l.found(l.end),
		"GET /v1/sessions/{id}/state":   l.found(l.state),
		"POST /v1/sessions/{id}/cells":  l.cell,
		"POST /v1/sessions/{id}/bridge": l.bridge,
		"POST /v1/sessions/{id}/copy":   l.copy,
		"POST /v1/runs":                 l.run,
	} {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			if l.c.Pipeline == nil {
				refuse(w, http.StatusNotFound, errNothing)
				return
			}
			if err := l.longs.enter(maxLong, "have something run"); err != nil {
				refuse(w, http.StatusServiceUnavailable, err)
				return
			}
			defer l.longs.leave()
			if err := gather(w, r); err != nil {
				refuse(w, http.StatusBadRequest, err)
				return
			}
			ctx, cancel := context.WithCancel(asked(r))
			defer cancel()
			go func() {
				select {
				case <-l.longs.over:
					cancel()
				case <-ctx.Done():
				}
			}()
			f(w, r.WithContext(ctx))
		})
	}
}

// short registers what is answered at once, or else not at all.
func (l *Listener) short(mux *http.ServeMux) {
	for pattern, f := range map[string]http.HandlerFunc{
		"GET /v1/sessions":              l.sessions,
		"GET /v1/usage":                 l.usage,
		"POST /v1/cells/{id}/interrupt": l.interrupt,
		"GET /v1/limits":                l.limits,
		"POST /v1/limits":               l.setLimits,
		"GET /v1/queue":                 func(w http.ResponseWriter, _ *http.Request) { reply(w, http.StatusOK, l.c.Pipeline.Load()) },
		"GET /v1/stats":                 func(w http.ResponseWriter, _ *http.Request) { reply(w, http.StatusOK, l.c.Pipeline.Stats()) },
		"GET /v1/jobs": func(w http.ResponseWriter, r *http.Request) {
			reply(w, http.StatusOK, l.c.Pipeline.Jobs(r.URL.Query().Get("namespace")))
		},
	} {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			if l.c.Pipeline == nil {
				refuse(w, http.StatusNotFound, errNothing)
				return
			}
			f(w, r.WithContext(asked(r)))
		})
	}
}

var errNothing = errors.New("this server runs nothing")

// asked is the context of a request, with who made it.
func asked(r *http.Request) context.Context {
	return pipeline.ByCaller(r.Context(), pipeline.Caller{By: "command line", User: userName(r.Context())})
}

// read reads what a client sends, strictly. It has answered where it returns false.
func read(w http.ResponseWriter, r *http.Request, limit int64, into any) bool {
	body, err := readBody(r.Body, limit)
	if err == nil {
		err = decode(body, into)
	}
	if err != nil {
		refuse(w, http.StatusBadRequest, fmt.Errorf("read what is asked for: %w", err))
		return false
	}
	return true
}

// gather has the whole body of a request in memory, and then gives its client all the time in the world.
func gather(w http.ResponseWriter, r *http.Request) error {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxValueBody+1))
	if err != nil {
		return fmt.Errorf("read what is asked for: %w", err)
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	c := http.NewResponseController(w)
	return errors.Join(c.SetReadDeadline(time.Time{}), c.SetWriteDeadline(time.Time{}))
}
