package run_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandboxmcp/sandboxmcp/audit"
	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/event"
	"github.com/sandboxmcp/sandboxmcp/pipeline/pipelinetest"
	"github.com/sandboxmcp/sandboxmcp/pipeline/run"
	"github.com/sandboxmcp/sandboxmcp/vault"
)

func TestNobodyRaisesALimitAboveItsCap(t *testing.T) {
	small := pipeline.Bounds{Limits: backends.Limits{RAM: 64 << 20, Wall: 5 * time.Second, CPU: 1, Processes: 4, Disk: 32 << 20}, Output: 1000}
	for _, test := range []struct {
		key  string
		more func(*run.Request)
	}{
		{"caps.ram_mb", func(q *run.Request) { q.Limits.RAM = 65 << 20 }},
		{"caps.timeout_seconds", func(q *run.Request) { q.Limits.Wall = 6 * time.Second }},
		{"caps.cpu_cores", func(q *run.Request) { q.Limits.CPU = 1.5 }},
		{"caps.processes", func(q *run.Request) { q.Limits.Processes = 5 }},
		{"caps.disk_mb", func(q *run.Request) { q.Limits.Disk = 33 << 20 }},
		{"caps.output_bytes", func(q *run.Request) { q.Output = 1001 }},
	} {
		r := pipelinetest.NewRig(t, func(c *pipeline.Config) { c.Caps = small })
		_, err := r.Shell("true", test.more)
		if e := pipelinetest.Stopped(t, err); !e.Denied || !strings.Contains(e.Remedy.String(), test.key) {
			t.Errorf("%s: got %q, %q", test.key, e.Reason, e.Remedy)
		}
	}
	for name, less := range map[string]func(*run.Request){
		"negative":   func(q *run.Request) { q.Limits.RAM = -1 },
		"no time":    func(q *run.Request) { q.Limits.Wall = -time.Second },
		"not a core": func(q *run.Request) { q.Limits.CPU = -0.5 },
	} {
		if _, err := pipelinetest.NewRig(t, nil).Shell("true", less); !pipelinetest.Stopped(t, err).Denied {
			t.Errorf("%s: %v", name, err)
		}
	}
	// A default above the cap is not the caller's own request: the caller gets the cap.
	r := pipelinetest.NewRig(t, func(c *pipeline.Config) { c.Caps = small })
	if _, err := r.Shell("true", nil); err != nil || r.Backend.Spec.Limits != small.Limits {
		t.Errorf("%v: the sandbox got %+v, want %+v", err, r.Backend.Spec.Limits, small.Limits)
	}
}

func TestMissingLayerRefuses(t *testing.T) {
	r := pipelinetest.NewRig(t, nil)
	r.Backend.Refuse = fmt.Errorf("start: %w", &backends.Refusal{Layer: "user", Reason: "user namespaces are off",
		Remedy: pipeline.Remedy{"sysctl kernel.something=1"}})
	res, err := r.Shell("true", nil)
	e := pipelinetest.Stopped(t, err)
	if !e.Denied || e.Layer != "user" || e.Remedy.String() != "sysctl kernel.something=1" || res.Ended != "refused" {
		t.Errorf("got %+v", e)
	}
	kinds, text := r.Rows()
	if kinds[len(kinds)-1] != pipeline.ExecutionRefused || !strings.Contains(text, `"layer":"user"`) {
		t.Errorf("rows:\n%s", text)
	}
}

// A backend that says afterwards that a required layer did not hold has broken its promise.
func TestResultOfAProgramThatWasNotContainedIsWithheld(t *testing.T) {
	r := pipelinetest.NewRig(t, nil)
	r.Backend.Unheld = []string{backends.LayerSeccomp}
	res, err := r.Shell("echo precious", nil)
	if e := pipelinetest.Stopped(t, err); e.Layer != backends.LayerSeccomp || res.Stdout != "" {
		t.Errorf("got %+v and %q", e, res.Stdout)
	}
	if kinds, _ := r.Rows(); kinds[len(kinds)-1] != event.ExecutionFailed {
		t.Errorf("rows %v", kinds)
	}
	// A layer that no policy requires may be missing, and the result says so.
	r.Backend.Unheld = []string{backends.LayerCgroup}
	res, err = r.Shell("true", nil)
	if err != nil || strings.Contains(fmt.Sprint(res.LayersInForce()), "cgroup ") {
		t.Errorf("%v, layers %v", err, res.LayersInForce())
	}
	_, err = r.Shell("true", func(q *run.Request) { q.Require = []string{backends.LayerCgroup} })
	if e := pipelinetest.Stopped(t, err); e.Layer != backends.LayerCgroup {
		t.Errorf("got %+v", e)
	}
}

