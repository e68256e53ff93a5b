// Package pipelinetest has pipelines for tests, with a test double or a real backend.
package pipelinetest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sandboxmcp/sandboxmcp/audit"
	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/containment"
	"github.com/sandboxmcp/sandboxmcp/pipeline/run"
	"github.com/sandboxmcp/sandboxmcp/vault"
)

// double is a backend without containment: programs run in a temporary directory, as the test's own processes. The
// test chooses the layers that it reports.
type double struct {
	t       *testing.T
	Refuse  error    // error of Start
	Unheld  []string // promised layers that are not in force
	Open    atomic.Int32
	Running atomic.Int32
	Execs   atomic.Int32
	Starts  atomic.Int32
	Spec    backends.Spec
	Command backends.Command // last executed command
	OnStart func(*FakeSandbox)
	Ready   []backends.Pool
	Warm    bool // Warm of results
	Cold    string
	Lost    int64
	unshown error // error of CanMount
}

func (d *double) Name() string                                                     { return "double" }
func (d *double) CanMount(context.Context) error                                   { return d.unshown }
func (d *double) Pools() []backends.Pool                                           { return d.Ready }
func (d *double) Promises(string) []string                                         { return backends.ContainmentLayers }
func (d *double) Close() error                                                     { return nil }
func (d *double) Probe(context.Context, backends.Spec) (p backends.Probe, _ error) { return p, nil }

func (d *double) Start(_ context.Context, spec backends.Spec) (backends.Sandbox, error) {
	d.Starts.Add(1)
	if d.Refuse != nil {
		return nil, d.Refuse
	}
	d.Open.Add(1)
	d.Spec = spec
	b := &FakeSandbox{double: d, dir: spec.Workspace.Host, Spec: spec, mounted: map[string][]byte{}}
	if b.dir == "" {
		b.dir = d.t.TempDir()
	}
	for _, m := range spec.Mounts {
		b.mounted[m.Inside], _ = os.ReadFile(m.Host)
	}
	if d.OnStart != nil {
		d.OnStart(b)
	}
	return b, nil
}

type FakeSandbox struct {
	*double
	dir     string
	Spec    backends.Spec
	mounted map[string][]byte // mounted files, as at the start
	closed  sync.Once
}

func (b *FakeSandbox) Listeners() []net.Listener                        { return nil }
func (b *FakeSandbox) Gateway() backends.Sockets                        { return backends.Sockets{} }
func (b *FakeSandbox) Usage() backends.Usage                            { return backends.Usage{} }
func (b *FakeSandbox) Sample(bool) func() backends.Usage                { return b.Usage }
func (b *FakeSandbox) Limit(l backends.Limits) (backends.Limits, error) { return l, nil }

func (b *FakeSandbox) Close() error {
	b.closed.Do(func() { b.Open.Add(-1) })
	return nil
}

func (b *FakeSandbox) Exec(ctx context.Context, c backends.Command, s backends.Streams) (backends.Result, error) {
	b.Execs.Add(1)
	b.Running.Add(1)
	defer b.Running.Add(-1)
	b.Command = c
	out := backends.Result{End: backends.End{Ended: backends.EndedOK}, Contained: b.contained(), Warm: b.Warm, Cold: b.Cold, Lost: b.Lost}
	args := slices.Clone(c.Args)
	for i, a := range args {
		if code, ok := b.mounted[a]; ok {
			args[i] = filepath.Join(b.t.TempDir(), filepath.Base(a))
			os.WriteFile(args[i], code, 0o600)
		}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, b.Spec.Limits.Wall, errors.New("wall"))
	defer cancel()
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir, cmd.Env = b.dir, append([]string{"PATH=" + os.Getenv("PATH")}, c.Env...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = s.Stdin, s.Stdout, s.Stderr
	cmd.WaitDelay = time.Second
	if s.Begun != nil {
		s.Begun(b.contained())
	}
	start := time.Now()
	err := cmd.Run()
	out.Wall = time.Since(start)
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil && context.Cause(ctx).Error() == "wall":
		out.Ended, out.Limit = backends.EndedTimeout, "wall"
	case ctx.Err() != nil:
		out.Ended = backends.EndedCancelled
	case errors.As(err, &exit):
		out.Ended, out.ExitCode = backends.EndedExit, exit.ExitCode()
	case err != nil:
		return out, err
	}
	return out, nil
}

