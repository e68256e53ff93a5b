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

// namespaces returns the names under /proc/self/ns, and the layers that promise new ones.
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

// promisedNamespaces returns the namespaces whose layers the backend promises.
func (b *bench) promisedNamespaces() []string {
	promised := []string{}
	for name, layer := range namespaces() {
		if b.promises(layer) {
			promised = append(promised, name)
		}
	}
	return promised
}

func testIsolation(t *testing.T, b *bench) {
	b.needLayer(t, backends.LayerPID)
	target, check := isolationTarget(t, b)
	b.checkAttacks(t, "isolation.py", target)
	check(t)
	t.Run("kill everything", func(t *testing.T) {
		// With SIGKILL, and by a process that owns as much of the sandbox as possible.
		o := b.python(t, "import os, sys\n"+
			"if os.readlink('/proc/self/ns/pid') == sys.argv[1]: sys.exit('the namespace of the host')\n"+
			"children = [os.fork() for _ in range(1)]\n"+
			"if 0 in children: import time; time.sleep(100)\n"+
			"os.kill(-1, 9)\nprint('alive', os.WTERMSIG(os.wait()[1]))", hostNamespaces()["pid"].(string))
		if o.mustSucceed(t).Stdout != "alive 9\n" {
			t.Errorf("got %q", o.Stdout)
		}
		check(t)
	})
	t.Run("not root on the host", func(t *testing.T) { testHostUser(t, b) })
	t.Run("between sandboxes", func(t *testing.T) { testNeighbours(t, b) })
}

// isolationTarget creates canaries. The returned function checks that they are unchanged.
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
		"identity": identity, "ns": hostNamespaces(), "promised": b.promisedNamespaces(),
	} {
		target[k] = v
	}
	return target, func(t *testing.T) {
		t.Helper()
		if !isRunning(process) {
			t.Error("the canary process was stopped or killed")
		}
	}
}

// testHostUser inspects a running program from the host: its user is not root; if this process's user is not root,
// it is that user or one of the user's subordinate ids.
func testHostUser(t *testing.T, b *bench) {
	s := b.session(t, "shell")
	word := canary()
	mustExec(t, s, "bash", "-c", "exec -a "+word+" sleep 100 </dev/null >/dev/null 2>&1 &").mustSucceed(t)
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
		if uid == "0" || os.Getuid() != 0 && uid != itoa(os.Getuid()) && !isSubordinateUID(uid) {
			t.Errorf("runs as users %s on the host, where we are %d", line, os.Getuid())
		}
	}
}

// isSubordinateUID reports whether /etc/subuid, with lines of "user:first:count", assigns us a user ID.
func isSubordinateUID(uid string) bool {
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

// testNeighbours: concurrent sandboxes see none of each other's processes, files, sockets or shared memory.
func testNeighbours(t *testing.T, b *bench) {
	one, two := b.session(t, "python"), b.start(t, b.spec("python"))
	word := canary()
	putPrograms(t, one, "neighbour.py")
	putPrograms(t, two, "neighbour.py")
	o := mustExec(t, one, "python", "neighbour.py", "serve", word).mustSucceed(t)
	if !strings.Contains(o.Stdout, "serving") {
		t.Fatalf("got %q", o.Stdout)
	}
	// Control: the first sandbox finds itself.
	if o := mustExec(t, one, "python", "neighbour.py", "look", word).mustSucceed(t); strings.Count(o.Stdout, "found") < 5 {
		t.Errorf("the neighbour does not even find itself: %q", o.Stdout)
	}
	if o := mustExec(t, two, "python", "neighbour.py", "look", word).mustSucceed(t); o.Stdout != "" {
		t.Errorf("a sandbox sees its neighbour: %s", o.Stdout)
	}
}
