package machine

import (
	"bufio"
	"context"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestDoctorWaitsForNobody checks that other findings are printed while an engine does not answer.
func TestDoctorWaitsForNobody(t *testing.T) {
	cfg := deafConfig(t)
	address, _ := listenDeaf(t)
	cfg.Containers.Podman, cfg.Containers.Docker = address, address
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r, w := io.Pipe()
	done := make(chan error, 1)
	go func() {
		_, err := examine(ctx, cfg, w)
		w.Close()
		done <- err
	}()
	var state, engines int
	for lines := bufio.NewScanner(r); lines.Scan(); {
		switch text := lines.Text(); {
		case strings.HasPrefix(text, "state "):
			if state++; engines > 0 {
				t.Error("an engine that does not answer came first")
			}
			cancel() // as at the end of the engines' timeout
		case strings.HasPrefix(text, "engine "):
			engines++
		}
	}
	if err := <-done; state != 1 || engines != 2 {
		t.Errorf("got %d and %d lines, %v", state, engines, err)
	}
}

// TestDoctorDeadline checks that a check that ignores its context delays nothing.
func TestDoctorDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		never := make(chan struct{})
		defer close(never)
		began := time.Now()
		l := check{"engine", "stuck", 20 * time.Second, func(context.Context) (diagnosis, error) {
			<-never
			return diagnosis{}, nil
		}}
		d, err := l.runWithTimeout(t.Context())
		if took := time.Since(began); err != nil || took != 21*time.Second || !d.Usable || len(d.Found) != 1 ||
			d.Found[0].Name != "stuck" || d.Found[0].Detail != "it has not answered within 20s" {
			t.Errorf("after %v: %+v, %v", took, d, err)
		}
		l.kind, l.timeout = "backend", time.Second
		if d, _ := l.runWithTimeout(t.Context()); d.Usable || d.Why != "backend stuck: it has not answered within 1s" {
			t.Errorf("got %+v", d)
		}
	})
}
