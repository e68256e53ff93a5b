package bench

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/user"
	"runtime"
	"strings"
)

// machine returns a description of the machine that is measured.
func machine(ctx context.Context) Machine {
	m := Machine{Cores: runtime.NumCPU(), CPU: cmp.Or(field("/proc/cpuinfo", "model name", ":"), "unknown"), System: runtime.GOOS + "/" + runtime.GOARCH, Versions: map[string]string{}}
	if out, err := Output(ctx, Clean(), "uname", "-sr"); err == nil {
		m.Kernel = strings.TrimSpace(out)
	}
	m.Distribution = strings.Trim(field("/etc/os-release", "PRETTY_NAME", "="), `"`)
	m.User = "an ordinary user"
	if u, err := user.Current(); err == nil && u.Uid == "0" {
		m.User = "root"
	}
	return m
}

// field returns the value of the first line of a file that has this name before the separator.
func field(file, name, separator string) string {
	text, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		key, value, ok := strings.Cut(line, separator)
		if ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// Line is the machine in few words.
func (m Machine) Line() string {
	return fmt.Sprintf("%s, %d cores, %s, as %s", m.CPU, m.Cores, cmp.Or(m.Kernel, runtime.GOOS), m.User)
}
