package run_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/output"
	"github.com/sandboxmcp/sandboxmcp/pipeline/pipelinetest"
	"github.com/sandboxmcp/sandboxmcp/pipeline/run"
)

func TestSecretInChunksIsRedactedBeforeItIsCut(t *testing.T) {
	r := pipelinetest.NewRig(t, nil)
	r.Memory.Set("default", "TOKEN", []byte(password))
	// After a cut in the middle of the secret, its rest must not appear either.
	for _, output := range []int64{5, 12, 100} {
		var live hosttest.Buffer
		res, err := r.Shell(`printf "a ${TOKEN:0:9}"; sleep 0.05; printf "${TOKEN:9} b"; printf "$TOKEN" >&2`, func(q *run.Request) {
			q.Secrets, q.Output = []string{"TOKEN"}, output
			q.Stdout, q.Stderr = &live, &live
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range []string{res.Stdout, res.Stderr, live.String()} {
			for i := 0; i+4 <= len(password); i++ {
				if strings.Contains(text, password[i:i+4]) {
					t.Errorf("output %d: %q holds a part of the secret", output, text)
					break
				}
			}
		}
		if want := "a ***REDACTED*** b"; output == 100 && res.Stdout != want {
			t.Errorf("got %q, want %q", res.Stdout, want)
		}
		if want := int64(len("a ***REDACTED*** b")) - output; output < 18 && res.StdoutCut != want {
			t.Errorf("output %d: cut %d bytes, want %d", output, res.StdoutCut, want)
		}
	}
}

func TestSecretLeavesByNoOtherPath(t *testing.T) {
	r := pipelinetest.NewRig(t, nil)
	r.Memory.Set("default", "TOKEN", []byte(password))
	dir := t.TempDir()
	res, err := r.Shell(`echo "$TOKEN" > plain; echo fine > "name-$TOKEN"; echo "ModuleNotFoundError: No module named '$TOKEN'" >&2; exit 1`,
		func(q *run.Request) {
			q.Secrets, q.Artifacts = []string{"TOKEN"}, dir
			q.Beside = func(module string) (string, bool) { return "/somewhere/" + password, true }
		})
	if err != nil {
		t.Fatal(err)
	}
	visible, err := res.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	_, rows := r.Rows()
	for where, text := range map[string]string{"result": string(visible), "log": rows} {
		if strings.Contains(text, password) {
			t.Errorf("the secret is in the %s: %s", where, text)
		}
	}
	if len(res.Artifacts) != 2 || res.Artifacts[0].Withheld == "" || res.Artifacts[1].Withheld == "" {
		t.Errorf("artifacts with a secret were handed out: %+v", res.Artifacts)
	}
	for _, a := range res.Artifacts {
		if a.SHA256 == "" {
			t.Errorf("%s is not hashed", a.Name)
		}
	}
	if err := checkAbsent(dir, password); err != nil {
		t.Error(err)
	}
}

func TestPolicyMayHandOutSecrets(t *testing.T) {
	r := pipelinetest.NewRig(t, func(c *pipeline.Config) { c.Artifacts.ShowSecrets = true })
	r.Memory.Set("default", "TOKEN", []byte(password))
	res, err := r.Shell(`echo "$TOKEN" > plain`, func(q *run.Request) { q.Secrets = []string{"TOKEN"} })
	if err != nil || len(res.Artifacts) != 1 || res.Artifacts[0].Withheld != "" {
		t.Errorf("%v, artifacts %+v", err, res.Artifacts)
	}
}

// A writer that blocks holds up its own caller, until that one gives up, and nothing else.
func TestBlockedWriterDoesNotWedgeTheRun(t *testing.T) {
	r := pipelinetest.NewRig(t, func(c *pipeline.Config) { c.Queue = pipeline.NewQueue(1, 0) })
	reader, writer := io.Pipe()
	defer reader.Close()
	ctx, cancel := context.WithCancel(t.Context())
	type answer struct {
		res pipeline.Outcome
		err error
	}
	done := make(chan answer)
	go func() {
		_, res, err := pipeline.Do(ctx, r.Pipeline, run.Request{
			Language: "shell", Code: []byte("for i in {1..5000}; do echo line; done; echo end"), Streams: run.Streams{Stdout: writer},
		})
		done <- answer{res, err}
	}()
	hosttest.Until(t, "the row of the end is there", func() bool {
		kinds, _ := r.Rows()
		return len(kinds) == 2
	})
	hosttest.Until(t, "the slot is free", func() bool { return r.Load().Running == 0 })
	if n := r.Backend.Open.Load(); n != 0 {
		t.Error("the sandbox is still there while its caller's writer blocks")
	}
	cancel()
	got := <-done
	if got.err != nil || got.res.Ended != "ok" || !strings.HasSuffix(got.res.Stdout, "end\n") {
		t.Errorf("got %v, ended %q, %d bytes", got.err, got.res.Ended, len(got.res.Stdout))
	}
}

func TestBrokenWriterLosesNothing(t *testing.T) {
	r := pipelinetest.NewRig(t, nil)
	res, err := r.Shell("echo one; sleep 0.05; echo two", func(q *run.Request) { q.Stdout = brokenWriter{} })
	if err != nil || res.Stdout != "one\ntwo\n" {
		t.Errorf("%v, %q", err, res.Stdout)
	}
}

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, errors.New("closed") }

func TestSlowWriterGetsEverything(t *testing.T) {
	r := pipelinetest.NewRig(t, nil)
	slow := slowWriter{after: make(chan struct{})}
	go func() {
		hosttest.Until(t, "the program has ended", func() bool { return r.Backend.Execs.Load() == 1 && r.Backend.Running.Load() == 0 })
		close(slow.after)
	}()
	res, err := r.Shell("echo one; echo two", func(q *run.Request) { q.Stdout = &slow })
	if err != nil || slow.String() != "one\ntwo\n" || res.Stdout != "one\ntwo\n" {
		t.Errorf("%v: the writer got %d bytes, the result has %d", err, len(slow.String()), len(res.Stdout))
	}
}

// slowWriter takes nothing before the program has ended.
type slowWriter struct {
	hosttest.Buffer
	after chan struct{}
}

func (w *slowWriter) Write(b []byte) (int, error) {
	<-w.after
	return w.Buffer.Write(b)
}

func TestLiveOutputComesWhileTheProgramRuns(t *testing.T) {
	r := pipelinetest.NewRig(t, nil)
	var live hosttest.Buffer
	done := make(chan struct{})
	release, hold := io.Pipe()
	go func() {
		defer close(done)
		r.Shell("echo first; read line; echo last", func(q *run.Request) { q.Stdout, q.Stdin = &live, release })
	}()
	hosttest.Until(t, "the first line is there", func() bool { return live.String() == "first\n" })
	io.WriteString(hold, "go\n")
	hold.Close()
	<-done
	if got := live.String(); got != "first\nlast\n" {
		t.Errorf("got %q", got)
	}
}

func TestOutputThatIsNotText(t *testing.T) {
	r := pipelinetest.NewRig(t, nil)
	res, err := r.Shell(`printf '\377\000\376'`, nil)
	if err != nil || res.Stdout != "\xff\x00\xfe" {
		t.Fatalf("%v, %q", err, res.Stdout)
	}
	b, err := res.MarshalJSON()
	if err != nil || !bytes.Contains(b, []byte(`"stdout_base64":"/wD+"`)) {
		t.Errorf("%v: %s", err, b)
	}
}

// A caller that asks for the whole output gets it, at the reader's own pace, and no more than a window of it is ever in
// memory.
func TestWholeOutput(t *testing.T) {
	const limit, chunk, all = 1000, 32 << 10, 64 << 20
	want := sha256.New()
	reader, writer := io.Pipe()
	s := output.NewStream(limit, writer, true)
	go func() {
		b := make([]byte, chunk)
		for i := range all / chunk {
			copy(b, strconv.Itoa(i))
			want.Write(b)
			s.Write(b)
		}
		s.Close()
		<-s.Delivered
		writer.Close()
	}()
	got, b := sha256.New(), make([]byte, chunk)
	for n := int64(0); ; {
		m, err := reader.Read(b)
		got.Write(b[:m])
		s.Mu.Lock()
		held := cap(s.Unread.Text)
		s.Mu.Unlock()
		if n += int64(m); held > 2*output.MaxWindow {
			t.Fatalf("%d bytes are held after %d", held, n)
		}
		if n == all {
			break
		}
		if err != nil {
			t.Fatalf("%v after %d of %d bytes", err, n, int64(all))
		}
	}
	<-s.Delivered
	sum, n, ok := s.DeliveredHash()
	if retained, cut := s.Contents(); len(retained) != limit || cut != all-limit {
		t.Errorf("kept %d bytes and cut %d", len(retained), cut)
	}
	if hex := fmt.Sprintf("%x", want.Sum(nil)); !ok || n != all || sum != hex || fmt.Sprintf("%x", got.Sum(nil)) != hex {
		t.Errorf("%d bytes were handed out as %s, want %s", n, sum, hex)
	}
}

// A reader that has failed, or that somebody has given up on, holds nothing up any more.
func TestWholeOutputLetsGo(t *testing.T) {
	big := make([]byte, 2*output.MaxWindow)
	for name, let := range map[string]func(*output.Stream, *io.PipeReader){
		"failed":   func(_ *output.Stream, r *io.PipeReader) { r.Close() },
		"given up": func(s *output.Stream, _ *io.PipeReader) { s.StopWaitingForReaders() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				reader, writer := io.Pipe()
				defer reader.Close()
				s := output.NewStream(1, writer, true)
				done := false
				go func() {
					for range 3 {
						s.Write(big)
					}
					done = true
					s.Close()
				}()
				synctest.Wait()
				if done {
					t.Fatal("a reader that does not read holds nothing up")
				}
				let(s, reader)
				synctest.Wait()
				if !done {
					t.Fatal("it still holds the program up")
				}
			})
		})
	}
}

