package inside

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/guest"
	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/pipelinetest"
	"github.com/sandboxmcp/sandboxmcp/pipeline/run"
	"github.com/sandboxmcp/sandboxmcp/pipeline/session"
)

func TestProcesses(t *testing.T) {
	p, log, memory := pipelinetest.NewReal(t, nil)
	memory.Set("default", "TOKEN", []byte("abc123def456ghi"))
	id := bare(t, p)
	if got := ran(t, p, id, "bash", "-c", "whoami; pwd; echo $FOO"); got != "user\n/home/user\nbar" {
		t.Errorf("got %q", got)
	}
	r, reader, err := Start(t.Context(), p, StartProcess{
		Process: Process{Session: id, Args: []string{"bash", "-c", "echo begun; cat; echo ended; exit 3"}}, Tag: "one", Input: true})
	if err != nil {
		t.Fatal(err)
	}
	next := func(a *Reader) string {
		part, err := a.Next(t.Context())
		if err != nil {
			return err.Error()
		}
		return string(part.Data)
	}
	if got := next(reader); got != "begun\n" {
		t.Errorf("got %q", got)
	}
	late := r.Attach()
	if err := r.Send(t.Context(), []byte("hello\n")); err != nil {
		t.Error(err)
	}
	for _, a := range []*Reader{reader, late} {
		if got := next(a); got != "hello\n" {
			t.Errorf("got %q", got)
		}
	}
	if all := Processes(p, "default", id); len(all) != 1 || all[0] != r || r.PID < 2 {
		t.Errorf("got %v", all)
	}
	late.Close()
	r.CloseInput()
	if got := next(reader) + next(reader); got != "ended\nEOF" {
		t.Errorf("got %q", got)
	}
	if res, err := r.Result(); err != nil || res.ExitCode != 3 || res.Stdout != "begun\nhello\nended\n" {
		t.Errorf("got %+v, %v", res, err)
	}
	if all := Processes(p, "default", id); len(all) != 0 {
		t.Errorf("%d are left", len(all))
	}
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		r, reader, err := Start(t.Context(), p, StartProcess{Process: Process{Session: id, Args: []string{"sleep", "1000"}}})
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Signal(sig); err != nil {
			t.Error(err)
		}
		if got := next(reader); got != "EOF" {
			t.Errorf("got %q", got)
		}
		if res, _ := r.Result(); res.ExitCode == 0 {
			t.Errorf("%v: got %+v", sig, res)
		}
	}
	kinds := pipelinetest.RowCounters(t, log)
	if kinds["execution.started"] != 4 || kinds["execution.completed"]+kinds["execution.failed"] != 4 {
		t.Errorf("got %v", kinds)
	}
}

// TestProcessReaders: a reader that does not read holds up its program and nobody else, and no end of a session.
func TestProcessReaders(t *testing.T) {
	p, _, _ := pipelinetest.NewReal(t, nil)
	id := bare(t, p)
	r, reader, err := Start(t.Context(), p, StartProcess{Process: Process{Session: id, Args: []string{"bash", "-c", "yes"}}})
	if err != nil {
		t.Fatal(err)
	}
	if got := ran(t, p, id, "echo", "meanwhile"); got != "meanwhile" {
		t.Errorf("got %q", got)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		pipeline.Do(context.Background(), p, session.End{Session: id})
	}()
	reader.Close()
	<-done
	if res, _ := r.Result(); res.ExitCode == 0 {
		t.Errorf("got %+v", res)
	}
}

func TestTerminalProcess(t *testing.T) {
	p, _, _ := pipelinetest.NewReal(t, nil)
	id := bare(t, p)
	r, reader, err := Start(t.Context(), p, StartProcess{Process: Process{Session: id, Args: []string{"bash", "--norc", "-i"}},
		Size: &backends.Size{Columns: 80, Rows: 24}})
	if err != nil {
		t.Fatal(err)
	}
	var screen strings.Builder
	shows := func(text string) {
		for !strings.Contains(screen.String(), text) {
			part, err := reader.Next(t.Context())
			if err != nil {
				t.Fatalf("%q is missing in %q", text, screen.String())
			}
			screen.Write(part.Data)
		}
	}
	r.Send(t.Context(), []byte("stty size; echo $((6*7))\n"))
	shows("24 80\r\n42")
	r.Resize(backends.Size{Columns: 100, Rows: 30})
	hosttest.Until(t, "the terminal has its new size", func() bool {
		r.Send(t.Context(), []byte("stty size\n"))
		part, err := reader.Next(t.Context())
		screen.Write(part.Data)
		return err != nil || strings.Contains(screen.String(), "30 100")
	})
	r.Send(t.Context(), []byte("exit\n"))
	for err == nil {
		_, err = reader.Next(t.Context())
	}
	if err != io.EOF {
		t.Error(err)
	}
}

