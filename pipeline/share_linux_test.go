package pipeline

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
)

// TestEndlessProgramsKeepNobodyOut: real programs of one namespace that never end, as jobs, as calls that are waited for, and as cells of sessions, do
// not keep another one's out.
func TestEndlessProgramsKeepNobodyOut(t *testing.T) {
	const forever = "while :; do sleep 1000; done"
	for name, hold := range map[string]func(context.Context, *Pipeline, Request){
		"jobs":  func(ctx context.Context, p *Pipeline, q Request) { p.Begin(ctx, q) },
		"calls": func(ctx context.Context, p *Pipeline, q Request) { go Do(ctx, p, q) },
		"cells": func(ctx context.Context, p *Pipeline, q Request) { go Do(ctx, p, q) },
	} {
		for _, slots := range []int{1, 2} {
			p, _, _ := newReal(t, func(c *Config) { c.Queue = NewQueue(slots, 256) })
			ctx, cancel := context.WithCancel(t.Context())
			var sessions [3]string
			for i := range sessions {
				if name == "cells" {
					sessions[i] = open(t, p, NewSession{Namespace: "a", Language: "shell"}).ID
				}
			}
			for _, session := range sessions {
				hold(ctx, p, Request{Namespace: "a", Where: Where{Session: session}, Language: "shell", Code: []byte(forever)})
			}
			hosttest.Until(t, "all slots are taken", func() bool { l := p.Load(); return l.Running == slots && l.Waiting == 3-slots })
			longest := time.Duration(0)
			for range 5 {
				began := time.Now()
				_, res, err := Do(t.Context(), p, Request{Namespace: "b", Language: "shell", Code: []byte("echo answered")})
				if err != nil || strings.TrimSpace(res.Stdout) != "answered" {
					t.Fatalf("%s, %d slots: %v, %+v", name, slots, err, res)
				}
				longest = max(longest, time.Since(began))
			}
			if l := p.Load(); l.Running < slots {
				t.Errorf("%s, %d slots: what never ends has ended: %+v", name, slots, l)
			}
			t.Logf("%s, %d slots: the longest of 5 calls beside them took %v", name, slots, longest)
			cancel()
			p.Close()
		}
	}
}
