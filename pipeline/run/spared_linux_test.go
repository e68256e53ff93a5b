package run_test

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/pipelinetest"
	"github.com/sandboxmcp/sandboxmcp/pipeline/run"
	"github.com/sandboxmcp/sandboxmcp/vault"
)

// sparer is a backend that writes nothing that a writer does not need, as those do whose sandboxes are elsewhere.
type sparer struct{ backends.Backend }

func (b sparer) Start(ctx context.Context, spec backends.Spec) (backends.Sandbox, error) {
	s, err := b.Backend.Start(ctx, spec)
	return sparingSandbox{s}, err
}

type sparingSandbox struct{ backends.Sandbox }

func (s sparingSandbox) Exec(ctx context.Context, c backends.Command, streams backends.Streams) (backends.Result, error) {
	out, errs := &sparingWriter{Writer: streams.Stdout}, &sparingWriter{Writer: streams.Stderr}
	streams.Stdout, streams.Stderr = out, errs
	r, err := s.Sandbox.Exec(ctx, c, streams)
	for _, w := range []*sparingWriter{out, errs} {
		if w.skip != nil {
			w.skip.Done(w.n)
		}
	}
	return r, err
}

type sparingWriter struct {
	io.Writer
	skip *backends.Skip
	n    int64
}

func (w *sparingWriter) Write(b []byte) (n int, err error) {
	if w.skip != nil {
		w.n += int64(len(b))
		return len(b), nil
	}
	n, err = w.Writer.Write(b)
	w.skip = w.Writer.(backends.Sparing).Spare()
	return n, err
}

// TestSparedIsTheSame has a program's secrets lie before, across and behind the cut. The returned text is the same
// whether the rest of the output is carried or counted elsewhere. The number of cut bytes differs only by the secrets,
// which count there as they were written. A caller that asks for the whole output is spared none of it.
func TestSparedIsTheSame(t *testing.T) {
	type streams struct {
		stdout, stderr string
		cut1, cut2     int64
	}
	run := func(backend func(backends.Backend) backends.Backend, output int64, whole io.Writer) streams {
		p, _, memory := pipelinetest.NewReal(t, func(c *pipeline.Config) { c.Backends[0] = backend(c.Backends[0]) })
		memory.Set("default", "TOKEN", []byte(password))
		q := run.Request{Language: "shell", Reach: run.Reach{Secrets: []string{"TOKEN"}}, Bounds: pipeline.Bounds{Output: output},
			Streams: run.Streams{Stdout: whole, Whole: whole != nil}, Code: []byte(
				`for i in {1..9}; do printf "$i ${TOKEN:0:9}"; sleep 0.01; printf "${TOKEN:9} "; printf "$TOKEN$TOKEN" >&2; done; printf "%200000d" 1; printf "%100000d" 1 >&2`)}
		_, res, err := pipeline.Do(t.Context(), p, q)
		if err != nil {
			t.Fatal(err)
		}
		return streams{res.Stdout, res.Stderr, res.StdoutCut, res.StderrCut}
	}
	same := func(b backends.Backend) backends.Backend { return b }
	spared := func(b backends.Backend) backends.Backend { return sparer{b} }
	const longer = 27 * int64(len(password)-len(vault.Mark)) // if all secrets are cut
	within := func(got, want int64) bool { return got >= want && got <= want+longer }
	for _, output := range []int64{1, 3, 10, 20, 33, 1000, 100_050, 1 << 20} {
		want, got := run(same, output, nil), run(spared, output, nil)
		if got.stdout != want.stdout || got.stderr != want.stderr || !within(got.cut1, want.cut1) || !within(got.cut2, want.cut2) {
			t.Errorf("output %d: got %.100q, %d, %d; want %.100q, %d, %d", output, got.stdout, got.cut1, got.cut2, want.stdout, want.cut1, want.cut2)
		}
		for i := 0; i+4 <= len(password); i++ {
			if strings.Contains(got.stdout+got.stderr, password[i:i+4]) {
				t.Errorf("output %d: a part of the secret is in %.100q, %.100q", output, got.stdout, got.stderr)
				break
			}
		}
	}
	var whole strings.Builder
	if run(spared, 10, &whole); !strings.HasSuffix(whole.String(), fmt.Sprintf("%200000d", 1)) {
		t.Errorf("of all output, %d bytes came", whole.Len())
	}
}
