//go:build linux

package backendtest

import (
	"fmt"
	"os"
	"os/user"
	"strconv"
	"strings"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
)

func itoa(n int) string { return strconv.Itoa(n) }

// namespaces are the names under /proc/self/ns, and the layers that promise new ones.
func namespaces() map[string]string {
	return map[string]string{
		"user": backends.LayerUser, "mnt": backends.LayerMount, "pid": backends.LayerPID, "net": backends.LayerNet,
		"ipc": backends.LayerIPC, "uts": backends.LayerUTS, "cgroup": backends.LayerCgroupNS, "time": backends.LayerTime,
	}
}

// hostNamespaces returns this process's namespaces, by name.
func hostNamespaces() map[string]any {
	ns := map[string]any{}
	for name := range namespaces() {
		if to, err := os.Readlink("/proc/self/ns/" + name); err == nil {
			ns[name] = to
		}
	}
	return ns
}

// promised returns the namespaces whose layers the backend promises.
func (b *bench) promised() []string {
	promised := []string{}
	for name, layer := range namespaces() {
		if b.promises(layer) {
			promised = append(promised, name)
		}
	}
	return promised
}

func testIsolation(t *testing.T, b *bench) {
	b.layer(t, backends.LayerPID)
	target, check := isolationTarget(t, b)
	b.attack(t, "isolation.py", target)
	check(t)
	t.Run("kill everything", func(t *testing.T) {
		// With SIGKILL, and by a process that owns what it can of the sandbox.
		o := b.python(t, "import os, sys\n"+
			"if os.readlink('/proc/self/ns/pid') == sys.argv[1]: sys.exit('the namespace of the host')\n"+
			"children = [os.fork() for _ in range(1)]\n"+
			"if 0 in children: import time; time.sleep(100)\n"+
			"os.kill(-1, 9)\nprint('alive', os.WTERMSIG(os.wait()[1]))", hostNamespaces()["pid"].(string))
		if o.ok(t).Stdout != "alive 9\n" {
			t.Errorf("got %q", o.Stdout)
		}
		check(t)
	})
	t.Run("not root on the host", func(t *testing.T) { testHostUser(t, b) })
	t.Run("between sandboxes", func(t *testing.T) { testNeighbours(t, b) })
}

// isolationTarget sets out canaries. The function it returns checks that they are untouched.
func isolationTarget(t *testing.T, b *bench) (map[string]any, func(*testing.T)) {
	word := canary()
	process := canaryProcess(t, word)
	target := sharedObjects(t, word)
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	var identity []string
	for _, path := range []string{"/etc/machine-id", "/etc/hostname", "/sys/class/dmi/id/product_uuid"} {
		if text, err := os.ReadFile(path); err == nil && len(text) > 1 {
			identity = append(identity, strings.TrimSpace(string(text)))
		}
	}
	for k, v := range map[string]any{
		"pid": process.Process.Pid, "group": process.Process.Pid, "word": word, "hostname": host,
		"identity": identity, "ns": hostNamespaces(), "promised": b.promised(),
	} {
		target[k] = v
	}
	return target, func(t *testing.T) {
		t.Helper()
		if !running(process) {
			t.Error("the canary process was stopped or killed")
		}
	}
}

// testHostUser inspects a running program from the host: its user is not root, and where we are
// an ordinary user, it is us, or one of those that are reserved for us.
func testHostUser(t *testing.T, b *bench) {
	s := b.session(t, "shell")
	word := canary()
	exec(t, s, "bash", "-c", "exec -a "+word+" sleep 100 </dev/null >/dev/null 2>&1 &").ok(t)
	var pids []string
	hosttest.Until(t, "it has started", func() bool { pids = processesWith(word); return len(pids) > 0 })
	pid, _, _ := strings.Cut(pids[0], " ")
	status, err := os.ReadFile("/proc/" + pid + "/status")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(status), "\nUid:")
	line, _, _ := strings.Cut(rest, "\n")
	for _, uid := range strings.Fields(line) {
		if uid == "0" || os.Getuid() != 0 && uid != itoa(os.Getuid()) && !subordinate(uid) {
			t.Errorf("runs as users %s on the host, where we are %d", line, os.Getuid())
		}
	}
}

// subordinate reports whether /etc/subuid, with lines of "user:first:count", gives us a user's number.
func subordinate(uid string) bool {
	number, err := strconv.Atoi(uid)
	me, unknown := user.Current()
	text, _ := os.ReadFile("/etc/subuid")
	for line := range strings.Lines(string(text)) {
		var first, count int
		name, numbers, _ := strings.Cut(line, ":")
		fmt.Sscanf(numbers, "%d:%d", &first, &count)
		if err == nil && unknown == nil && (name == me.Username || name == me.Uid) && first <= number && number < first+count {
			return true
		}
	}
	return false
}

// testNeighbours: two sandboxes at once see nothing of each other: processes, files, sockets,
// shared memory.
func testNeighbours(t *testing.T, b *bench) {
	one, two := b.session(t, "python"), b.start(t, b.spec("python"))
	word := canary()
	put(t, one, "neighbour.py")
	put(t, two, "neighbour.py")
	o := exec(t, one, "python", "neighbour.py", "serve", word).ok(t)
	if !strings.Contains(o.Stdout, "serving") {
		t.Fatalf("got %q", o.Stdout)
	}
	// That the test can see anything: the first finds itself.
	if o := exec(t, one, "python", "neighbour.py", "look", word).ok(t); strings.Count(o.Stdout, "found") < 5 {
		t.Errorf("the neighbour does not even find itself: %q", o.Stdout)
	}
	if o := exec(t, two, "python", "neighbour.py", "look", word).ok(t); o.Stdout != "" {
		t.Errorf("a sandbox sees its neighbour: %s", o.Stdout)
	}
}