func TestNetworkIsRefusedAndEachNameRecorded(t *testing.T) {
	r := pipelinetest.NewRig(t, nil)
	res, err := r.Shell("true", func(q *run.Request) { q.Allow = []string{"example.com", "*.example.org:443"} })
	if e := pipelinetest.Stopped(t, err); e.Stage != pipeline.StageEgress || len(res.Egress) != 2 || res.Egress[0].Allowed {
		t.Errorf("got %+v, %+v", e, res.Egress)
	}
	kinds, _ := r.Rows()
	if len(kinds) != 3 || kinds[0] != event.EgressDenied || kinds[1] != event.EgressDenied {
		t.Errorf("rows %v", kinds)
	}
}

func TestCancelledWhileWaitingLeavesNoTrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := pipelinetest.NewRig(t, func(c *pipeline.Config) { c.Queue = pipeline.NewQueue(1, 5) })
		leave, err := r.Config.Queue.Acquire(t.Context(), "default", 1, nil)
		if err != nil {
			t.Fatal(err)
		}
		cause := errors.New("the user went away")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, cause)
		defer cancel()
		_, res, err := pipeline.Do(ctx, r.Pipeline, run.Request{Language: "shell", Code: []byte("true")})
		if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, cause) || res.Ended != backends.EndedCancelled {
			t.Errorf("got %v, ended %q", err, res.Ended)
		}
		if kinds, _ := r.Rows(); len(kinds) != 0 || r.Backend.Starts.Load() != 0 {
			t.Errorf("rows %v, %d sandboxes", kinds, r.Backend.Starts.Load())
		}
		leave()
	})
}

// A log that hangs must not hold a caller that wants to leave.
func TestCancelledWhileTheRowIsWritten(t *testing.T) {
	r := pipelinetest.NewRig(t, nil)
	ctx, cancel := context.WithCancelCause(t.Context())
	r.Log.Fail = func([]audit.Entry) error {
		cancel(errors.New("the user went away"))
		return context.Canceled
	}
	_, res, err := pipeline.Do(ctx, r.Pipeline, run.Request{Language: "shell", Code: []byte("true")})
	if !errors.Is(err, context.Canceled) || res.Ended != backends.EndedCancelled || r.Backend.Execs.Load() != 0 {
		t.Errorf("got %v, ended %q", err, res.Ended)
	}
}

