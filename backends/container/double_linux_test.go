package container

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/container/call"
	"github.com/sandboxmcp/sandboxmcp/backends/container/inside"
	"github.com/sandboxmcp/sandboxmcp/pipeline/remedy"
)

// double is an engine whose containers are processes of this machine: this test binary acts as PID 1. The tests of
// kernel isolation use real engines, in packages docker and podman.
type double struct {
	info   Info
	images map[string]Image

	mu      sync.Mutex
	all     map[string]*process // by id
	made    int
	started []Container
	pulled  []string
	seeded  []string
	closed  bool
	// capacity bounds the existing containers, unless it is 0; refused counts the refused ones.
	capacity, refused int
	held              map[string]string
	// before is called with the name of each step; its error makes the step fail.
	before func(ctx context.Context, step string) error
	orders []string // misbehaviour of the next processes
}

// process is a container.
type process struct {
	c       Container
	cmd     *exec.Cmd
	exit    Exit
	streams io.ReadWriteCloser
	stderr  io.Writer
	ended   chan struct{}
}

func newDouble() *double {
	return &double{
		info:   Info{Version: "1", Local: true, UserNS: true, Limits: true, Arch: "amd64", Address: "nowhere"},
		images: map[string]Image{"shell:1": {ID: "sha256:shell"}, "python:1": {ID: "sha256:python", Digest: "python@sha256:12"}},
		all:    map[string]*process{}, held: map[string]string{},
	}
}

func (d *double) step(ctx context.Context, name string) error {
	d.mu.Lock()
	before := d.before
	d.mu.Unlock()
	if before != nil {
		if err := before(ctx, name); err != nil {
			return err
		}
	}
	return ctx.Err()
}

func (d *double) Name() string { return "docker" }

func (d *double) Info(ctx context.Context) (Info, error) { return d.info, d.step(ctx, "info") }

func (d *double) Image(ctx context.Context, reference string) (Image, error) {
	if err := d.step(ctx, "image"); err != nil {
		return Image{}, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	i, ok := d.images[reference]
	if !ok {
		return i, fmt.Errorf("%s: %w", reference, ErrNoImage)
	}
	return i, nil
}

func (d *double) Images(context.Context, string) ([]Image, error) { return nil, nil }

func (d *double) Pull(ctx context.Context, reference string, progress func(string)) error {
	d.mu.Lock()
	d.pulled = append(d.pulled, reference)
	d.mu.Unlock()
	progress("fetching " + reference)
	if err := d.step(ctx, "pull"); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.images[reference] = Image{ID: "sha256:fetched"}
	return nil
}

func (d *double) Build(context.Context, string, io.Reader, map[string]string, func(string)) error {
	return errors.ErrUnsupported
}

func (d *double) Create(ctx context.Context, c Container) (string, error) {
	d.mu.Lock()
	if d.capacity > 0 && len(d.held) >= d.capacity {
		d.refused++
		d.mu.Unlock()
		return "", ErrFull
	}
	d.made++
	id := fmt.Sprint("id", d.made)
	d.held[id] = c.Name
	d.all[id] = &process{c: c, ended: make(chan struct{})}
	d.mu.Unlock()
	return id, d.step(ctx, "create") // a failed create has made the container nevertheless
}

func (d *double) findContainer(id string) (string, *process) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for at, p := range d.all {
		if at == id || p.c.Name == id {
			return at, p
		}
	}
	return "", nil
}

func (d *double) Attach(ctx context.Context, id string, stderr io.Writer) (io.ReadWriteCloser, error) {
	if err := d.step(ctx, "attach"); err != nil {
		return nil, err
	}
	_, p := d.findContainer(id)
	ours, theirs := net.Pipe()
	p.streams, p.stderr = theirs, stderr
	return ours, nil
}

