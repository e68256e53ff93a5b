//go:build linux

package backendtest

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
)

// testReady: an idle interpreter has started before its program arrived, by proc_pid_stat(5), and does not count
// that time.
func testReady(t *testing.T, b *bench) {
	if !b.o.Warm {
		t.Skip("nothing stands ready here")
	}
	const before = 50 * time.Millisecond // the kernel reports start times in hundredths of a second
	for file, source := range map[string]string{
		"main.py": `import os, time
began = int(open("/proc/self/stat").read().rpartition(")")[2].split()[19]) / os.sysconf("SC_CLK_TCK")
print(time.clock_gettime(time.CLOCK_BOOTTIME) - began > time.time() - os.stat("main.py").st_ctime - 0.025)`,
		"main.js": `const fs = require("fs"), began = fs.readFileSync("/proc/self/stat", "utf8").split(")").pop().split(" ")[20] / 100
const uptime = Number(fs.readFileSync("/proc/uptime", "utf8").split(" ")[0])
console.log(uptime - began > (Date.now() - fs.statSync("main.js").ctimeMs) / 1000 - 0.025 ? "True" : "False")`,
		"main.sh": `seconds=$SECONDS began=($(sed 's/.*) //' /proc/$$/stat)) uptime=$(cut -d' ' -f1 /proc/uptime) now=$(date +%s%2N) put=$(stat -c %.2Z main.sh)
(( ${uptime/./} - ${began[19]} > now - ${put/./} - 2 && seconds <= now / 100 - ${put%.*} )) && echo True`,
	} {
		language := map[string]string{".py": "python", ".js": "node", ".sh": "shell"}[file[4:]]
		b.runParallel(t, language, func(t *testing.T) {
			cmd := backends.Command{Args: []string{map[string]string{"python": "python", "node": "node", "shell": "bash"}[language], file}}
			s := b.startAnnounced(t, b.spec(language), cmd)
			ready := time.Now()
			hosttest.Until(t, "a second has gone by", func() bool { return time.Since(ready) > 1100*time.Millisecond }) // shells count seconds
			putText(t, s, file, source)
			put := time.Now()
			hosttest.Until(t, "the clock has gone on", func() bool { return time.Since(put) > before })
			if o := b.execAnnounced(t, s, cmd).mustSucceed(t); o.Stdout != "True\n" {
				t.Errorf("it began when its program was there: %s", o.Stdout)
			}
		})
	}
	for name, args := range map[string][]string{"variables": nil, "arguments": {"", "a b"}} {
		b.runParallel(t, name, func(t *testing.T) {
			env := []string{"SECRET=a b=c", "EMPTY=", "USER=somebody", "RAW=\xff\n"}
			cmd := backends.Command{Args: slices.Concat([]string{"python", "main.py"}, args), Env: env}
			warm, cold := b.runStartFacts(t, cmd, true), b.runStartFacts(t, cmd, false)
			if d := cmp.Diff(cold.Stdout, warm.Stdout); d != "" || !strings.Contains(cold.Stdout, `\x00SECRET=a b=c\x00`) {
				t.Errorf("python and its children see, -cold +warm:\n%s", d)
			}
			if !warm.Warm && (args == nil || warm.Cold != "python was started without arguments") {
				t.Errorf("it did not stand ready: %s", warm.Cold)
			}
		})
	}
	b.runParallel(t, "for another", func(t *testing.T) {
		spec := b.spec("python")
		spec.Limits.RAM += 1 << 20 // another kind, otherwise parallel tests would lease the sandbox for other.py
		b.startAnnounced(t, spec, backends.Command{Args: []string{"python", "main.py"}})
		cmd := backends.Command{Args: []string{"python", "other.py"}}
		s := b.startAnnounced(t, spec, cmd)
		const script = `import glob
for file in glob.glob("/proc/[0-9]*/cmdline"):
	if b"main.py" in (line := open(file, "rb").read()): print(file, line)`
		putText(t, s, "other.py", script)
		if o := b.execAnnounced(t, s, cmd).mustSucceed(t); o.Stdout != "" {
			t.Errorf("it sees an interpreter that was ready for another: %s", o.Stdout)
		}
	})
}

// runStartFacts executes a Python program main.py that reports how it was started.
func (b *bench) runStartFacts(t *testing.T, cmd backends.Command, warm bool) outcome {
	t.Helper()
	const script = `import os, subprocess, sys
print(sys.argv, sys.orig_argv[1:], list(os.environ.items()), subprocess.check_output(["env", "-0"]))
print(open("/proc/self/cmdline", "rb").read())`
	var s backends.Sandbox
	if warm {
		s = b.startAnnounced(t, b.spec("python"), cmd)
	} else {
		s = b.openSandbox(t, b.spec("python"))
	}
	if err := s.Files().Put("main.py", 0o644, strings.NewReader(script)); err != nil {
		t.Fatal(err)
	}
	var out, errs lockedBuffer
	r, err := s.Exec(t.Context(), cmd, backends.Streams{Stdout: &out, Stderr: &errs})
	if err != nil {
		t.Fatal(err)
	}
	return outcome{r, out.String(), errs.String()}.mustSucceed(t)
}
