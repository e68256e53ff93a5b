package enginetest

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
)

func TestMain(m *testing.M) { os.Exit(Main(m)) }

// engines are all kinds of engines, each with a command that runs a program in a container.
var engines = []struct {
	name string
	get  func(testing.TB) string
	cli  func(url string) []string
}{
	{"docker", Docker, func(url string) []string { return []string{"docker", "-H", url, "run"} }},
	{"podman", Podman, func(url string) []string {
		return append(podman(strings.TrimSuffix(strings.TrimPrefix(url, "unix://"), "/podman.sock")), "run", "--ulimit=nofile=1024:1024",
			"--ulimit=nproc=4096:4096")
	}},
}

// run runs a program in a container without a network, with the engine's own command line.
func run(t *testing.T, e []string, image string, args ...string) string {
	t.Helper()
	hosttest.Program(t, e[0])
	all := append(append(slices.Clone(e), "--rm", "--network=none", "--entrypoint="+args[0], image), args[1:]...)
	out, err := exec.Command(all[0], all[1:]...).CombinedOutput()
	if err != nil {
		t.Errorf("%v: %v %s", all, err, out)
	}
	return string(out)
}

// TestImages checks the images whose files collide with a sandbox's, with one engine: images are the same with all.
// Packages docker and podman run programs of the large ones.
func TestImages(t *testing.T) {
	e := engines[0]
	if checkMachine("docker") != nil {
		e = engines[1]
	}
	url := e.get(t)
	for _, c := range []struct{ image, program, flag, code, want string }{
		{Setuid, "/usr/bin/bash", "-c", "ls -d /tmp; [ -d /etc/ssl ] && id -u", "/tmp\n0\n"},
		{Setuid, "/usr/bin/bash", "-c", "stat -c %a /usr/local/bin/su-id; ls /sbin >/dev/null", "6755\n"},
		{Links, "/usr/bin/bash", "-c", "readlink /workspace /tmp", "/image/elsewhere\n/image/elsewhere\n"},
		{Full, "/usr/bin/bash", "-c", "find /workspace -type f | wc -l", "1000\n"},
		{Bare, "/usr/bin/python3", "-c", "import os; print([p for p in ('/bin/sh', '/etc/passwd', '/tmp', '/usr/bin/sh') if os.path.exists(p)])",
			"[]\n"},
	} {
		if got := run(t, e.cli(url), Image(t, url, c.image), c.program, c.flag, c.code); got != c.want {
			t.Errorf("%s %s: got %q, want %q", c.image, c.code, got, c.want)
		}
	}
	if left := ListLeftovers(url)(t, "localhost/sandboxmcp-test"); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// TestSetuidOpens checks that the image's programs do gain privileges outside of a sandbox.
func TestSetuidOpens(t *testing.T) {
	for _, e := range engines {
		t.Run(e.name, func(t *testing.T) {
			url := e.get(t)
			got := run(t, append(e.cli(url), "--user=1000:1000"), Image(t, url, Setuid), "/usr/bin/bash", "-c",
				"su-id -u; su-cat /etc/sealed; cap-chown 0 /tmp && echo changed")
			if want := "0\nonly root reads this\nchanged\n"; got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}

// TestSSH reaches an engine through ssh, as on another host.
func TestSSH(t *testing.T) {
	for _, e := range engines {
		t.Run(e.name, func(t *testing.T) {
			url, env := SSH(t, e.get(t))
			args := map[string][]string{"docker": {"docker", "-H", url}, "podman": {"podman", "--remote", "--url", url}}[e.name]
			c := exec.Command(args[0], append(args[1:], "version", "--format", "{{.Server.Version}}")...)
			c.Env = append(os.Environ(), env...)
			out, err := c.CombinedOutput()
			if err != nil || len(out) < 4 {
				t.Errorf("%v: %v %s", c.Args, err, out)
			}
		})
	}
}

// TestRestart kills and restarts engines.
func TestRestart(t *testing.T) {
	for _, e := range engines {
		t.Run(e.name, func(t *testing.T) {
			url := e.get(t)
			image := Image(t, url, Setuid)
			Restart(t, url)
			if got := run(t, e.cli(url), image, "/usr/bin/bash", "-c", "echo $((6*7))"); got != "42\n" {
				t.Errorf("got %q", got)
			}
		})
	}
}

// TestKilled kills a test process whose engines have running containers, alone and with its supervisors: of the
// first nothing is left, and of the second nothing once the next test begins.
func TestKilled(t *testing.T) {
	if os.Getenv("SANDBOXMCP_TEST_ROLE") == "killed" {
		for _, e := range engines {
			url := e.get(t)
			run(t, append(e.cli(url), "--detach"), Image(t, url, Setuid), "/usr/bin/sleep", "8642")
			fmt.Println("ENGINE", mine.engines[e.name].supervisor.Process.Pid, strings.TrimPrefix(url, "unix://"))
		}
		fmt.Println("ENGINE ready")
		io.Copy(io.Discard, os.Stdin)
		return
	}
	for _, e := range engines {
		e.get(t) // or skip
	}
	for _, keepers := range []bool{false, true} {
		dirs := killed(t, keepers)
		hosttest.Until(t, fmt.Sprintf("nothing is left of %v", dirs), func() bool {
			if keepers {
				sweep()
			}
			return !slices.ContainsFunc(dirs, func(dir string) bool { return fileExists(dir) || len(leftoversOf(dir)) > 0 })
		})
	}
}

// killed runs TestKilled in another process, kills that, and returns the directories of its engines.
func killed(t *testing.T, keepers bool) (dirs []string) {
	t.Helper()
	c := exec.Command("/proc/self/exe", "-test.run=^TestKilled$")
	c.Env = append(os.Environ(), "SANDBOXMCP_TEST_ROLE=killed")
	in, _ := c.StdinPipe() // it ends when this process does
	defer in.Close()
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	var pids []int
	for lines := bufio.NewScanner(out); lines.Scan() && lines.Text() != "ENGINE ready"; {
		var pid int
		var socket string
		if n, _ := fmt.Sscanf(lines.Text(), "ENGINE %d %s", &pid, &socket); n < 2 {
			continue
		}
		if dirs = append(dirs, filepath.Dir(socket)); len(leftoversOf(filepath.Dir(socket))) < 3 {
			t.Errorf("what is there of an engine is not seen: %q", leftoversOf(filepath.Dir(socket)))
		}
		pids = append(pids, pid)
	}
	if keepers { // first, otherwise they notice the kill
		for _, pid := range pids {
			syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	c.Process.Kill()
	c.Wait()
	if len(dirs) != len(engines) {
		t.Fatalf("started in %v", dirs)
	}
	return dirs
}

// leftoversOf lists the processes and cgroups of a directory's engine.
func leftoversOf(dir string) (all []string) {
	files, _ := filepath.Glob("/proc/[0-9]*")
	for _, proc := range files {
		args, _ := os.ReadFile(proc + "/cmdline")
		if strings.Contains(string(args), dir+"/") || strings.Contains(rootMount(proc), dir+"/") {
			all = append(all, string(args))
		}
	}
	groups, _ := filepath.Glob("/sys/fs/cgroup/*/" + filepath.Base(dir))
	return append(append(all, groups...), mountsUnder("/proc/self/mountinfo", dir)...)
}

func fileExists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