func (d *double) Start(ctx context.Context, id string) error {
	if err := d.step(ctx, "start"); err != nil {
		return err
	}
	_, p := d.findContainer(id)
	p.cmd = exec.Command("/proc/self/exe")
	p.cmd.Args[0] = initName
	p.cmd.Stderr = p.stderr
	order := ""
	d.mu.Lock()
	if len(d.orders) > 0 {
		order, d.orders = d.orders[0], d.orders[1:]
	}
	d.started = append(d.started, p.c)
	d.mu.Unlock()
	p.cmd.Env = []string{"ORDER=" + order, "LANGUAGE=" + p.c.Args[1]}
	if i := slices.IndexFunc(p.c.Binds, func(b Bind) bool { return b.Inside == filepath.Dir(SocketPath) }); i >= 0 {
		p.cmd.Dir = p.c.Binds[i].Host
	}
	if slices.Contains(p.c.Args, "-") {
		p.cmd.Env = append(p.cmd.Env, "ATTACHED=1")
		in, _ := p.cmd.StdinPipe()
		out, _ := p.cmd.StdoutPipe()
		go io.Copy(in, p.streams)
		go io.Copy(p.streams, out)
	}
	if err := p.cmd.Start(); err != nil {
		return err
	}
	go d.reap(id, p)
	return nil
}

// reap removes an ended container, like an engine.
func (d *double) reap(id string, p *process) {
	state, _ := p.cmd.Process.Wait()
	if p.streams != nil {
		p.streams.Close()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	p.exit.Code = state.ExitCode()
	if s := state.Sys().(syscall.WaitStatus); s.Signaled() {
		p.exit.Code = 128 + int(s.Signal())
	}
	if p.exit.Code == codeOOM {
		p.exit = Exit{Code: 137, OOM: true}
	}
	p.over()
	delete(d.all, id)
}

func (p *process) over() {
	select {
	case <-p.ended:
	default:
		close(p.ended)
	}
}

func (d *double) Update(ctx context.Context, _ string, r Resources) error {
	return d.step(ctx, fmt.Sprint("update ", r.Memory>>20, " ", r.PIDs, " ", r.CPU))
}

func (d *double) Wait(ctx context.Context, id string) (Exit, error) {
	_, p := d.findContainer(id)
	if p == nil {
		return Exit{Removed: true}, nil
	}
	select {
	case <-p.ended:
		d.mu.Lock()
		defer d.mu.Unlock()
		return p.exit, nil
	case <-ctx.Done():
		return Exit{}, ctx.Err()
	}
}

func (d *double) Remove(ctx context.Context, id string) error {
	if err := d.step(ctx, "remove"); err != nil {
		return err
	}
	defer func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		maps.DeleteFunc(d.held, func(at, name string) bool { return at == id || name == id })
	}()
	at, p := d.findContainer(id)
	if p == nil {
		return nil
	}
	if p.cmd != nil && p.cmd.Process != nil {
		p.cmd.Process.Kill()
		<-p.ended
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	p.exit.Removed = true
	p.over()
	delete(d.all, at)
	return nil
}

func (d *double) List(ctx context.Context, label string) (list []Entry, err error) {
	key, value, _ := strings.Cut(label, "=")
	d.mu.Lock()
	defer d.mu.Unlock()
	for id, p := range d.all {
		if p.c.Labels[key] == value {
			list = append(list, Entry{ID: id, Labels: p.c.Labels})
		}
	}
	return list, nil
}

func (d *double) Seed(ctx context.Context, volume string, _ map[string]string, archive io.Reader, _ string) error {
	if _, err := io.Copy(io.Discard, archive); err != nil {
		return err
	}
	d.mu.Lock()
	d.seeded = append(d.seeded, volume)
	d.mu.Unlock()
	return d.step(ctx, "seed")
}

func (d *double) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	return nil
}

// count returns how many containers exist, and how many were made.
func (d *double) count() (now, ever int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.all), d.made
}

const (
	initName = "init of a container"
	codeOOM  = 99 // represents an OOM kill
)

