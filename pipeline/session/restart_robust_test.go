//go:build linux

package session

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
	"github.com/sandboxmcp/sandboxmcp/backends/process"
)

// counted is a sandbox that says once that it is closed.
type counted struct {
	backends.Sandbox
	open *atomic.Int64
	once sync.Once
}

func (c *counted) Close() error {
	c.once.Do(func() { c.open.Add(-1) })
	return c.Sandbox.Close()
}

// A session that is ended while its sandbox is being built again takes the new one along.
func TestSessionThatEndsWhileItIsRebuiltLeavesNothing(t *testing.T) {
	b := process.New(process.Config{StateDir: t.TempDir()})
	defer b.Close()
	if probe, err := b.Probe(t.Context(), backends.Spec{Require: backends.ContainmentLayers}); err != nil || !probe.Usable {
		hosttest.SkipMissing(t, "sandbox", fmt.Sprint(err, probe.Why))
	}
	var open atomic.Int64
	again, building, ended := make(chan struct{}), make(chan struct{}), make(chan struct{})
	start := func(ctx context.Context) (backends.Sandbox, error) {
		sandbox, err := b.Start(ctx, backends.Spec{ID: "session", Language: "shell", Keep: true})
		if err != nil {
			return nil, err
		}
		select {
		case <-again: // the second is built while the session is ended
			close(building)
			<-ended
		default:
		}
		open.Add(1)
		return &counted{Sandbox: sandbox, open: &open}, nil
	}
	k := NewManager(Config{}, func(Info) {})
	defer k.Close()
	info, err := k.Open(t.Context(), Plan{Info: Info{ID: "s", Namespace: "n", Language: "shell"}}, start, func(Info) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	s, err := k.FindLiving(info.ID)
	if err != nil {
		t.Fatal(err)
	}
	s.Sandbox().Close()
	<-s.kernel.Done()
	close(again)
	over := make(chan struct{})
	go func() {
		defer close(over)
		<-building
		go func() {
			hosttest.Until(t, "the session has ended", func() bool { return s.EndedError() != nil })
			close(ended)
		}()
		k.End(info.ID, "closed")
	}()
	guard, err := s.Acquire(t.Context())
	if !errors.Is(err, ErrDead) {
		t.Errorf("acquire a session that was ended meanwhile: %v, want %v", err, ErrDead)
	}
	if err == nil {
		guard.Release()
	}
	<-over
	if n := open.Load(); n != 0 {
		t.Errorf("%d sandboxes are open, want none", n)
	}
}
