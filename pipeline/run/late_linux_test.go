package run_test

import (
	"errors"
	"io/fs"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/audit"
	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/event"
	"github.com/sandboxmcp/sandboxmcp/pipeline/pipelinetest"
	"github.com/sandboxmcp/sandboxmcp/pipeline/run"
	"github.com/sandboxmcp/sandboxmcp/pipeline/session"
)

// TestTakenAwayWithoutALog: an action that ends something takes effect even if the log can't be written, and reports
// that its row is late; no other action does.
func TestTakenAwayWithoutALog(t *testing.T) {
	dir := t.TempDir()
	p, log, _ := pipelinetest.NewReal(t, func(c *pipeline.Config) { c.Journal = dir })
	var late []string
	_, full := audit.Open(t.Context(), "/proc/of-the-host/audit.db")
	full = audit.NotWritten(full)
	r, wait := begun(t, p, run.Request{Language: "shell", Code: []byte("sleep 1000")})
	info := pipelinetest.Open(t, p, session.New{Language: "shell"})
	log.Fail = func(entries []audit.Entry) error {
		for _, e := range entries {
			if e.Late {
				late = append(late, e.Kind)
			}
		}
		return full
	}
	_, res, err := pipeline.Do(t.Context(), p, pipeline.Interrupt{Namespace: r.Namespace, Run: r.Run, Kill: true})
	if err != nil || res.LateRowWarning() == "" {
		t.Errorf("an interrupt: %v, %q", err, res.LateRowWarning())
	}
	wait()
	if list := p.ListRunning(""); len(list) != 0 {
		t.Errorf("%+v is under way", list)
	}
	if _, res, err = pipeline.Do(t.Context(), p, session.End{Session: info.ID}); err != nil || res.LateRowWarning() == "" {
		t.Errorf("the end of a session: %v, %q", err, res.LateRowWarning())
	}
	if now, err := session.InfoOf(p, "", info.ID); err != nil || now.State != "dead" {
		t.Errorf("the session is %s, %v", now.State, err)
	}
	if got := strings.Join(late, " "); !strings.Contains(got, "execution.interrupted") || !strings.Contains(got, event.SessionKilled) {
		t.Errorf("rows that are late: %s", got)
	}
	for name, e := range map[string]doing{"a run": doingOf(run.Request{Language: "shell", Code: []byte("echo x")}),
		"a session": doingOf(session.New{Language: "shell"})} {
		_, err := e(t.Context(), p)
		if !errors.As(err, new(*pipeline.UnrecordedError)) || strings.Contains(err.Error()+pipeline.PublicText(err), "of-the-host") ||
			pipeline.PublicText(err) == pipeline.InternalErrorText {
			t.Errorf("%s: %v, for clients %q", name, err, pipeline.PublicText(err))
		}
	}
	id, done := run.StartJob(t.Context(), p, run.Request{Language: "shell", Code: []byte("echo x")})
	<-done
	journal, err := readJournal(dir)
	var open []string
	for line := range strings.Lines(string(journal)) {
		if words := strings.Fields(line); words[0] == "+" {
			open = append(open, words[2])
		} else {
			open = slices.DeleteFunc(open, func(s string) bool { return s == words[1] })
		}
	}
	slices.Sort(open)
	if want := []string{r.Run, info.ID}; err != nil || !slices.Equal(open, want) { // the log lacks their ends
		t.Errorf("the journal lists %q, want %q (%v): the refused job %s never began", open, want, err, id)
	}
	log.Fail = nil
	hosttest.Until(t, "runs go on", func() bool {
		_, _, err := pipeline.Do(t.Context(), p, run.Request{Language: "shell", Code: []byte("echo x")})
		return err == nil
	})
}

// TestHidePaths: of a file that an error names, clients learn no directory.
func TestHidePaths(t *testing.T) {
	in := &fs.PathError{Op: "open", Path: "/var/state/runs/x", Err: syscall.ENOSPC}
	for _, err := range []error{in, errors.Join(errors.New("y"), in), (&pipeline.Error{Reason: in.Error()}).WithCause(in)} {
		if got := pipeline.HidePaths(err.Error(), err); strings.Contains(got, "/var") || !strings.Contains(got, "…/x: no space left") {
			t.Errorf("got %s", got)
		}
	}
}
