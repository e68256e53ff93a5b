package backends

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/sandboxmcp/sandboxmcp/backends/paths"
)

// mounted is a line of mountinfo: proc_pid_mountinfo(5).
type mounted struct {
	device string // "major:minor" of the file system
	root   string // the directory of it that is shown
	point  string // where
	kind   string // of file system
}

// mountTable is empty where there is no /proc, without which nothing can be mounted for a sandbox either.
func mountTable() (table []mounted) {
	text, _ := os.ReadFile("/proc/self/mountinfo")
	plain := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
	for line := range strings.Lines(string(text)) {
		own, super, _ := strings.Cut(line, " - ")
		kind, _, _ := strings.Cut(super, " ")
		if f := strings.Fields(own); len(f) > 4 {
			table = append(table, mounted{f[2], plain.Replace(f[3]), plain.Replace(f[4]), kind})
		}
	}
	return table
}

// elsewhere are the names that places have by other mounts: of the same directory, of one above it, and of what
// lies in it.
func elsewhere(places []string) (names []string) {
	table := mountTable()
	for _, place := range places {
		on, rest := holding(table, place)
		if on < 0 {
			continue
		}
		there := filepath.Join(table[on].root, rest)
		for i, m := range table {
			if i == on || m.device != table[on].device {
				continue
			}
			name := m.point
			if paths.Within(there, m.root) {
				rest, _ := filepath.Rel(m.root, there)
				name = filepath.Join(m.point, rest)
			} else if !paths.Below(m.root, there) {
				continue
			}
			// Another mount may lie over it, and show something else.
			if top, _ := holding(table, name); top == i {
				names = append(names, name)
			}
		}
	}
	return names
}

// holding is the mount that a path leads to, and the path below it. Later ones lie over those before.
func holding(table []mounted, name string) (at int, rest string) {
	at = -1
	for i, m := range table {
		if paths.Within(name, m.point) && (at < 0 || len(m.point) >= len(table[at].point)) {
			at = i
		}
	}
	if at >= 0 {
		rest, _ = filepath.Rel(table[at].point, name)
	}
	return at, rest
}

// FileSystem is the kind of file system that a path without links lies on, such as ext4; "" where that is not known.
func FileSystem(name string) string {
	table := mountTable()
	if at, _ := holding(table, name); at >= 0 {
		return table[at].kind
	}
	return ""
}
