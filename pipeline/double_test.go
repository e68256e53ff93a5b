package pipeline

import (
	"bytes"
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
	"github.com/sandboxmcp/sandboxmcp/vault"
)

// double is a backend that contains nothing: programs run in a temporary directory, as the test's own
// processes. What it says about layers is what the test tells it to say.
type double struct {
	t       *testing.T
	refuse  error    // of Start
	unheld  []string // layers that were promised, and did not hold
	open    atomic.Int32
	running atomic.Int32
	execs   atomic.Int32
	starts  atomic.Int32
	spec    backends.Spec
	command backends.Command // the last that was executed
	onStart func(*fakeSandbox)
	pools   []backends.Pool
	warm    bool // what results say
	cold    string
	lost    int64
	unshown error // of CanMount
}

func (d *double) Name() string                                                     { return "double" }
func (d *double) CanMount(context.Context) error                                   { return d.unshown }
func (d *double) Pools() []backends.Pool                                           { return d.pools }
func (d *double) Promises(string) []string                                         { return backends.ContainmentLayers }
func (d *double) Close() error                                                     { return nil }
func (d *double) Probe(context.Context, backends.Spec) (p backends.Probe, _ error) { return p, nil }

func (d *double) Start(_ context.Context, spec backends.Spec) (backends.Sandbox, error) {
	d.starts.Add(1)
	if d.refuse != nil {
		return nil, d.refuse
	}
	d.open.Add(1)
	d.spec = spec
	b := &fakeSandbox{double: d, dir: spec.Workspace.Host, spec: spec, mounted: map[string][]byte{}}
	if b.dir == "" {
		b.dir = d.t.TempDir()
	}
	for _, m := range spec.Mounts {
		b.mounted[m.Inside], _ = os.ReadFile(m.Host)
	}
	if d.onStart != nil {
		d.onStart(b)
	}
	return b, nil
}

type fakeSandbox struct {
	*double
	dir     string
	spec    backends.Spec
	mounted map[string][]byte // files shown by mounts, as they were at the start
	closed  sync.Once
}

func (b *fakeSandbox) Listeners() []net.Listener                        { return nil }
func (b *fakeSandbox) Gateway() backends.Sockets                        { return backends.Sockets{} }
func (b *fakeSandbox) Usage() backends.Usage                            { return backends.Usage{} }
func (b *fakeSandbox) Sample(bool) func() backends.Usage                { return b.Usage }
func (b *fakeSandbox) Limit(l backends.Limits) (backends.Limits, error) { return l, nil }

func (b *fakeSandbox) Close() error {
	b.closed.Do(func() { b.open.Add(-1) })
	return nil
}

func (b *fakeSandbox) Exec(ctx context.Context, c backends.Command, s backends.Streams) (backends.Result, error) {
	b.execs.Add(1)
	b.running.Add(1)
	defer b.running.Add(-1)
	b.command = c
	out := backends.Result{End: backends.End{Ended: backends.EndedOK}, Contained: b.contained(), Warm: b.warm, Cold: b.cold, Lost: b.lost}
	args := slices.Clone(c.Args)
	for i, a := range args {
		if code, ok := b.mounted[a]; ok {
			args[i] = filepath.Join(b.t.TempDir(), filepath.Base(a))
			os.WriteFile(args[i], code, 0o600)
		}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, b.spec.Limits.Wall, errors.New("wall"))
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

func (b *fakeSandbox) contained() backends.Containment {
	c := backends.Containment{Backend: "double", Profile: b.spec.Profile}
	for _, l := range allLayers {
		c.Layers = append(c.Layers, backends.Layer{Name: l, InForce: !slices.Contains(b.unheld, l)})
	}
	return c
}

func (b *fakeSandbox) Files() backends.Files { return fakeFiles(b.dir) }

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

// rig is a pipeline on a double, with a real audit log that can be made to fail.
type rig struct {
	*Pipeline
	t       *testing.T
	backend *double
	log     *flakyLog
	memory  *vault.Memory
}

func newRig(t *testing.T, change func(*Config)) *rig {
	t.Helper()
	log, err := audit.Open(t.Context(), filepath.Join(t.TempDir(), "audit.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { log.Close() })
	r := &rig{t: t, backend: &double{t: t}, log: &flakyLog{Log: log}, memory: vault.NewMemory()}
	cfg := Config{Backends: []backends.Backend{r.backend}, Audit: r.log, Vault: vault.New(r.memory)}
	if change != nil {
		change(&cfg)
	}
	r.Pipeline = New(cfg)
	t.Cleanup(r.checkNothingLeft)
	t.Cleanup(r.Close)
	return r
}

// checkNothingLeft holds for every run, however it went.
func (r *rig) checkNothingLeft() {
	if n := r.backend.open.Load(); n != 0 {
		r.t.Errorf("%d sandboxes were left open", n)
	}
	if s := r.cfg.Queue.stats(); s.Busy != 0 || s.Waiting != 0 {
		r.t.Errorf("the queue is not empty: %+v", s)
	}
}

// shell runs a script with bash.
func (r *rig) shell(code string, change func(*Request)) (Outcome, error) {
	r.t.Helper()
	q := Request{Language: "shell", Name: "script.sh", Code: []byte(code)}
	if change != nil {
		change(&q)
	}
	_, res, err := Do(r.t.Context(), r.Pipeline, q)
	return res, err
}

// rows returns what the log holds, as kinds, and as one text.
func (r *rig) rows() (kinds []string, text string) {
	r.t.Helper()
	var b strings.Builder
	for row, err := range r.log.Rows(context.Background(), audit.Filter{}) {
		if err != nil {
			r.t.Fatal(err)
		}
		kinds = append(kinds, row.Kind)
		fmt.Fprintf(&b, "%s %s %s %s\n", row.Kind, row.Run, row.Namespace, row.Data)
	}
	return kinds, b.String()
}

// flakyLog fails when the test says so.
type flakyLog struct {
	*audit.Log
	fail  func(entries []audit.Entry) error // nil lets all pass
	delay chan struct{}                     // nil does not wait
}

func (l *flakyLog) Append(ctx context.Context, entries ...audit.Entry) ([]audit.Row, error) {
	if l.delay != nil {
		<-l.delay
	}
	if l.fail != nil {
		if err := l.fail(entries); err != nil {
			return nil, err
		}
	}
	return l.Log.Append(ctx, entries...)
}

// failAt makes the log fail for entries of a kind.
func (l *flakyLog) failAt(kinds ...string) {
	l.fail = func(entries []audit.Entry) error {
		for _, e := range entries {
			if slices.Contains(kinds, e.Kind) {
				return errors.New("no space left on device")
			}
		}
		return nil
	}
}

// stopped returns err as *Error, or ends the test.
func stopped(t *testing.T, err error) *Error {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) {
		t.Fatalf("got error %v, want an *Error", err)
	}
	return e
}

// lockedBuffer is a buffer that a run may write to while the test reads.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
