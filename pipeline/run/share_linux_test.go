package run_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/pipelinetest"
	"github.com/sandboxmcp/sandboxmcp/pipeline/run"
	"github.com/sandboxmcp/sandboxmcp/pipeline/session"
)

// TestEndlessProgramsKeepNobodyOut: real programs of one namespace that never end, as jobs, as calls that are waited
// for, and as cells of sessions, do not keep another one's out.
func TestEndlessProgramsKeepNobodyOut(t *testing.T) {
	const forever = "while :; do sleep 1000; done"
	for name, hold := range map[string]func(context.Context, *pipeline.Pipeline, run.Request){
		"jobs":  func(ctx context.Context, p *pipeline.Pipeline, q run.Request) { run.StartJob(ctx, p, q) },
		"calls": func(ctx context.Context, p *pipeline.Pipeline, q run.Request) { go pipeline.Do(ctx, p, q) },
		"cells": func(ctx context.Context, p *pipeline.Pipeline, q run.Request) { go pipeline.Do(ctx, p, q) },
	} {
		for _, slots := range []int{1, 2} {
			p, _, _ := pipelinetest.NewReal(t, func(c *pipeline.Config) { c.Queue = pipeline.NewQueue(slots, 256) })
			ctx, cancel := context.WithCancel(t.Context())
			var sessions [3]string
			for i := range sessions {
				if name == "cells" {
					sessions[i] = pipelinetest.Open(t, p, session.New{Namespace: "a", Language: "shell"}).ID
				}
			}
			for _, session := range sessions {
				hold(ctx, p, run.Request{Namespace: "a", Where: run.Where{Session: session}, Language: "shell", Code: []byte(forever)})
			}
			hosttest.Until(t, "all slots are taken", func() bool { l := p.Load(); return l.Running == slots && l.Waiting == 3-slots })
			longest := time.Duration(0)
			for range 5 {
				began := time.Now()
				_, res, err := pipeline.Do(t.Context(), p, run.Request{Namespace: "b", Language: "shell", Code: []byte("echo answered")})
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
