package docker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"

	"github.com/containerd/errdefs"
	api "github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/events"
	moby "github.com/moby/moby/client"

	"github.com/sandboxmcp/sandboxmcp/backends/container"
	"github.com/sandboxmcp/sandboxmcp/backends/container/client"
	"github.com/sandboxmcp/sandboxmcp/backends/container/engine"
)

// eventTimeout bounds the wait for the events of a container that has ended.
const eventTimeout = time.Second

// Wait reads the engine's events instead of calling its wait: only events report that the kernel killed a process
// for want of memory, and that somebody else killed the container; and a container that removes itself can't be
// inspected. An engine keeps and repeats its last 256 events, so Wait may be called late, within reason.
func (l *link) Wait(ctx context.Context, id string) (container.Exit, error) {
	var s exitEvents
	for pause := 300 * time.Millisecond; ; pause = min(2*pause, 2*time.Second) {
		err := l.followEvents(ctx, id, &s)
		if err == nil {
			return s.summary(), nil
		}
		if ctx.Err() != nil {
			return container.Exit{}, ctx.Err()
		}
		// A connection that the network cut also ends by a deadline; the caller's deadline can't be the reason
		// here.
		_, away := errors.AsType[net.Error](err)
		if !away && !client.IsTemporary(err) && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			return container.Exit{}, l.explain("wait for container "+id, err)
		}
		// The daemon has gone. Its containers may live on (live-restore), or die now, or when it returns: only the
		// daemon can tell.
		s.cut = true
		if !engine.Pause(ctx, pause) {
			return container.Exit{}, ctx.Err()
		}
	}
}

// followEvents reads events until the container's end is known.
func (l *link) followEvents(ctx context.Context, id string, s *exitEvents) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	filter := make(moby.Filters).Add("type", "container").Add("container", id).Add("event", "die", "kill", "oom", "destroy")
	stream := l.api.Events(ctx, moby.EventsListOptions{Since: "1", Filters: filter}) // 1970: all events that it has
	defer func() {
		cancel()
		for range stream.Err { // until the stream's goroutine has ended
		}
	}()
	// Inspect only now: the stream reports every later change.
	r, err := l.api.ContainerInspect(ctx, id, moby.ContainerInspectOptions{})
	if err != nil && !errdefs.IsNotFound(err) {
		return err
	}
	var late <-chan time.Time
	if err != nil || hasEnded(r.Container.State) {
		late = time.After(eventTimeout)
	}
	for {
		select {
		case m := <-stream.Messages:
			if s.addEvent(m) {
				return nil
			}
		case err := <-stream.Err:
			return cmp.Or(err, io.EOF)
		case <-late:
			s.state = r.Container.State // nil if it is gone
			return nil
		}
	}
}

// hasEnded reports whether a container has ended, and will not begin.
func hasEnded(s *api.State) bool {
	if s == nil || s.Running {
		return false
	}
	at, err := time.Parse(time.RFC3339Nano, s.FinishedAt)
	return s.Dead || err == nil && at.Year() > 1 // the year 1 means never
}

// exitEvents collects the events of a container's end.
type exitEvents struct {
	oom, died, cut bool
	code           int
	kill           string     // last signal sent through the engine
	state          *api.State // as inspected, if no event reported the end
}

// addEvent adds an event, and reports whether it is the last relevant one.
func (s *exitEvents) addEvent(m events.Message) bool {
	switch m.Action {
	case events.ActionOOM:
		s.oom = true
	case events.ActionKill:
		s.kill = m.Actor.Attributes["signal"]
	case events.ActionDie:
		s.died = true
		s.code, _ = strconv.Atoi(m.Actor.Attributes["exitCode"])
		return true
	case events.ActionDestroy:
		return true
	}
	return false
}

// summary builds the Exit from the events.
func (s *exitEvents) summary() container.Exit {
	x := container.Exit{Code: s.code, OOM: s.oom}
	switch {
	case s.died:
	case s.state != nil:
		x.Code, x.OOM, x.Why = s.state.ExitCode, s.oom || s.state.OOMKilled, engine.OneLine(s.state.Error)
	default:
		x.Removed = true
	}
	if why := s.cause(x); why != "" {
		x.Why = why
	}
	return x
}

// cause names a cause outside of the program. The engine reports docker kill, docker stop and docker rm --force in
// the same way: as a signal.
func (s *exitEvents) cause(x container.Exit) string {
	switch {
	case s.cut && x.Removed:
		return "the Docker daemon was restarted, and removed it"
	case s.cut:
		return "the Docker daemon was restarted"
	case s.kill != "" && x.Code > 128:
		return fmt.Sprintf("it was sent signal %s through Docker (docker kill, docker stop, docker rm, or a daemon that stops)", s.kill)
	case x.Removed:
		return "it was removed before it was started, or long ago"
	case x.Code == 137 && !x.OOM:
		return "it was sent SIGKILL, and not through Docker"
	}
	return ""
}
