package run_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/event"
	"github.com/sandboxmcp/sandboxmcp/pipeline/pipelinetest"
	"github.com/sandboxmcp/sandboxmcp/pipeline/run"
)

func TestCapture(t *testing.T) {
	for _, tt := range []struct {
		name       string
		capture    pipeline.Capture
		want, none []string
	}{
		{"nothing", pipeline.Capture{}, nil, []string{"code-4711", "output-4711", pipeline.ExecutionCaptured}},
		{"code", pipeline.Capture{Code: true}, []string{`"code":"# code-4711`}, []string{"stdout-4711"}},
		{"output", pipeline.Capture{Output: true}, []string{`"stdout":"stdout-4711 ***REDACTED***\n"`, `"stderr":"stderr-4711\n"`},
			[]string{"code-4711"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bus := event.NewBus()
			r := pipelinetest.NewRig(t, func(c *pipeline.Config) { c.Capture, c.Bus = tt.capture, bus })
			listening, _, _ := bus.Listen(event.Filter{Namespace: event.All}, 100, 0)
			events, cancel := listening.Events(), listening.Cancel
			r.Memory.Set("default", "TOKEN", []byte("hunter2-hunter2"))
			_, err := r.Shell("# code-4711 hunter2-hunter2\necho stdout-4''711 $TOKEN; echo stderr-4''711 >&2",
				func(q *run.Request) { q.Secrets = []string{"TOKEN"} })
			if err != nil {
				t.Fatal(err)
			}
			_, text := r.Rows()
			for _, want := range tt.want {
				if !strings.Contains(text, want) {
					t.Errorf("the log lacks %s:\n%s", want, text)
				}
			}
			for _, no := range append(tt.none, "hunter2") {
				if strings.Contains(text, no) {
					t.Errorf("the log holds %s:\n%s", no, text)
				}
			}
			cancel()
			for e := range events {
				if !slices.Contains(event.Names(), e.Name) {
					t.Errorf("listeners were told of %s", e.Name)
				}
			}
		})
	}
}

// A program must not get rid of its record by printing much, or text that JSON makes long.
func TestCaptureIsCut(t *testing.T) {
	r := pipelinetest.NewRig(t, func(c *pipeline.Config) { c.Capture = pipeline.Capture{Code: true, Output: true} })
	res, err := r.Shell(`head -c 900000 /dev/zero; head -c 900000 /dev/zero >&2 #`+strings.Repeat("\x01", 900_000), nil)
	if err != nil || len(res.Stdout) != 900_000 {
		t.Fatalf("%d bytes, %v", len(res.Stdout), err)
	}
	kinds, text := r.Rows()
	want := []string{pipeline.ExecutionCaptured, event.ExecutionStarted, pipeline.ExecutionCaptured, event.ExecutionCompleted}
	if !slices.Equal(kinds, want) || !strings.Contains(text, `"stdout_bytes":900000`) {
		t.Errorf("rows %v, want %v", kinds, want)
	}
}
