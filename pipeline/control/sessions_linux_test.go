package control

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/audit"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
)

func TestFind(t *testing.T) {
	r := serveRuns(t)
	a, b := r.create("shell"), r.create("shell")
	common := 0
	for a.ID[common] == b.ID[common] {
		common++
	}
	var f *Failure
	for name, tt := range map[string]struct {
		id   string
		want string // a session, or ""
		code int
	}{
		"whole":      {a.ID, a.ID, 0},
		"lower case": {strings.ToLower(b.ID), b.ID, 0},
		"beginning":  {a.ID[:common+1], a.ID, 0},
		"both":       {a.ID[:common], "", http.StatusConflict},
		"nothing":    {"ZZ", "", http.StatusNotFound},
		"longer":     {a.ID + "0", "", http.StatusNotFound},
		"a path":     {"../../v1/server", "", http.StatusNotFound},
		"encoded":    {"..%2F..", "", http.StatusNotFound},
		"a NUL":      {"a\x00b", "", http.StatusNotFound},
		"a pattern":  {".*", "", http.StatusNotFound},
	} {
		list, err := Call(t.Context(), r.Client, ListUsage, OfLimits{Session: tt.id})
		_, deep := Call(t.Context(), r.Client, InspectSession, OfSession{ID: tt.id})
		switch {
		case tt.want == "":
			if !errors.As(err, &f) || f.Status != tt.code {
				t.Errorf("%s: got %v, want %d", name, err, tt.code)
			}
			if !errors.As(deep, &f) || f.Status != tt.code {
				t.Errorf("%s in a path: got %v, want %d", name, deep, tt.code)
			}
		case err != nil || deep != nil || len(list) != 1 || list[0].ID != tt.want:
			t.Errorf("%s: got %v, %v, %v", name, list, err, deep)
		}
	}
	_, err := Call(t.Context(), r.Client, EndSession, OfSession{ID: a.ID[:common]})
	if err == nil || !strings.Contains(err.Error(), a.ID) || !strings.Contains(err.Error(), b.ID) {
		t.Errorf("who may be meant is not told: %v", err)
	}
	if _, err := Call(t.Context(), r.Client, EndSession, OfSession{ID: a.ID}); err != nil {
		t.Error(err)
	}
	if list, err := Call(t.Context(), r.Client, ListUsage, OfLimits{Session: a.ID[:common]}); err != nil || len(list) != 1 ||
		list[0].ID != b.ID {
		t.Errorf("the living come first: %v, %v", list, err)
	}
	if _, err := Call(t.Context(), r.Client, ListUsage, OfLimits{Session: a.ID}); !errors.As(err, &f) || f.Status != http.StatusGone {
		t.Errorf("one that has ended: %v", err)
	}
}

func TestLimits(t *testing.T) {
	p := pipeline.New(pipeline.Config{Audit: recorder(func(context.Context, []audit.Entry) error { return nil })})
	c := connect(t, serve(t, Config{Pipeline: p}))
	now, err := Call(t.Context(), c, SetLimits, Change{Namespace: "team", Limits: pipeline.Limits{RAM: 100, Wall: 7}})
	if err != nil || now.Limits.RAM != 100 || now.Limits.Wall != 7 || now.Limits.Processes == 0 || now.Caps.RAM < 100 {
		t.Errorf("got %+v, %v", now, err)
	}
	if got, err := Call(t.Context(), c, GetLimits, OfLimits{InNamespace: InNamespace{Namespace: "team"}}); err != nil || got != now {
		t.Errorf("got %+v, %v", got, err)
	}
	if got, err := Call(t.Context(), c, GetLimits, OfLimits{}); err != nil || got.Namespace != "default" || got.Limits.RAM == 100 {
		t.Errorf("another namespace: %+v, %v", got, err)
	}
	var f *Failure
	for name, l := range map[string]pipeline.Limits{
		"above the cap": {RAM: now.Caps.RAM + 1}, "below nothing": {CPU: -1}, "an overflow": {RAM: 1 << 62}, "much time": {Wall: 1e300},
	} {
		if _, err := Call(t.Context(), c, SetLimits, Change{Namespace: "team", Limits: l}); !errors.As(err, &f) || f.Status >= 500 {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := Call(t.Context(), c, SetLimits, Change{Namespace: "team", Limits: pipeline.Limits{RAM: now.Caps.RAM + 1}}); !errors.As(err,
		&f) || !strings.Contains(f.Hint, "caps.ram_mb") {
		t.Errorf("which cap it is is not told: %+v", f)
	}
	if got, err := Call(t.Context(), c, GetLimits, OfLimits{InNamespace: InNamespace{Namespace: "team"}}); err != nil || got != now {
		t.Errorf("what was refused changed them: %+v, %v", got, err)
	}
}

// A malformed request is refused before anything is done.
func TestBadCells(t *testing.T) {
	p := pipeline.New(pipeline.Config{Audit: recorder(func(context.Context, []audit.Entry) error {
		t.Error("something was done")
		return nil
	})})
	l := serve(t, Config{Pipeline: p})
	for name, tt := range map[string]struct {
		text   string
		status int
	}{
		"no session":       {request("POST", "/v1/sessions/x/cells", `{"code":"1"}`), 404},
		"a path":           {request("POST", "/v1/sessions/..%2f..%2fetc/cells", `{"code":"1"}`), 404},
		"dots":             {request("POST", "/v1/sessions/%2e%2e/cells", `{"code":"1"}`), 404},
		"typing error":     {request("POST", "/v1/sessions/x/cells", `{"kode":"1"}`), 400},
		"two":              {request("POST", "/v1/sessions/x/cells", `{"code":"1"}{}`), 400},
		"no JSON":          {request("POST", "/v1/sessions", `language=python`), 400},
		"nothing":          {request("POST", "/v1/sessions", ""), 400},
		"deep":             {request("POST", "/v1/sessions", strings.Repeat("[", 20000)), 400},
		"large":            {request("POST", "/v1/sessions", `{"language":"`+strings.Repeat("x", maxBody)+`"}`), 400},
		"a long time":      {request("POST", "/v1/sessions", `{"language":"python","idle_seconds":1e308}`), 400},
		"who asks":         {request("POST", "/v1/sessions", `{"language":"python","user":"root"}`), 400},
		"a large cell":     {request("POST", "/v1/sessions/x/cells", `{"code":"`+strings.Repeat("x", maxCellBody)+`"}`), 400},
		"a large value":    {request("POST", "/v1/sessions/x/bridge", `{"key":"`+strings.Repeat("x", maxValueBody)+`"}`), 400},
		"get a cell":       {request("GET", "/v1/sessions/x/cells", ""), 404},
		"an unfinished":    {"POST /v1/sessions HTTP/1.1\r\nHost: x\r\nContent-Length: 90\r\n\r\n{", 400},
		"limits of no one": {request("GET", "/v1/limits?session=x", ""), 404},
		"usage of no one":  {request("GET", "/v1/usage?session="+url.QueryEscape("../x"), ""), 404},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := l
			if name == "an unfinished" {
				l = serveAt(t, Config{Pipeline: p}, impatient)
			}
			if status, body := raw(t, l, tt.text); status != tt.status {
				t.Errorf("got %d %.200s, want %d", status, body, tt.status)
			}
		})
	}
}