func TestMain(m *testing.M) {
	if os.Args[0] == initName {
		if err := initMain(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(3)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// initMain acts as PID 1. The socket is in its working directory.
func initMain() error {
	switch os.Getenv("ORDER") {
	case "fail":
		return errors.New("cannot do this")
	case "hang":
		time.Sleep(time.Hour)
	}
	var conn io.ReadWriteCloser = stdio{}
	if os.Getenv("ATTACHED") == "" {
		c, err := inside.Dial("socket")
		if err != nil {
			return err
		}
		conn = c
	}
	facts := call.Facts{PID: 1, Hostname: hostname, Seccomp: true, NoNewPrivs: os.Getenv("ORDER") != "be loose",
		Runtime: backends.Runtime{Name: os.Getenv("LANGUAGE"), Path: "/bin/it"}}
	if os.Getenv("ORDER") == "no runtime" {
		facts.Runtime = backends.Runtime{Why: remedy.Text{"nowhere to be found"}}
	}
	err := call.Serve(context.Background(), conn, facts, func(backends.Spec) {}, func(_ context.Context, spec backends.Spec) (backends.Sandbox,
		error) {
		switch os.Getenv("ORDER") {
		case "refuse":
			return nil, &backends.Refusal{Layer: backends.LayerLandlock, Reason: "not here"}
		case "die while building":
			os.Exit(4)
		}
		return &inner{spec: spec, closed: make(chan struct{})}, nil
	})
	if os.Getenv("ORDER") == "linger" {
		time.Sleep(time.Hour)
	}
	return err
}

type stdio struct{}

func (stdio) Read(b []byte) (int, error)  { return os.Stdin.Read(b) }
func (stdio) Write(b []byte) (int, error) { return os.Stdout.Write(b) }
func (stdio) Close() error                { return errors.Join(os.Stdin.Close(), os.Stdout.Close()) }

// inner is the sandbox inside. Its programs are single words.
type inner struct {
	spec   backends.Spec
	closed chan struct{}
	once   sync.Once
}

func (s *inner) Exec(ctx context.Context, cmd backends.Command, streams backends.Streams) (backends.Result, error) {
	c := backends.Containment{Backend: "process", Layers: []backends.Layer{
		{Name: backends.LayerUser, InForce: true, Detail: "said by somebody who can't know"},
		{Name: backends.LayerLandlock, InForce: true, Detail: "ABI 1"}, {Name: backends.LayerRlimit, InForce: true},
	}}
	if cmd.Args[0] == "die unseen" {
		os.Exit(5)
	}
	if streams.Begun != nil {
		streams.Begun(c)
	}
	switch cmd.Args[0] {
	case "spec":
		text, _ := json.Marshal(s.spec)
		if streams.Stdout != nil {
			streams.Stdout.Write(text)
		}
	case "die", "oom": // after its caller has seen its start: pending messages are then lost
		if streams.Stdin != nil {
			io.Copy(io.Discard, streams.Stdin)
		}
		os.Exit(map[string]int{"die": 6, "oom": codeOOM}[cmd.Args[0]])
	case "sleep":
		select {
		case <-ctx.Done():
			return backends.Result{End: backends.End{Ended: backends.EndedCancelled}, Contained: c}, nil
		case <-s.closed:
			return backends.Result{End: backends.End{Ended: backends.EndedSignal}, Contained: c}, nil
		}
	}
	return backends.Result{End: backends.End{Ended: backends.EndedOK}, Contained: c}, nil
}

func (s *inner) Files() backends.Files             { return nil }
func (s *inner) Gateway() backends.Sockets         { return backends.Sockets{} }
func (s *inner) Usage() backends.Usage             { return backends.Usage{} }
func (s *inner) Sample(bool) func() backends.Usage { return s.Usage }
func (s *inner) Close() error                      { s.once.Do(func() { close(s.closed) }); return nil }
func (s *inner) Limit(l backends.Limits) (backends.Limits, error) {
	if l.RAM == 13 {
		return s.spec.Limits, errors.New("not this number")
	}
	return s.spec.Limits, nil
}