func TestCancelledRunIsRecorded(t *testing.T) {
	r := pipelinetest.NewRig(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	var live hosttest.Buffer
	go func() {
		hosttest.Until(t, "it has written", func() bool { return live.String() == "partial\n" })
		cancel()
	}()
	_, res, err := pipeline.Do(ctx, r.Pipeline, run.Request{
		Language: "shell", Code: []byte("echo partial; exec sleep 1000"), Streams: run.Streams{Stdout: &live},
	})
	if err != nil || res.Ended != backends.EndedCancelled || res.Stdout != "partial\n" {
		t.Errorf("got %v, %+v", err, res)
	}
	if kinds, text := r.Rows(); len(kinds) != 2 || !strings.Contains(text, `"ended":"cancelled"`) {
		t.Errorf("rows:\n%s", text)
	}
}

func TestFailedProgramIsAResult(t *testing.T) {
	r := pipelinetest.NewRig(t, nil)
	res, err := r.Shell("echo out; echo err >&2; exit 7", nil)
	if err != nil || res.ExitCode != 7 || res.Ended != "exit" || res.Stdout != "out\n" || res.Stderr != "err\n" {
		t.Errorf("%v, %+v", err, res)
	}
	if res.Timings.Total <= 0 || res.Timings.Exec <= 0 || res.Timings.Audit <= 0 {
		t.Errorf("timings %+v", res.Timings)
	}
}

func TestNameOfAFileIsNoOption(t *testing.T) {
	r := pipelinetest.NewRig(t, nil)
	res, err := r.Shell(`echo "$0 $1"`, func(q *run.Request) { q.Name, q.Args = "-x.sh", []string{"-y"} })
	if err != nil || res.Stdout != "./-x.sh -y\n" {
		t.Errorf("%v, %q, %q", err, res.Stdout, res.Stderr)
	}
}

func TestHints(t *testing.T) {
	r := pipelinetest.NewRig(t, nil)
	for _, test := range []struct{ code, want string }{
		{`echo "ModuleNotFoundError: No module named 'helper'" >&2; exit 1`, "--input /src/helper.py"},
		{`echo "ModuleNotFoundError: No module named 'numpy'" >&2; exit 1`, "numpy is not installed"},
		{`echo "FileNotFoundError: [Errno 2] No such file or directory: 'helper'" >&2; exit 1`, "--input /src/helper.py"},
		{`cat /workspace/helper`, "--input /src/helper.py"},
		{`echo "Error: ENOENT: no such file or directory, open 'helper'" >&2; exit 1`, "--input /src/helper.py"},
		{`echo "socket.gaierror: [Errno -3] Temporary failure in name resolution" >&2; exit 1`, "no network"},
		{`exec sleep 1000`, "--timeout"},
		{`printf %2000000s`, "stdout had 2000000 bytes, of which 1048576 are kept: keep all with --output 2000000"},
		{`printf %2000000s >&2; exit 1`, "stderr had 2000000 bytes, of which 1048576 are kept: keep all with --output 2000000"},
		{`printf %70000000s`, "no run keeps more than 67108864: write it to a file in /workspace"},
	} {
		res, err := r.Shell(test.code, func(q *run.Request) {
			if test.want == "--timeout" {
				q.Limits.Wall = 100 * time.Millisecond
			}
			q.Beside = func(m string) (string, bool) { return "/src/" + m + ".py", m == "helper" }
		})
		if err != nil || !strings.Contains(fmt.Sprint(res.Hints), test.want) {
			t.Errorf("%s: %v, hints %q", test.code, err, res.Hints)
		}
	}
	if res, _ := r.Shell(`echo "No module named 'x'" >&2`, nil); len(res.Hints) > 0 {
		t.Errorf("hints for a program that went well: %q", res.Hints)
	}
}

// TestHintsOfNoNetwork: that a program has tried to get out is known from the sandbox, and its words only say to where.
func TestHintsOfNoNetwork(t *testing.T) {
	const none = "the sandbox has no network, and the program tried to reach "
	for _, test := range []struct {
		name, code string
		lost       int64
		want       []string // a hint each
	}{
		{"it went well, and failed within", `echo "curl: (6) Could not resolve host: example.com" >&2; true`, 2,
			[]string{none + "example.com: allow it with --allow example.com, "}},
		{"it printed the error itself", `echo "host='api.example.com', port=443"`, 2, []string{none + "api.example.com: "}},
		{"it said nothing", `exit 4`, 1, []string{none + "it: allow it with --allow DOMAIN, "}},
		{"its time was up", `exec sleep 1000`, 1, []string{"--timeout", none + "it: "}},
		{"words alone, and it failed", `echo "getaddrinfo ENOTFOUND example.com" >&2; exit 1`, 0, []string{none + "example.com: "}},
		{"words alone, and it went well", `echo "Could not resolve host: example.com" >&2`, 0, nil},
		{"pip", `echo "WARNING: Retrying: /simple/requests/" >&2; exit 1
# pip install x
pip install requests 'numpy>=2' -r more.txt`, 4, []string{
			"pip can't install in the sandbox, but this does: sandboxmcp install 'numpy>=2' requests --language python"}},
		{"pip of a distribution", `echo "error: externally-managed-environment" >&2; exit 1; python3 -m pip install --quiet "pandas[excel]" && x`,
			0, []string{"sandboxmcp install 'pandas[excel]' --language python"}},
		{"pip from Python", `exit 1; x='subprocess.run([sys.executable, "-m", "pip", "install", "rich"], check=True)'`, 3,
			[]string{"sandboxmcp install rich --language python"}},
		{"pip is not there", `echo "bash: line 1: pip: command not found" >&2; exit 127; pip install rich`, 0,
			[]string{"sandboxmcp install rich --language python"}},
		{"pip of nothing known", `echo "error: externally-managed-environment" >&2; exit 1; pip install -r requirements.txt`, 0,
			[]string{"sandboxmcp install PACKAGE --language python"}},
		{"npm, silent until its time was up", `exec sleep 1000; npm i left-pad@1.3.0 @scope/thing`, 2,
			[]string{"--timeout", "npm can't install in the sandbox, but this does: sandboxmcp install @scope/thing left-pad@1.3.0 " +
				"--language node"}},
		{"npm in words", `echo "npm error request to https://packages.example/left-pad failed, reason: getaddrinfo EAI_AGAIN packages.example" >&2; exit 1`, 2, []string{"sandboxmcp install left-pad --language node"}},
		{"apt", `echo "E: Could not open lock file /var/lib/dpkg/lock-frontend - open (2: No such file or directory)" >&2; exit 100; apt-get install -y jq`, 0, []string{"system packages (jq) can't be installed in the sandbox"}},
		{"sudo", `echo "run.sh: line 1: sudo: command not found" >&2; exit 127; sudo apt install jq`, 0,
			[]string{"system packages (jq) can't be installed in the sandbox"}},
		{"pip of what is here", `echo "x: not found"; exit 0; pip install ./x.whl`, 0, nil},
		{"talk of pip", `echo "first: pip install requests"`, 0, nil},
		{"talk of apt in what failed", `exit 3; apt install jq`, 0, nil},
	} {
		r := pipelinetest.NewRig(t, nil)
		r.Backend.Lost = test.lost
		res, err := r.Shell(test.code, func(q *run.Request) {
			if strings.Contains(test.code, "sleep 1000") {
				q.Limits.Wall = 100 * time.Millisecond
			}
		})
		if err != nil || len(res.Hints) != len(test.want) {
			t.Errorf("%s: %v, hints %q, want %q", test.name, err, res.Hints, test.want)
			continue
		}
		for i, want := range test.want {
			if !strings.Contains(res.Hints[i].String(), want) {
				t.Errorf("%s: hint %q, want %q in it", test.name, res.Hints[i], want)
			}
		}
	}
}

func TestSecretsThatStayInTheOutputAreNamed(t *testing.T) {
	r := pipelinetest.NewRig(t, nil)
	r.Memory.Set("default", "PIN", []byte("1234"))
	r.Memory.Set("default", "TOKEN", []byte("hunter2-hunter2"))
	res, err := r.Shell("true", func(q *run.Request) { q.Secrets = []string{"PIN", "TOKEN"} })
	const want = "[secret PIN is too short or too common to be taken out of the output]"
	if err != nil || fmt.Sprint(res.Warnings) != want {
		t.Errorf("%v: warnings %q, want %q", err, res.Warnings, want)
	}
}

// blockingStore lends nothing before its caller gives up.
type blockingStore struct{}

func (blockingStore) Get(ctx context.Context, _, _ string) ([]byte, vault.Binding, error) {
	<-ctx.Done()
	return nil, vault.Binding{}, ctx.Err()
}

func TestCancelNamesItsStage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := pipelinetest.NewRig(t, func(c *pipeline.Config) { c.Queue, c.Vault = pipeline.NewQueue(1, 1), vault.New(blockingStore{}) })
		do := func(stage string) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			_, res, err := pipeline.Do(ctx, r.Pipeline, run.Request{Language: "shell", Code: []byte("true"),
				Reach: run.Reach{Secrets: []string{"TOKEN"}}})
			if e := pipelinetest.Stopped(t, err); e.Stage != stage || res.Ended != backends.EndedCancelled ||
				!errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("in the %s: got %+v and %s", stage, e, res.Ended)
			}
		}
		do(pipeline.StageVault)
		leave, err := r.Config.Queue.Acquire(t.Context(), "default", 1, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer leave()
		do(pipeline.StageQueue)
	})
}
