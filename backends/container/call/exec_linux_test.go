package call

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
)

// onBothConns runs a test over both kinds of connection, with a sandbox that is closed at its end.
func onBothConns(t *testing.T, spec backends.Spec, f func(t *testing.T, s backends.Sandbox)) {
	for _, kind := range connKinds {
		t.Run(kind, func(t *testing.T) {
			s, err := startRemote(t.Context(), t, kind, spec, bareStart(t))
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			f(t, s)
		})
	}
}

// runShell runs a shell script.
func runShell(t testing.TB, s backends.Sandbox, script string, streams backends.Streams) backends.Result {
	t.Helper()
	r, err := s.Exec(t.Context(), backends.Command{Args: []string{"bash", "-c", script}}, streams)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestExec(t *testing.T) {
	onBothConns(t, backends.Spec{}, func(t *testing.T, s backends.Sandbox) {
		var out, errs bytes.Buffer
		var begun []backends.Containment
		r, err := s.Exec(t.Context(), backends.Command{
			Args: []string{"bash", "-c", `printf '%s|%s' "$1" "$E"; cat; echo oops >&2; exit 7`, "bash", "\xff\xfe \n"},
			Env:  []string{"E=\x80e", "LATE=1"},
		}, backends.Streams{Stdin: strings.NewReader("|in"), Stdout: &out, Stderr: &errs,
			Begun: func(c backends.Containment) {
				if begun = append(begun, c); out.Len() > 0 {
					t.Error("there was output before it began")
				}
			}})
		if err != nil {
			t.Fatal(err)
		}
		if got, want := out.String(), "\xff\xfe \n|\x80e|in"; got != want || errs.String() != "oops\n" {
			t.Errorf("got %q and %q, want %q and an oops", got, errs.String(), want)
		}
		want := backends.Result{End: backends.End{Ended: backends.EndedExit, ExitCode: 7}, Hit: []string{"disk"}, Contained: held,
			PeakMemory: 1 << 20, Wall: r.Wall}
		if !reflect.DeepEqual(r, want) || r.Wall <= 0 {
			t.Errorf("got %+v, want %+v", r, want)
		}
		if !reflect.DeepEqual(begun, []backends.Containment{held}) {
			t.Errorf("begun with %+v", begun)
		}
		if r := runShell(t, s, "kill -9 $$", backends.Streams{}); r.Ended != backends.EndedSignal || r.ExitCode != 137 {
			t.Errorf("got %+v", r)
		}
		if _, err := s.Exec(t.Context(), backends.Command{Args: []string{"/nowhere"}}, backends.Streams{}); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("got %v, want that it does not exist", err)
		}
		if r, err := s.Exec(t.Context(), backends.Command{Args: []string{"bash", "-c", `exit ${#A}`, "\x7f"},
			Env: []string{"A=\x7f", "B=" + strings.Repeat("x", 100<<10), "C=" + strings.Repeat("x", 100<<10)}}, backends.Streams{}); err != nil ||
			r.ExitCode != 1 {
			t.Errorf("a command of 200 kB: %+v, %v", r, err)
		}
		if _, err := s.Exec(t.Context(), backends.Command{Args: []string{"true", strings.Repeat("x", 20<<20)}}, backends.Streams{Stdout: &out}); err == nil || errors.Is(err, ErrLost) {
			t.Errorf("a command of 20 MB: %v", err)
		}
		if u := s.Usage(); u != (backends.Usage{CPU: 3, Memory: 4, Disk: 5, Processes: 6}) {
			t.Errorf("usage %+v", u)
		}
		if l, err := s.Limit(backends.Limits{RAM: 5 << 20}); err != nil || l != (backends.Limits{RAM: 5 << 20}).WithDefaults() {
			t.Errorf("limits %+v, %v", l, err)
		}
		if _, err := s.Limit(backends.Limits{RAM: 1}); err == nil || err.Error() != "too little" {
			t.Errorf("limits: %v", err)
		}
	})
}

// TestRefused: a refusal by the init arrives unchanged.
func TestRefused(t *testing.T) {
	for _, kind := range connKinds {
		_, err := startRemote(t.Context(), t, kind, backends.Spec{Language: "latin"}, bareStart(t))
		var r *backends.Refusal
		if !errors.As(err, &r) || r.Layer != backends.LayerPID || r.Reason != "nobody speaks it" || r.Remedy.String() != "learn" {
			t.Errorf("%s: got %v, want a refusal", kind, err)
		}
		_, err = startRemote(t.Context(), t, kind, backends.Spec{Mounts: []backends.Mount{{Host: "/\xff"}}}, bareStart(t))
		if err == nil {
			t.Errorf("%s: a spec was changed on the way", kind)
		}
		var got backends.Spec
		want := backends.Spec{ID: "\x7f\x00\n\u00e9\u202e"}
		s, err := startRemote(t.Context(), t, kind, want, func(ctx context.Context, spec backends.Spec) (backends.Sandbox, error) {
			got = spec
			return bareStart(t)(ctx, spec)
		})
		if err != nil {
			t.Fatal(err)
		}
		if s.Close(); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v, want %+v", kind, got, want)
		}
	}
}