func TestContexts(t *testing.T) {
	p, log, _ := pipelinetest.NewReal(t, nil)
	id := bare(t, p)
	hosttest.Program(t, "python3")
	var ids []string
	for _, dir := range []string{"", "/tmp"} {
		made, _, err := pipeline.Do(t.Context(), p, session.NewContext{Session: id, Language: "python", Dir: dir, Env: []string{"MINE=" + dir}})
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, made.ID)
	}
	cell := func(context, code string) string {
		t.Helper()
		_, res, err := pipeline.Do(t.Context(), p, run.Request{Where: run.Where{Session: id, Context: context}, Code: []byte(code)})
		if err != nil {
			return err.Error()
		}
		return res.Stdout
	}
	cell(ids[0], "x = 1")
	cell(ids[1], "x = 2")
	for i, want := range []string{"1 bar /home/user\n", "2 bar /tmp\n"} {
		if got := cell(ids[i], "import os; print(x, os.environ['FOO'], os.getcwd())"); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	// One waits for nobody else's code.
	busy, stop := context.WithCancel(t.Context())
	begun := make(chan struct{})
	var ended sync.WaitGroup
	ended.Go(func() {
		pipeline.Do(busy, p, run.Request{Where: run.Where{Session: id, Context: ids[0]},
			Code:    []byte("import time; print('begun', flush=True); time.sleep(1000)"),
			Streams: run.Streams{Stdout: pipelinetest.WriterFunc(func([]byte) { close(begun) })}})
	})
	<-begun
	if got := cell(ids[1], "print(x)"); got != "2\n" {
		t.Errorf("got %q", got)
	}
	stop()
	ended.Wait()
	if got := cell(ids[0], "print(x)"); got != "1\n" {
		t.Errorf("after an interrupt: got %q", got)
	}
	if _, _, err := pipeline.Do(t.Context(), p, session.EndContext{Session: id, Context: ids[0], Restart: true}); err != nil {
		t.Error(err)
	}
	if got := cell(ids[0], "print('x' in globals())"); got != "False\n" {
		t.Errorf("after a restart: got %q", got)
	}
	if _, _, err := pipeline.Do(t.Context(), p, session.EndContext{Session: id, Context: ids[1]}); err != nil {
		t.Error(err)
	}
	s, err := session.FindSession(p, "default", id)
	if err != nil {
		t.Fatal(err)
	}
	if list := s.Contexts(); len(list) != 1 || list[0].ID != ids[0] {
		t.Errorf("got %v", list)
	}
	if got := cell(ids[1], "print(x)"); !strings.Contains(got, "no such context") {
		t.Errorf("got %q", got)
	}
	if got := cell("", "print(x)"); !strings.Contains(got, "no interpreter of its own") {
		t.Errorf("got %q", got)
	}
	kinds := pipelinetest.RowCounters(t, log)
	if kinds["session.context"] != 4 {
		t.Errorf("got %v", kinds)
	}
}

