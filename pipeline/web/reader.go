package web

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/paths"
	"github.com/sandboxmcp/sandboxmcp/cli/role"
	"github.com/sandboxmcp/sandboxmcp/egress/web/page"
	"github.com/sandboxmcp/sandboxmcp/egress/web/reader"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/containment"
)

// What a reader gets for one page. Most take milliseconds and 20 MB.
const (
	readerRAM  = 768 << 20
	readerWall = 20 * time.Second
	readerAt   = "/sandboxmcp"
	// readerLimit has garbage collected before the kernel would end the reader for what it holds.
	readerLimit = "GOMEMLIMIT=640MiB"
)

// maxInProcess bounds, in bytes, a page that is parsed in this process where there is no sandbox for it.
const maxInProcess = 2 << 20

// readPage has a page parsed in a sandbox: it was made by strangers, and so may be made for the parser. A parser
// that dies of a page is the page's fault, and told as such; an error is of the sandbox.
func readPage(ctx context.Context, r *pipeline.Run, q reader.Question) (reader.Answer, error) {
	program := pipeline.PackageSettings[Config](r.Pipeline).Reader
	if program == "" {
		return readHere(q), nil
	}
	question, err := q.Bytes()
	if err != nil {
		return reader.Answer{}, err
	}
	out := &capped{limit: reader.MaxAnswer}
	end, err := runReader(ctx, r, program, question, out)
	switch {
	case err != nil:
		return reader.Answer{}, err
	case ctx.Err() != nil:
		return reader.Answer{}, context.Cause(ctx)
	case end.Ended != backends.EndedOK:
		return unreadAnswer(fmt.Sprintf("what reads pages has failed on this one (%s)", end.Ended)), nil
	}
	a, err := reader.Parse(out.Bytes())
	if err != nil {
		return unreadAnswer("what reads pages has sent " + err.Error()), nil
	}
	return a, nil
}

// runReader starts a sandbox for one page. It sees no file but the program, and has no network.
func runReader(ctx context.Context, r *pipeline.Run, program string, question []byte, out *capped) (end backends.Result, err error) {
	c, err := containment.Choose(r.Pipeline, "process", "", nil)
	if err != nil {
		return end, err
	}
	spec := backends.Spec{ID: pipeline.NewID(), Language: "shell", Profile: c.Base, Require: c.Requires,
		Limits: backends.Limits{RAM: readerRAM, CPU: 1, Processes: 64, Disk: 1 << 20, Wall: readerWall}}
	inside := readerAt
	if c.Base == "landlock" { // which can't mount
		inside = program
	}
	if !slices.ContainsFunc(backends.SystemDirs, func(dir string) bool { return paths.Below(inside, dir) }) { // which every sandbox shows
		spec.Mounts = []backends.Mount{{Host: program, Inside: inside}}
	}
	sandbox, err := c.Backend.Start(ctx, spec)
	if err != nil {
		return end, fmt.Errorf("start what reads pages: %w", err)
	}
	defer sandbox.Close()
	end, err = sandbox.Exec(ctx, backends.Command{Args: []string{inside, role.PageReader}, Env: []string{readerLimit}}, backends.Streams{Stdin: bytes.NewReader(question), Stdout: out})
	if err != nil {
		return end, fmt.Errorf("start what reads pages: %w", err)
	}
	r.Outcome.Backend, r.Outcome.Profile, r.Outcome.Layers = c.Backend.Name(), c.Profile, slices.Clone(end.Contained.Layers)
	return end, nil
}

// unreadAnswer is the answer about a page of which nothing can be told.
func unreadAnswer(why string) reader.Answer {
	return reader.Answer{Page: page.Page{Note: why}, Error: why}
}

// readHere parses in this process. Panics are caught; a page that takes long, or much memory, takes it from us.
func readHere(q reader.Question) (a reader.Answer) {
	defer func() {
		if recover() != nil {
			a = unreadAnswer("what reads pages has failed on this one")
		}
	}()
	if len(q.Body) > maxInProcess {
		q.Body, q.Cut = q.Body[:maxInProcess], true
	}
	return reader.Read(q)
}

// capped keeps what is written to it, and no more than a bound.
type capped struct {
	bytes.Buffer
	limit int
}

func (c *capped) Write(b []byte) (int, error) {
	if c.Len()+len(b) > c.limit {
		return 0, fmt.Errorf("more than %d bytes", c.limit)
	}
	return c.Buffer.Write(b)
}