// A reader of the whole output that does not read holds up the program until its time is up, and not its record.
func TestWholeOutputEndsWithTime(t *testing.T) {
	r := pipelinetest.NewRig(t, nil)
	reader, writer := io.Pipe()
	defer reader.Close()
	done := make(chan pipeline.Outcome)
	go func() {
		_, res, _ := pipeline.Do(t.Context(), r.Pipeline, run.Request{Language: "shell",
			Code: []byte("while :; do echo a line of some length; done"), Streams: run.Streams{Stdout: writer, Whole: true,
				Stop: &pipeline.Stopper{}}, Bounds: pipeline.Bounds{Limits: backends.Limits{Wall: time.Second}}})
		done <- res
	}()
	hosttest.Until(t, "the row of the end is there", func() bool {
		kinds, _ := r.Rows()
		return slices.Contains(kinds, "execution.timeout")
	})
	if res := <-done; res.Ended != backends.EndedTimeout {
		t.Errorf("it ended %q", res.Ended)
	}
}

func FuzzStream(f *testing.F) {
	f.Add([]byte("héllo wörld €uro \U0001F600"), int64(7), uint8(3))
	f.Add([]byte("héllo wörld €uro \U0001F600"), int64(2), uint8(200))
	f.Add([]byte("aé€\U0001F600"), int64(9), uint8(0))
	f.Add([]byte("\xff\xfe\x80\x80\x80\xf0\x9f"), int64(5), uint8(1))
	f.Fuzz(func(t *testing.T, text []byte, limit int64, step uint8) {
		limit = max(limit%64, 1)
		var live hosttest.Buffer
		s := output.NewStream(limit, &live, false)
		for rest := text; len(rest) > 0; {
			n := min(len(rest), int(step)+1)
			if wrote, err := s.Write(rest[:n]); wrote != n || err != nil {
				t.Fatalf("wrote %d of %d: %v", wrote, n, err)
			}
			rest = rest[n:]
		}
		s.Close()
		<-s.Delivered
		retained, cut := s.Contents()
		switch {
		case !bytes.HasPrefix(text, []byte(retained)):
			t.Errorf("kept %q of %q", retained, text)
		case int64(len(retained)) > limit:
			t.Errorf("kept %d bytes, want at most %d", len(retained), limit)
		case int64(len(retained))+cut != int64(len(text)):
			t.Errorf("kept %d and cut %d of %d bytes", len(retained), cut, len(text))
		case live.String() != retained:
			t.Errorf("the writer got %q, the result has %q", live.String(), retained)
		case utf8.Valid(text) && !utf8.ValidString(retained):
			t.Errorf("a character was cut in half: %q", retained)
		case int64(len(text)) <= limit && cut != 0:
			t.Errorf("cut %d bytes that had room", cut)
		}
	})
}

func TestHintNamesTheMissingHost(t *testing.T) {
	for stderr, want := range map[string]string{
		"curl: (6) Could not resolve host: example.com\n":                                     "example.com",
		"Error: getaddrinfo EAI_AGAIN api.example.com\n at x":                                 "api.example.com",
		"HTTPSConnectionPool(host='pypi.org', port=443): Max retries":                         "pypi.org",
		"wget: unable to resolve host address \u2018example.org\u2019":                        "example.org",
		"fatal: unable to access 'https://a.test/': Could not resolve host: a.test":           "a.test",
		"socket.gaierror: [Errno -3] Temporary failure in name resolution":                    "DOMAIN",
		"Could not resolve host: 10.0.0.1":                                                    "DOMAIN",
		"Could not resolve host: first.test\nCould not resolve host: second.test.\nand so on": "second.test",
	} {
		if got := run.MissingHost(stderr); got != want {
			t.Errorf("%q: got %q, want %q", stderr, got, want)
		}
	}
}