func TestSessionFiles(t *testing.T) {
	p, log, memory := pipelinetest.NewReal(t, nil)
	secret := "abc123def456ghi"
	memory.Set("default", "TOKEN", []byte(secret))
	id := pipelinetest.Open(t, p, session.New{Language: "shell", Guest: true}).ID
	ctx := t.Context()
	e, _, err := pipeline.Do(ctx, p, WriteFile{Session: id, FileWrite: guest.FileWrite{Path: "a/b.txt", Whole: true},
		Content: strings.NewReader("hello")})
	if err != nil || e.Path != "/workspace/a/b.txt" {
		t.Fatalf("got %+v, %v", e, err)
	}
	read := func(name string) string {
		_, r, err := ReadFile(ctx, p, "default", id, name)
		if err != nil {
			return err.Error()
		}
		defer r.Close()
		text, err := io.ReadAll(r)
		if err != nil {
			return err.Error()
		}
		return string(text)
	}
	if got := read("~/a/b.txt"); got != "hello" {
		t.Errorf("got %q", got)
	}
	for _, op := range []ChangeFile{{Op: "mkdir", Path: "d"}, {Op: "move", Path: "a/b.txt", To: "d/c"}, {Op: "remove", Path: "a"}} {
		op.Session = id
		if _, _, err := pipeline.Do(ctx, p, op); err != nil {
			t.Errorf("%s: %v", op.Op, err)
		}
	}
	if _, _, err := pipeline.Do(ctx, p, ChangeFile{Session: id, Op: "move", Path: "none", To: "x"}); guest.ReasonOf(err) != guest.NotFound {
		t.Errorf("got %v", err)
	}
	if list, _, err := ListFiles(ctx, p, "default", id, "", 2); err != nil || len(list) != 2 || list[1].Path != "/workspace/d/c" {
		t.Errorf("got %+v, %v", list, err)
	}
	if _, err := StatFile(ctx, p, "other", id, "d"); !errors.Is(err, session.ErrUnknown) {
		t.Errorf("another namespace: got %v", err)
	}
	// A secret that was leased to the session does not leave it, in content or names.
	if _, _, err := pipeline.Do(ctx, p, run.Request{
		Where: run.Where{Session: id}, Language: "shell", Code: []byte(`echo "it is $TOKEN" > leak; touch "$TOKEN"`),
		Reach: run.Reach{Secrets: []string{"TOKEN"}},
	}); err != nil {
		t.Fatal(err)
	}
	if got := read("leak"); !strings.Contains(got, "withheld") || strings.Contains(got, secret) {
		t.Errorf("got %q", got)
	}
	if got := read("d/c"); got != "hello" {
		t.Errorf("got %q", got)
	}
	// Each of these is a copy on the server's disk, of which a session has a few.
	var copies []io.Closer
	for range 4 {
		_, f, err := ReadFile(ctx, p, "default", id, "d/c")
		if err != nil {
			t.Fatal(err)
		}
		copies = append(copies, f)
	}
	soon, cancel := context.WithTimeout(ctx, time.Second/4)
	defer cancel()
	if _, _, err := ReadFile(soon, p, "default", id, "d/c"); err == nil {
		t.Error("a session has more than 4 copies of its files on the server")
	}
	for _, f := range copies {
		f.Close()
	}
	if got := read("d/c"); got != "hello" {
		t.Errorf("got %q", got)
	}
	list, _, _ := ListFiles(ctx, p, "default", id, "", 1)
	for _, e := range list {
		if strings.Contains(e.Name+e.Path, secret) {
			t.Errorf("%+v tells the secret", e)
		}
	}
	var out bytes.Buffer
	if _, _, err := pipeline.Do(ctx, p, Process{
		Session: id, Args: []string{"cat", "leak"}, Stdout: &out,
	}); err != nil || strings.Contains(out.String(), secret) || !strings.Contains(out.String(), "***") {
		t.Errorf("got %q, %v", out.String(), err)
	}
	if _, _, err := pipeline.Do(ctx, p, DialPort{Session: id, Port: 80}); err == nil || !strings.Contains(err.Error(), "has leased secrets") {
		t.Errorf("got %v", err)
	}
	if rows := pipelinetest.RowCounters(t, log)["session.file"]; rows != 5 {
		t.Errorf("%d rows of files", rows)
	}
}

