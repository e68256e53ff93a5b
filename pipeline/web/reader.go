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

// Limits of a reader for one page. Most need milliseconds and 20 MB.
const (
	readerRAM  = 768 << 20
	readerWall = 20 * time.Second
	readerAt   = "/sandboxmcp"
	// readerLimit makes the garbage collector run before the kernel would kill the reader.
	readerLimit = "GOMEMLIMIT=640MiB"
)

// maxInProcess bounds a page that is parsed in this process without a sandbox, in bytes.
const maxInProcess = 2 << 20

// readPage parses a page in a sandbox: strangers wrote it, possibly to attack the parser. A parser that dies is the
// page's fault, and part of the answer; an error is about the sandbox.
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
		return unreadAnswer(fmt.Sprintf("the page reader failed on this page (%s)", end.Ended)), nil
	}
	a, err := reader.Parse(out.Bytes())
	if err != nil {
		return unreadAnswer("what reads pages has sent " + err.Error()), nil
	}
	return a, nil
}

// runReader starts a sandbox for one page. It contains only the program, and has no network.
func runReader(ctx context.Context, r *pipeline.Run, program string, question []byte, out *capped) (end backends.Result, err error) {
	c, err := containment.Choose(r.Pipeline, "process", "", nil)
	if err != nil {
		return end, err
	}
	spec := backends.Spec{ID: pipeline.NewID(), Language: "shell", Profile: c.Base, Require: c.Requires,
		Limits: backends.Limits{RAM: readerRAM, CPU: 1, Processes: 64, Disk: 1 << 20, Wall: readerWall}}
	inside := readerAt
	if c.Base == "landlock" { // it can't mount
		inside = program
	}
	if !slices.ContainsFunc(backends.SystemDirs, func(dir string) bool { return paths.Below(inside, dir) }) { // every sandbox shows these
		spec.Mounts = []backends.Mount{{Host: program, Inside: inside}}
	}
	sandbox, err := c.Backend.Start(ctx, spec)
	if err != nil {
		return end, fmt.Errorf("start the page reader: %w", err)
	}
	defer sandbox.Close()
	end, err = sandbox.Exec(ctx, backends.Command{Args: []string{inside, role.PageReader}, Env: []string{readerLimit}},
		backends.Streams{Stdin: bytes.NewReader(question), Stdout: out})
	if err != nil {
		return end, fmt.Errorf("start the page reader: %w", err)
	}
	r.Outcome.Backend, r.Outcome.Profile, r.Outcome.Layers = c.Backend.Name(), c.Profile, slices.Clone(end.Contained.Layers)
	return end, nil
}

// unreadAnswer returns the answer about a page that could not be read.
func unreadAnswer(why string) reader.Answer {
	return reader.Answer{Page: page.Page{Note: why}, Error: why}
}

// readHere parses in this process. It recovers from panics; a page may cost time and memory of the server.
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

// capped keeps up to limit bytes written to it.
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
