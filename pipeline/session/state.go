package session

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/sandboxmcp/sandboxmcp/audit"
	"github.com/sandboxmcp/sandboxmcp/cli/lazy"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/containment"
	"github.com/sandboxmcp/sandboxmcp/pipeline/event"
	"github.com/sandboxmcp/sandboxmcp/vault"
)

// sessionRoom holds the sessions of a pipeline and related state.
type sessionRoom struct {
	manager *Manager
	paused  paused
	ends    sync.Map         // session id -> *atomic.Bool, for sessions that a caller ends: whether the row is late
	closed  lazy.Cache[bool] // backends that could not provide a gateway

	mu       sync.Mutex
	programs []Program // running in sessions, the oldest first
}

// Program is a program that runs in a session.
type Program interface {
	Location() (namespace, session string)
	Signal(syscall.Signal) error
	Done() <-chan struct{} // closed once the audit log has its end
}

// Prepare opens the sessions of p, so that Close ends them after state that is created later.
func Prepare(p *pipeline.Pipeline) { stateOf(p) }

func stateOf(p *pipeline.Pipeline) *sessionRoom { return pipeline.PackageState(p, openSessions) }

func openSessions(p *pipeline.Pipeline) *sessionRoom {
	s := &sessionRoom{}
	s.paused.all = map[string]*savedFiles{}
	cfg := *pipeline.PackageSettings[Config](p)
	cfg.Kernels = containment.Kernels(p.Config.Runtimes)
	cfg.Pause = func(ctx context.Context, info Info) {
		_, _, _ = pipeline.Do(ctx, p, Pause{Namespace: info.Namespace, Session: info.ID}) // if this fails the session ends, and its row says so
	}
	s.manager = NewManager(cfg, func(info Info) { sessionEnded(p, info) })
	p.SetSessionLeases(func(namespace, id string) vault.Leases {
		own, err := FindSession(p, namespace, id)
		if err != nil {
			return nil
		}
		return own.Leases()
	})
	p.OnClose(func() {
		s.manager.Close()
		s.paused.mu.Lock()
		all := slices.Collect(maps.Keys(s.paused.all))
		s.paused.mu.Unlock()
		for _, id := range all {
			forgetFiles(p, id, "server")
		}
	})
	return s
}

// FindSession returns a living session of a namespace.
func FindSession(p *pipeline.Pipeline, namespace, id string) (*Session, error) {
	s, err := stateOf(p).manager.FindLiving(id)
	if err == nil && s.Info().Namespace != pipeline.NamespaceOrDefault(namespace) {
		err = fmt.Errorf("%w: %.40q", ErrUnknown, id)
	}
	if err != nil {
		return nil, ErrorOf(pipeline.StageValidate, err)
	}
	return s, nil
}

// maxPrograms bounds the registered programs of one session. Each holds some goroutines and the beginning of its
// output.
const maxPrograms = 256

// AddProgram registers a program that is about to run, until DropProgram. It returns false if its session has
// maxPrograms already.
func AddProgram(p *pipeline.Pipeline, program Program) bool {
	s := stateOf(p)
	s.mu.Lock()
	defer s.mu.Unlock()
	_, id := program.Location()
	n := 0
	for _, other := range s.programs {
		if _, its := other.Location(); its == id {
			n++
		}
	}
	if n >= maxPrograms {
		return false
	}
	s.programs = append(s.programs, program)
	return true
}

// DropProgram removes a program that has ended.
func DropProgram(p *pipeline.Pipeline, program Program) {
	s := stateOf(p)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.programs = slices.DeleteFunc(s.programs, func(other Program) bool { return other == program })
}

// Programs lists the programs running in a session, the oldest first.
func Programs(p *pipeline.Pipeline, namespace, id string) (list []Program) {
	s := stateOf(p)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, program := range s.programs {
		if in, its := program.Location(); in == pipeline.NamespaceOrDefault(namespace) && its == id {
			list = append(list, program)
		}
	}
	return list
}

// Enqueue appends to the queues of sessions of a namespace, and returns the ticket: requests whose context has it use
// the sessions once earlier tickets have left. Unknown sessions have no queue. If ctx has a ticket, Enqueue returns
// that.
func Enqueue(ctx context.Context, p *pipeline.Pipeline, namespace string, ids ...string) *Ticket {
	if place := RetainTicket(ctx); place != nil {
		return place
	}
	var in []*Session
	for _, id := range ids {
		if s, err := FindSession(p, namespace, id); err == nil {
			in = append(in, s)
		}
	}
	return stateOf(p).manager.Enqueue(in...)
}

// sessionEnded records the end of a session, whatever caused it.
func sessionEnded(p *pipeline.Pipeline, info Info) {
	p.ForgetApprovals(info.ID)
	data := pipeline.Facts{"language": info.Language, "backend": info.Backend, "why": info.Ended, "cells": info.Cells,
		"restarts": len(info.Restarts)}
	pipeline.Caller{By: info.By, User: info.User, Identity: info.Identity}.AddTo(data)
	ctx, cancel := context.WithTimeout(context.Background(), pipeline.FinishTimeout)
	defer cancel()
	if p.Config.Audit == nil {
		return
	}
	_, err := p.Config.Audit.Append(ctx, audit.Entry{Kind: event.SessionKilled, Run: info.ID, Namespace: info.Namespace, Data: data,
		Late: true})
	p.PublishEvent(event.SessionKilled, info.ID, info.Namespace, data)
	if asked, is := stateOf(p).ends.Load(info.ID); is && err != nil {
		asked.(*atomic.Bool).Store(true)
	}
	if err == nil || errors.As(err, new(*audit.Owed)) {
		p.Journal.RemoveSession(info.ID)
	}
}

// List describes the sessions of a namespace, or of all for "": the living ones, then the last ended ones.
func List(p *pipeline.Pipeline, namespace string) []Info {
	return stateOf(p).manager.List(namespace)
}

// EndedChan returns a channel that is closed when a session of a namespace begins to end, nil if there is no such
// session.
func EndedChan(p *pipeline.Pipeline, namespace, id string) <-chan struct{} {
	s, err := FindSession(p, namespace, id)
	if err != nil {
		return nil
	}
	return s.Dead()
}

// InfoOf describes a session of a namespace, for a while after its end too.
func InfoOf(p *pipeline.Pipeline, namespace, id string) (Info, error) {
	info, err := stateOf(p).manager.Info(id)
	if err == nil && info.Namespace != pipeline.NamespaceOrDefault(namespace) {
		err = fmt.Errorf("%w: %.40q", ErrUnknown, id)
	}
	if err != nil {
		return Info{}, ErrorOf(pipeline.StageValidate, err)
	}
	return info, nil
}