// TestLeasedMeanwhile: once a secret is leased to one program, the output of the session's other programs has it no
// more, and readers that were opened before return no more of it.
func TestLeasedMeanwhile(t *testing.T) {
	p, _, memory := pipelinetest.NewReal(t, nil)
	hosttest.Program(t, "python3")
	secret := "abc123def456ghi"
	memory.Set("default", "TOKEN", []byte(secret))
	id := pipelinetest.Open(t, p, session.New{Language: "shell", Guest: true}).ID
	ctx := t.Context()
	if _, _, err := pipeline.Do(ctx, p, session.NewContext{Session: id, ID: "other", Language: "shell"}); err != nil {
		t.Fatal(err)
	}
	wait := "echo begun; until test -e done; do sleep 0.01; done; cat leak"
	r, reader, err := Start(ctx, p, StartProcess{Process: Process{Session: id, Args: []string{"bash", "-c", wait}}})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	var all sync.WaitGroup
	all.Go(func() {
		for part, err := reader.Next(ctx); err == nil; part, err = reader.Next(ctx) {
			out.Write(part.Data)
		}
	})
	begun, once, cell := make(chan struct{}), sync.Once{}, pipeline.Outcome{}
	all.Go(func() {
		var err error
		_, cell, err = pipeline.Do(ctx, p, run.Request{Where: run.Where{Session: id, Context: "other"}, Language: "shell", Code: []byte(wait),
			Streams: run.Streams{Stdout: pipelinetest.WriterFunc(func([]byte) { once.Do(func() { close(begun) }) })}})
		if err != nil {
			t.Error(err)
		}
	})
	<-begun
	server := "import socket\ns = socket.create_server(('127.0.0.1', 8000))\nprint(flush=True)\nc, _ = " +
		"s.accept()\nc.send(b'first')\nc.recv(1)\nc.send(open('leak', 'rb').read())"
	_, listening, err := Start(ctx, p, StartProcess{Process: Process{Session: id, Args: []string{"python3", "-c", server}}})
	if err != nil {
		t.Fatal(err)
	}
	defer listening.Close()
	if _, err := listening.Next(ctx); err != nil {
		t.Fatal(err)
	}
	conn, _, err := pipeline.Do(ctx, p, DialPort{Session: id, Port: 8000})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.ReadFull(conn, make([]byte, 5)); err != nil {
		t.Fatal(err)
	}
	if _, _, err := pipeline.Do(ctx, p, run.Request{
		Where: run.Where{Session: id}, Language: "shell", Code: []byte(`echo "$TOKEN" > leak; touch done`),
		Reach: run.Reach{Secrets: []string{"TOKEN"}},
	}); err != nil {
		t.Fatal(err)
	}
	all.Wait()
	if res, err := r.Result(); err != nil || strings.Contains(out.String()+res.Stdout, secret) || !strings.Contains(out.String(), "***") {
		t.Errorf("the program said %q, %q, %v", out.String(), res.Stdout, err)
	}
	if strings.Contains(cell.Stdout, secret) || !strings.Contains(cell.Stdout, "***") {
		t.Errorf("the cell said %q", cell.Stdout)
	}
	if _, err := conn.Write([]byte("x")); err != nil {
		t.Error(err)
	}
	if got, err := io.ReadAll(conn); err == nil || len(got) > 0 {
		t.Errorf("the port said %q, %v", got, err)
	}
}

func TestDialPort(t *testing.T) {
	p, _, _ := pipelinetest.NewReal(t, nil)
	id := bare(t, p)
	hosttest.Program(t, "python3")
	_, reader, err := Start(t.Context(), p, StartProcess{Process: Process{Session: id, Args: []string{"python3", "-u", "-c",
		"import socket\ns=socket.create_server(('127.0.0.1',8000))\nprint('listens')\nc,_=s.accept()\nc.sendall(c.recv(99).upper())"}}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := reader.Next(t.Context()); err != nil {
		t.Fatal(err)
	}
	conn, _, err := pipeline.Do(t.Context(), p, DialPort{Session: id, Port: 8000})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	io.WriteString(conn, "hello")
	if got, err := io.ReadAll(conn); string(got) != "HELLO" {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestChangeSession(t *testing.T) {
	p, _, _ := pipelinetest.NewReal(t, nil)
	id := bare(t, p)
	ends := time.Now().Add(time.Hour)
	info, _, err := pipeline.Do(t.Context(), p, session.Change{Session: id, Ends: ends, Metadata: map[string]string{"a": "b"}})
	if err != nil {
		t.Fatal(err)
	}
	if got := info.Created.Add(time.Duration(info.Lifetime * float64(time.Second))); got.Sub(ends).Abs() > time.Second ||
		info.Metadata["a"] != "b" {
		t.Errorf("ends at %v, want %v: %+v", got, ends, info)
	}
	if _, _, err := pipeline.Do(t.Context(), p, session.Change{Session: id, Ends: time.Now().Add(1000 * time.Hour)}); err == nil {
		t.Error("it may live for 1000 hours")
	}
	if _, _, err := pipeline.Do(t.Context(), p, session.Change{Session: id, Ends: time.Now()}); err != nil {
		t.Error(err)
	}
	hosttest.Until(t, "the session has ended", func() bool {
		i, err := session.InfoOf(p, "default", id)
		return err == nil && i.Ended == "lifetime"
	})
}

// Bare opens a session without an interpreter.
func bare(t *testing.T, p *pipeline.Pipeline) string {
	t.Helper()
	info, err := pipelinetest.OpenSession(t.Context(), p, session.New{Bare: true, Home: "/home/user", Env: []string{"FOO=bar"}})
	if err != nil {
		t.Fatal(err)
	}
	return info.ID
}

// ran runs a program in a session and returns its output.
func ran(t *testing.T, p *pipeline.Pipeline, id string, args ...string) string {
	t.Helper()
	var out bytes.Buffer
	if _, res, err := pipeline.Do(t.Context(), p, Process{Session: id, Args: args, Stdout: &out}); err != nil || res.ExitCode != 0 {
		t.Fatalf("%q: %v, %d: %s", args, err, res.ExitCode, res.Stderr)
	}
	return strings.TrimSpace(out.String())
}
