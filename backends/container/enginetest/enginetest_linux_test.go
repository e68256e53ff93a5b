package enginetest

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestMain(m *testing.M) { os.Exit(Main(m)) }

// engines are all kinds that there are, each with a way to run one command in a container.
var engines = []struct {
	name string
	get  func(testing.TB) string
	cli  func(url string) []string
}{
	{"docker", Docker, func(url string) []string { return []string{"docker", "-H", url, "run"} }},
	{"podman", Podman, func(url string) []string {
		return append(podman(strings.TrimSuffix(strings.TrimPrefix(url, "unix://"), "/podman.sock")), "run", "--ulimit=nofile=1024:1024", "--ulimit=nproc=4096:4096")
	}},
}

// run runs a program in a container without a network, by the engine's own command line.
func run(t *testing.T, e []string, image string, args ...string) string {
	t.Helper()
	if _, err := exec.LookPath(e[0]); err != nil {
		t.Skip(err)
	}
	all := append(append(slices.Clone(e), "--rm", "--network=none", "--entrypoint="+args[0], image), args[1:]...)
	out, err := exec.Command(all[0], all[1:]...).CombinedOutput()
	if err != nil {
		t.Errorf("%v: %v %s", all, err, out)
	}
	return string(out)
}

// TestImages runs something in each.
func TestImages(t *testing.T) {
	for _, e := range engines {
		t.Run(e.name, func(t *testing.T) {
			url := e.get(t)
			for _, c := range []struct{ image, program, flag, code, want string }{
				{Plain, "/usr/bin/bash", "-c", "ls -d /tmp; [ -d /etc/ssl ] && id -u", "/tmp\n0\n"},
				{Plain, "/usr/bin/python3", "-c", "import ssl, sqlite3, lzma, ctypes; print(6 * 7, len(ssl.create_default_context().get_ca_certs()) > 0)", "42 True\n"},
				{Plain, "/usr/bin/node", "-p", "6 * 7", "42\n"},
				{Hostile, "/usr/bin/bash", "-c", "pwd 2>/dev/null", "/image/elsewhere\n"},
				{Setuid, "/usr/bin/bash", "-c", "stat -c %a /usr/local/bin/su-id; ls /sbin >/dev/null", "6755\n"},
				{Links, "/usr/bin/bash", "-c", "readlink /workspace /tmp", "/image/elsewhere\n/image/elsewhere\n"},
				{Full, "/usr/bin/bash", "-c", "find /workspace -type f | wc -l", "100000\n"},
				{Bare, "/usr/bin/python3", "-c", "import os; print([p for p in ('/bin/sh', '/etc/passwd', '/tmp', '/usr/bin/sh') if os.path.exists(p)])", "[]\n"},
			} {
				if c.image == Full && e.name == "podman" {
					continue // half a minute
				}
				got := run(t, e.cli(url), Image(t, url, c.image), c.program, c.flag, c.code)
				// The loader complains about the hostile variables.
				if got != c.want && !(c.image == Hostile && strings.Contains(got, c.want)) {
					t.Errorf("%s %s: got %q, want %q", c.image, c.code, got, c.want)
				}
			}
			if left := Left(url)(t, "localhost/sandboxmcp-test"); len(left) > 0 {
				t.Errorf("left: %v", left)
			}
		})
	}
}

// TestSetuidOpens watches the programs of the image do what they must not do in a sandbox.
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

// TestSSH reaches an engine by way of another host, as it were.
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

// TestRestart kills engines.
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

// TestKilled kills a test process that has engines with containers that run: nothing of them stays.
func TestKilled(t *testing.T) {
	if os.Getenv("SANDBOXMCP_TEST_ROLE") == "killed" {
		for _, e := range engines {
			url := e.get(t)
			run(t, append(e.cli(url), "--detach"), Image(t, url, Setuid), "/usr/bin/sleep", "8642")
			fmt.Println("ENGINE", strings.TrimPrefix(url, "unix://"))
		}
		fmt.Println("ENGINE ready")
		select {}
	}
	for _, e := range engines {
		e.get(t) // or skip
	}
	before := cgroups()
	c := exec.Command("/proc/self/exe", "-test.run=^TestKilled$")
	c.Env = append(os.Environ(), "SANDBOXMCP_TEST_ROLE=killed")
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	var dirs []string
	for lines := bufio.NewScanner(out); lines.Scan(); {
		word, rest, _ := strings.Cut(lines.Text(), " ")
		if word == "ENGINE" && rest == "ready" {
			break
		}
		if word == "ENGINE" {
			dirs = append(dirs, filepath.Dir(rest))
		}
	}
	c.Process.Kill()
	c.Wait()
	if len(dirs) != len(engines) {
		t.Fatalf("started in %v", dirs)
	}
	var left []string
	for begun := time.Now(); time.Since(begun) < 20*time.Second; time.Sleep(100 * time.Millisecond) {
		left = nil
		for _, dir := range dirs {
			if fileExists(dir) {
				left = append(left, dir)
			}
			left = append(left, mountsBelow("/proc/self/mountinfo", dir)...)
			left = append(left, processes(dir)...)
		}
		left = append(left, processes("sleep\x008642")...)
		for _, path := range cgroups() {
			if !slices.Contains(before, path) {
				left = append(left, path)
			}
		}
		if len(left) == 0 {
			return
		}
	}
	t.Errorf("left of a test that was killed: %q", left)
}

// processes lists those with a text in their arguments.
func processes(text string) (all []string) {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range files {
		if args, _ := os.ReadFile(file); strings.Contains(string(args), text) {
			all = append(all, string(args))
		}
	}
	return all
}

// cgroups lists those of this package's engines and of podman's containers.
func cgroups() (all []string) {
	for _, pattern := range []string{"*/enginetest-*", "*/libpod_parent/*", "enginetest-*", "libpod_parent/*"} {
		found, _ := filepath.Glob("/sys/fs/cgroup/" + pattern)
		all = append(all, found...)
	}
	return all
}
