package enginecheck_test

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/run"
)

// outcome is the result of Do and the streamed output.
type outcome struct {
	res            pipeline.Outcome
	err            error
	stdout, stderr strings.Builder
}

func (r request) runOn(ctx context.Context, b *bench) *outcome {
	q := run.Request{Language: r.language, Name: "program", Code: []byte(r.code)}
	if r.change != nil {
		r.change(b, &q)
	}
	var o outcome
	q.Stdout, q.Stderr = &o.stdout, &o.stderr
	_, o.res, o.err = pipeline.Do(ctx, b.Pipeline, q)
	return &o
}

// TestSameResults checks that the same request has the same result in each backend, field by field.
func TestSameResults(t *testing.T) {
	benches := newBenches(t)
	for _, r := range testRequests() {
		if r.long && hosttest.Rounds(0, 1) == 0 {
			continue
		}
		t.Run(r.name, func(t *testing.T) {
			all := runTogether(benches, func(b *bench) *outcome { return r.runOn(t.Context(), b) })
			first := all[0]
			if want := cmp.Or(r.ended, backends.EndedOK); first.res.Ended != want || !strings.Contains(first.res.Stdout, r.stdout) {
				t.Errorf("%s ended %s, want %s: %.2000s%.2000s %v", first.res.Backend, first.res.Ended, want, first.res.Stdout, first.res.Stderr,
					first.err)
			}
			for i, o := range all[1:] {
				kind := benches[i+1].kind
				if (o.err == nil) != (first.err == nil) {
					t.Errorf("%s: error %v, want %v", kind, o.err, first.err)
				}
				compareOutcomes(t, first.res, o.res)
				if o.stdout.String() != first.stdout.String() || o.stderr.String() != first.stderr.String() {
					t.Errorf("%s streamed %d and %d bytes, %s %d and %d", kind, o.stdout.Len(), o.stderr.Len(), first.res.Backend, first.stdout.Len(),
						first.stderr.Len())
				}
			}
		})
	}
}

// TestSameCancelled cancels the caller's context.
func TestSameCancelled(t *testing.T) {
	benches := newBenches(t)
	all := runTogether(benches, func(b *bench) *outcome {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		r := request{language: "shell", code: "echo begun; sleep 100 & sleep 100", change: func(_ *bench, q *run.Request) {
			q.Stdout = onWrite{cancel}
		}}
		q := run.Request{Language: r.language, Name: "program", Code: []byte(r.code)}
		r.change(b, &q)
		var o outcome
		_, o.res, o.err = pipeline.Do(ctx, b.Pipeline, q)
		return &o
	})
	for _, o := range all {
		if o.res.Ended != backends.EndedCancelled || o.err != nil && !errors.Is(o.err, context.Canceled) {
			t.Errorf("%s ended %s, %v", o.res.Backend, o.res.Ended, o.err)
		}
		o.res.PeakMemory = 0 // it may have ended before the first measurement
		compareOutcomes(t, all[0].res, o.res)
	}
}

type onWrite struct{ do func() }

func (w onWrite) Write(b []byte) (int, error) {
	w.do()
	return len(b), nil
}