func (b *FakeSandbox) contained() backends.Containment {
	c := backends.Containment{Backend: "double", Profile: b.Spec.Profile}
	for _, l := range containment.AllLayers {
		c.Layers = append(c.Layers, backends.Layer{Name: l, InForce: !slices.Contains(b.Unheld, l)})
	}
	return c
}

func (b *FakeSandbox) Files() backends.Files { return fakeFiles(b.dir) }

// fakeFiles is a workspace on the host.
type fakeFiles string

func (f fakeFiles) Put(name string, mode uint32, r io.Reader) error {
	content, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	path := filepath.Join(string(f), name)
	return errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, content, os.FileMode(mode)))
}

func (f fakeFiles) Each(_ context.Context, do func(backends.File) error) (skipped int, err error) {
	err = filepath.WalkDir(string(f), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if !d.Type().IsRegular() {
			skipped++
			return nil
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(string(f), path)
		return do(backends.File{Name: name, Size: info.Size(), Mode: uint32(info.Mode().Perm()),
			Open: func() (io.ReadCloser, error) { return os.Open(path) }})
	})
	return skipped, err
}

func (f fakeFiles) Changes(context.Context, func(backends.Change) error) error {
	return backends.ErrNotProposed
}

// Rig is a pipeline with a double and a real audit log that can be made to fail.
type Rig struct {
	*pipeline.Pipeline
	t       *testing.T
	Backend *double
	Log     *FlakyLog
	Memory  *vault.Memory
}

func NewRig(t *testing.T, change func(*pipeline.Config)) *Rig {
	t.Helper()
	log, err := audit.Open(t.Context(), filepath.Join(t.TempDir(), "audit.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { log.Close() })
	r := &Rig{t: t, Backend: &double{t: t}, Log: &FlakyLog{Log: log}, Memory: vault.NewMemory()}
	cfg := pipeline.Config{Backends: []backends.Backend{r.Backend}, Audit: r.Log, Vault: vault.New(r.Memory)}
	if change != nil {
		change(&cfg)
	}
	r.Pipeline = pipeline.New(cfg)
	t.Cleanup(r.checkNothingLeft)
	t.Cleanup(r.Close)
	return r
}

// checkNothingLeft checks that no run left anything.
func (r *Rig) checkNothingLeft() {
	if n := r.Backend.Open.Load(); n != 0 {
		r.t.Errorf("%d sandboxes were left open", n)
	}
	if s := r.Load(); s.Running != 0 || s.Waiting != 0 {
		r.t.Errorf("the queue is not empty: %+v", s)
	}
}

// Shell runs a script with bash.
func (r *Rig) Shell(code string, change func(*run.Request)) (pipeline.Outcome, error) {
	r.t.Helper()
	q := run.Request{Language: "shell", Name: "script.sh", Code: []byte(code)}
	if change != nil {
		change(&q)
	}
	_, res, err := pipeline.Do(r.t.Context(), r.Pipeline, q)
	return res, err
}

// Rows returns the kinds of the log's rows, and their text.
func (r *Rig) Rows() (kinds []string, text string) {
	r.t.Helper()
	var b strings.Builder
	for row, err := range r.Log.Rows(context.Background(), audit.Filter{}) {
		if err != nil {
			r.t.Fatal(err)
		}
		kinds = append(kinds, row.Kind)
		fmt.Fprintf(&b, "%s %s %s %s\n", row.Kind, row.Run, row.Namespace, row.Data)
	}
	return kinds, b.String()
}

// FlakyLog is an audit log that fails on request.
type FlakyLog struct {
	*audit.Log
	Fail  func(entries []audit.Entry) error // nil never fails
	Delay chan struct{}                     // nil never waits
}

func (l *FlakyLog) Append(ctx context.Context, entries ...audit.Entry) ([]audit.Row, error) {
	if l.Delay != nil {
		<-l.Delay
	}
	if l.Fail != nil {
		if err := l.Fail(entries); err != nil {
			return nil, err
		}
	}
	return l.Log.Append(ctx, entries...)
}

// FailAt makes the log fail for entries of a kind.
func (l *FlakyLog) FailAt(kinds ...string) {
	l.Fail = func(entries []audit.Entry) error {
		for _, e := range entries {
			if slices.Contains(kinds, e.Kind) {
				return errors.New("no space left on device")
			}
		}
		return nil
	}
}

// Stopped returns err as *Error, or ends the test.
func Stopped(t *testing.T, err error) *pipeline.Error {
	t.Helper()
	var e *pipeline.Error
	if !errors.As(err, &e) {
		t.Fatalf("got error %v, want an *Error", err)
	}
	return e
}
