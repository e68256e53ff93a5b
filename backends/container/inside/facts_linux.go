package inside

import (
	"math"
	"net"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/container/call"
	"github.com/sandboxmcp/sandboxmcp/backends/process"
)

// gatherFacts collects the facts for the server.
func gatherFacts(b *process.Backend, runtime backends.Runtime) call.Facts {
	f := call.Facts{PID: os.Getpid(), UID: os.Getuid(), Namespaces: map[string]string{}, Runtime: runtime, Cgroup: b.Cgroup()}
	for _, name := range []string{"user", "mnt", "pid", "net", "ipc", "uts", "cgroup", "time"} {
		f.Namespaces[name], _ = os.Readlink("/proc/self/ns/" + name)
	}
	f.UIDMap = readFile("/proc/self/uid_map")
	f.Hostname, _ = os.Hostname()
	interfaces, _ := net.Interfaces()
	for _, i := range interfaces {
		f.Interfaces = append(f.Interfaces, i.Name)
	}
	var root unix.Statfs_t
	f.ReadOnly = unix.Statfs("/", &root) == nil && root.Flags&unix.ST_RDONLY != 0
	f.CgroupRoot = isAtRoot(readFile("/proc/self/cgroup"))
	for line := range strings.Lines(readFile("/proc/self/status")) {
		key, value, _ := strings.Cut(line, ":")
		switch value = strings.TrimSpace(value); key {
		case "Seccomp":
			f.Seccomp = value == "2"
		case "NoNewPrivs":
			f.NoNewPrivs = value == "1"
		case "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb":
			set, err := strconv.ParseUint(value, 16, 64)
			if err != nil {
				set = math.MaxUint64
			}
			f.Caps |= set
		}
	}
	return f
}

// isAtRoot reports whether all lines of /proc/self/cgroup ("number:controllers:path") end in the root, as in a new
// cgroup namespace.
func isAtRoot(text string) bool {
	for line := range strings.Lines(text) {
		if !strings.HasSuffix(strings.TrimSuffix(line, "\n"), ":/") {
			return false
		}
	}
	return text != ""
}

func readFile(name string) string {
	b, _ := os.ReadFile(name)
	return string(b)
}
