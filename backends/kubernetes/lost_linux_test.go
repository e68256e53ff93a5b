package kubernetes

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
)

// stopKubelet stops the kubelet of the tests' node like a hung node, and returns a function that resumes it.
func stopKubelet(t *testing.T) (goOn func()) {
	t.Helper()
	names, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, name := range names {
		text, _ := os.ReadFile(name)
		program, _, _ := bytes.Cut(text, []byte{0})
		at, _ := os.Readlink(filepath.Join(filepath.Dir(name), "cwd"))
		if filepath.Base(string(program)) != "kubelet" || at != filepath.Dir(filepath.Dir(kubeconfig)) {
			continue
		}
		var pid int
		fmt.Sscanf(name, "/proc/%d/", &pid)
		if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		goOn = func() { syscall.Kill(pid, syscall.SIGCONT) }
		t.Cleanup(goOn)
		return goOn
	}
	hosttest.SkipMissing(t, thing, "the node's kubelet can't be stopped: it is not of this machine")
	return nil
}

// TestStoppedKubelet has a node stop answering while a program runs there: the run ends with an error, also in its
// audit row, and nothing is left of it once the node answers again.
func TestStoppedKubelet(t *testing.T) {
	if hosttest.Rounds(0, 1) == 0 {
		t.Skip("takes minutes: SANDBOXMCP_TEST_LONG runs it")
	}
	c := testConfig(t)
	program, home := buildServer(t), t.TempDir()
	file := filepath.Join(home, "config.yaml")
	text := fmt.Sprintf("backend: kubernetes\ncaps: {timeout_seconds: 2000}\ncontainers: {pull: never}\nimages: {shell: %q}\nkubernetes: "+
		"{kubeconfig: %q, namespace: %q, image: %q, overcommit: 20}\n",
		programImage, kubeconfig, c.Namespace, ownImage)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	command := func(args ...string) *exec.Cmd {
		cmd := exec.Command(program, append([]string{"--config", file}, args...)...)
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "XDG_STATE_HOME=" + home}
		return cmd
	}
	run := command("run", "--language", "shell", "--timeout", "1000", "-c", "echo begun; sleep 900; echo ended")
	var errs bytes.Buffer
	run.Stderr = &errs
	out, err := run.StdoutPipe()
	if err == nil {
		err = run.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	if !lines.Scan() || lines.Text() != "begun" {
		run.Wait()
		t.Fatalf("the program said %q; %s", lines.Text(), errs.String())
	}
	goOn := stopKubelet(t)
	for lines.Scan() {
		t.Errorf("the program said %q", lines.Text())
	}
	err = run.Wait()
	t.Logf("%v: %s", err, errs.String())
	if err == nil || run.ProcessState.ExitCode() <= 0 {
		t.Errorf("it exited with %v", err)
	}
	goOn()
	rows, err := command("audit", "--format", "json").Output()
	if err != nil {
		t.Fatal(err)
	}
	var all []struct{ Kind string }
	if err := json.Unmarshal(rows, &all); err != nil {
		t.Fatal(err)
	}
	var kinds []string
	for _, row := range all {
		if strings.HasPrefix(row.Kind, "execution.") {
			kinds = append(kinds, row.Kind)
		}
	}
	if got := strings.Join(kinds, " "); got != "execution.started execution.failed" {
		t.Errorf("rows: %s\n%s", got, rows)
	}
	awaitEmpty(t, c)
}
