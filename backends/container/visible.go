package container

import (
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"

	"github.com/sandboxmcp/sandboxmcp/backends"
)

// visible returns files that show a program its limits where runtimes look for them, by their paths inside. They
// replace the host's, and the cgroup's memory limit, which the kernel keeps for memory and files together. They
// contain limits only, no current usage.
func visible(info Info, l backends.Limits) map[string]string {
	n := backends.Cores(l.CPU, runtime.NumCPU())
	cpuinfo, stat := hostProc()
	files := map[string]string{"/proc/meminfo": backends.MemInfo(l.RAM, 0), "/proc/stat": backends.ProcStat(stat, n, 0, 0)}
	if text := backends.CPUInfo(cpuinfo, n); text != "" {
		files["/proc/cpuinfo"] = text
	}
	if limit := strconv.FormatInt(l.RAM, 10) + "\n"; info.Limits && info.CgroupV2 {
		files["/sys/fs/cgroup/memory.max"] = limit
	} else if info.Limits {
		files["/sys/fs/cgroup/memory/memory.limit_in_bytes"] = limit
	}
	return files
}

// hostProc returns this machine's /proc/cpuinfo and /proc/stat; only the constant parts of the latter are used.
var hostProc = sync.OnceValues(func() (cpuinfo, stat string) {
	read := func(name string) string {
		text, _ := os.ReadFile(name)
		return string(text)
	}
	return read("/proc/cpuinfo"), read("/proc/stat")
})

// writeVisible writes the files of visible. It overwrites mounted ones in place, so that they change inside.
func (d *runDir) writeVisible(files map[string]string) error {
	for at, text := range files {
		f, err := os.OpenFile(d.visibleFile(at), os.O_WRONLY|os.O_CREATE, 0o644)
		if err != nil {
			return err
		}
		_, err = f.WriteString(text)
		if err == nil {
			err = f.Truncate(int64(len(text)))
		}
		if err == nil {
			err = f.Chmod(0o644) // independent of our umask
		}
		f.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

// visibleFile returns the file that is mounted at a path.
func (d *runDir) visibleFile(at string) string {
	return filepath.Join(d.path, "visible"+strings.ReplaceAll(path.Clean(at), "/", "-"))
}