// slowly delays reading a program's output until the program, which prints its pid, has ended.
type slowly struct {
	t   *testing.T
	all bytes.Buffer
}

func (w *slowly) Write(p []byte) (int, error) {
	var pid int
	fmt.Sscan(string(p), &pid)
	hosttest.Until(w.t, "the program has ended", func() bool { return syscall.Kill(pid, 0) != nil })
	return w.all.Write(p)
}

type never struct{}

func (never) Write([]byte) (int, error) { return 0, errors.New("this reader left") }

// TestStreams: exactly the written output arrives, before the result, independent of the other streams.
func TestStreams(t *testing.T) {
	data := make([]byte, 5<<20+17)
	rand.New(rand.NewSource(1)).Read(data)
	onBothConns(t, backends.Spec{}, func(t *testing.T, s backends.Sandbox) {
		var out, errs bytes.Buffer
		if runShell(t, s, "cat", backends.Streams{Stdin: bytes.NewReader(data), Stdout: &out}); !bytes.Equal(out.Bytes(), data) {
			t.Errorf("%d bytes came back, of %d, or others", out.Len(), len(data))
		}
		slow := slowly{t: t}
		if runShell(t, s, "echo $$ all", backends.Streams{Stdout: &slow}); !strings.HasSuffix(slow.all.String(), " all\n") {
			t.Errorf("with a writer that is slower than the program: %q", slow.all.String())
		}
		r := runShell(t, s, "head -c 3000000 /dev/zero; head -c 2000000 /dev/zero >&2; exit 3", backends.Streams{Stdout: never{}, Stderr: &errs})
		if r.ExitCode != 3 || errs.Len() != 2000000 {
			t.Errorf("with a writer that fails: exit code %d, %d bytes", r.ExitCode, errs.Len())
		}
		if r := runShell(t, s, "head -c 3000000 /dev/zero", backends.Streams{}); r.ExitCode != 0 {
			t.Errorf("without writers: %+v", r)
		}
		blocked, w := io.Pipe()
		defer w.Close()
		if r := runShell(t, s, "exit 4", backends.Streams{Stdin: blocked}); r.ExitCode != 4 {
			t.Errorf("with an input that never comes: %+v", r)
		}
		if r := runShell(t, s, "exec <&-; sleep 0.1; exit 5", backends.Streams{Stdin: bytes.NewReader(data)}); r.ExitCode != 5 {
			t.Errorf("with an input that is not read: %+v", r)
		}
		out.Reset()
		if runShell(t, s, "cat", backends.Streams{Stdin: io.MultiReader(strings.NewReader("part"), badReader{}), Stdout: &out}); out.String() != "part" {
			t.Errorf("with an input that fails: %q", out.String())
		}
	})
}

type badReader struct{}

func (badReader) Read([]byte) (int, error) { return 0, errors.New("this writer left") }

// TestSlowReader: a slow reader blocks neither the other stream nor another command.
func TestSlowReader(t *testing.T) {
	onBothConns(t, backends.Spec{}, func(t *testing.T, s backends.Sandbox) {
		stuck, free := io.Pipe()
		defer free.Close()
		heard := make(chan struct{})
		done := make(chan backends.Result, 1)
		go func() {
			done <- runShell(t, s, "head -c 20000000 /dev/zero & sleep 0.2; echo here >&2; wait", backends.Streams{Stdout: free, Stderr: closer{heard}})
		}()
		<-heard // otherwise stderr would wait for stdout
		for range 3 {
			runShell(t, s, "true", backends.Streams{})
		}
		if n, _ := io.Copy(io.Discard, io.LimitReader(stuck, 20000000)); n != 20000000 {
			t.Errorf("%d bytes", n)
		}
		if r := <-done; r.Ended != backends.EndedOK {
			t.Errorf("got %+v", r)
		}
	})
}

type closer struct{ c chan struct{} }

func (c closer) Write(p []byte) (int, error) { close(c.c); return len(p), nil }

