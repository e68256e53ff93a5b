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
		"POST /v1/sessions":             answers(l.create),
		"DELETE /v1/sessions/{id}":      answers(l.end),
		"GET /v1/sessions/{id}/state":   answers(l.state),
		"POST /v1/sessions/{id}/cells":  l.cell,
		"POST /v1/sessions/{id}/bridge": answers(l.bridge),
		"POST /v1/sessions/{id}/copy":   answers(l.copy),
		"POST /v1/runs":                 l.run,
	} {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			if l.c.Pipeline == nil {
				deny(w, errNothing)
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
	for pattern, f := range map[string]func(*http.Request) (any, error){
		"GET /v1/sessions":              func(r *http.Request) (any, error) { return l.c.Pipeline.Sessions(r.URL.Query().Get("namespace")), nil },
		"GET /v1/usage":                 l.usage,
		"POST /v1/cells/{id}/interrupt": l.interrupt,
		"GET /v1/limits":                l.limits,
		"POST /v1/limits":               l.setLimits,
		"GET /v1/queue":                 func(*http.Request) (any, error) { return l.c.Pipeline.Load(), nil },
		"GET /v1/stats":                 func(*http.Request) (any, error) { return l.c.Pipeline.Stats(), nil },
		"GET /v1/jobs":                  func(r *http.Request) (any, error) { return l.c.Pipeline.Jobs(r.URL.Query().Get("namespace")), nil },
	} {
		mux.HandleFunc(pattern, answers(func(r *http.Request) (any, error) {
			if l.c.Pipeline == nil {
				return nil, errNothing
			}
			return f(r.WithContext(asked(r)))
		}))
	}
}

var errNothing = failure(http.StatusNotFound, "this server runs nothing")

// asked is the context of a request, with who made it.
func asked(r *http.Request) context.Context {
	return pipeline.ByCaller(r.Context(), pipeline.Caller{By: "command line", User: userName(r.Context())})
}

// read decodes the body of a request strictly.
func read(r *http.Request, limit int64, into any) error {
	body, err := readBody(r.Body, limit)
	if err == nil {
		err = decode(body, into)
	}
	if err != nil {
		return failure(http.StatusBadRequest, "read what is asked for: %v", err)
	}
	return nil
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