func TestCancel(t *testing.T) {
	onBothConns(t, backends.Spec{}, func(t *testing.T, s backends.Sandbox) {
		ctx, cancel := context.WithCancel(t.Context())
		r, err := s.Exec(ctx, backends.Command{Args: []string{"sleep", "10000"}}, backends.Streams{Begun: func(backends.Containment) { cancel() }})
		if err != nil || r.Ended != backends.EndedCancelled {
			t.Errorf("got %+v, %v", r, err)
		}
		if _, err := s.Exec(ctx, backends.Command{Args: []string{"true"}}, backends.Streams{}); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want that it was cancelled", err)
		}
		done := make(chan backends.Result, 1)
		begun := make(chan struct{})
		go func() {
			done <- runShell(t, s, "sleep 100", backends.Streams{Begun: func(backends.Containment) { close(begun) }})
		}()
		<-begun
		s.Close()
		if r := <-done; r.Ended != backends.EndedSignal {
			t.Errorf("a command whose sandbox was closed: %+v", r)
		}
		if _, err := s.Exec(t.Context(), backends.Command{Args: []string{"true"}}, backends.Streams{}); err == nil {
			t.Error("a closed sandbox runs commands")
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestChannel(t *testing.T) {
	onBothConns(t, backends.Spec{}, func(t *testing.T, s backends.Sandbox) {
		interrupt := make(chan struct{})
		got := make(chan io.ReadWriteCloser, 1)
		done := make(chan backends.Result, 1)
		go func() {
			done <- runShell(t, s, `trap 'echo stop >&3' INT; while read -r line <&3; do echo "$line!" >&3; done; exit 9`,
				backends.Streams{Channel: func(c io.ReadWriteCloser) { got <- c }, Interrupt: interrupt})
		}()
		c := <-got
		lines := bufio.NewReader(c)
		ask := func(word, want string) {
			fmt.Fprintln(c, word)
			if text, err := lines.ReadString('\n'); text != want+"\n" || err != nil {
				t.Errorf("got %q %v, want %s", text, err, want)
			}
		}
		ask("one", "one!")
		ask("two", "two!")
		interrupt <- struct{}{}
		if text, err := lines.ReadString('\n'); text != "stop\n" {
			t.Errorf("interrupted: %q %v", text, err)
		}
		reading := make(chan error)
		go func() { _, err := lines.ReadByte(); reading <- err }()
		c.Close()
		if err := <-reading; err == nil {
			t.Error("a Read outlives Close")
		}
		if r := <-done; r.ExitCode != 9 {
			t.Errorf("got %+v", r)
		}
		// The program's last output is available after its end.
		runShell(t, s, "printf last >&3", backends.Streams{Channel: func(c io.ReadWriteCloser) { got <- c }})
		c = <-got
		defer c.Close()
		if text, err := io.ReadAll(c); string(text) != "last" || err != nil {
			t.Errorf("got %q, %v", text, err)
		}
		if _, err := c.Write([]byte("x")); err == nil {
			t.Error("a program that is gone listens")
		}
	})
}

func TestManyAtOnce(t *testing.T) {
	onBothConns(t, backends.Spec{}, func(t *testing.T, s backends.Sandbox) {
		var all sync.WaitGroup
		var bad atomic.Int32
		for i := range 60 {
			all.Go(func() {
				var out bytes.Buffer
				r, err := s.Exec(t.Context(), backends.Command{Args: []string{"bash", "-c", "cat; echo $0", fmt.Sprint(i)}}, backends.Streams{Stdin: strings.NewReader("a "), Stdout: &out})
				if err != nil || r.Ended != backends.EndedOK || out.String() != fmt.Sprintf("a %d\n", i) {
					bad.Add(1)
					t.Errorf("%d: %q %+v %v", i, out.String(), r, err)
				}
			})
		}
		all.Wait()
	})
}

// TestFlood: memory is bounded while a program writes and nobody reads.
func TestFlood(t *testing.T) {
	size := hosttest.Rounds(256<<20, 1<<30)
	onBothConns(t, backends.Spec{}, func(t *testing.T, s backends.Sandbox) {
		other := &all{size: size, came: make(chan struct{})}
		w := &counting{wait: other.came}
		runShell(t, s, fmt.Sprintf("head -c %d /dev/zero & head -c %d /dev/zero >&2; wait", size, size), backends.Streams{Stdout: w, Stderr: other})
		if w.n != size || w.peak > uint64(size)/2 { // a few windows, and garbage of other tests
			t.Errorf("%d bytes came, of %d, and took %d bytes of memory", w.n, size, w.peak)
		}
	})
}

// counting counts bytes once its start channel is closed, and samples the memory before and in between.
type counting struct {
	wait chan struct{}
	n    int
	peak uint64
}

func (c *counting) Write(p []byte) (int, error) {
	<-c.wait
	if c.n>>24 != (c.n+len(p))>>24 || c.n == 0 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		c.peak = max(c.peak, m.HeapInuse)
	}
	c.n += len(p)
	return len(p), nil
}

// all closes a channel after size bytes.
type all struct {
	size int
	came chan struct{}
}

func (a *all) Write(p []byte) (int, error) {
	if a.size -= len(p); a.size == 0 {
		close(a.came)
	}
	return len(p), nil
}
