package backends

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/sandboxmcp/sandboxmcp/backends/paths"
)

// mounted is one entry of mountinfo: proc_pid_mountinfo(5).
type mounted struct {
	id     uint64
	device string // "major:minor" of the file system
	root   string // its directory that is mounted
	point  string // the mount point
	kind   string // the file system's type
}

type mountTable []mounted

// readMounts returns the mounts of this process; none without /proc, without which a sandbox can't mount anything
// either.
func readMounts() (table mountTable) {
	text, _ := os.ReadFile("/proc/self/mountinfo")
	plain := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
	for line := range strings.Lines(string(text)) {
		own, super, _ := strings.Cut(line, " - ")
		kind, _, _ := strings.Cut(super, " ")
		if f := strings.Fields(own); len(f) > 4 {
			id, _ := strconv.ParseUint(f[0], 10, 64)
			table = append(table, mounted{id, f[2], plain.Replace(f[3]), plain.Replace(f[4]), kind})
		}
	}
	return table
}

// otherNames returns the names that other mounts give to places: mounts of the same directory, of a parent, and of
// its contents.
func (table mountTable) otherNames(places []string) (names []string) {
	for _, place := range places {
		on, rest := mountOf(table, place)
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
			// Another mount may cover it, and show something else.
			if top, _ := mountOf(table, name); top == i {
				names = append(names, name)
			}
		}
	}
	return names
}

// mountOf returns the index of the mount that contains a path, and the path relative to it. Later mounts cover earlier
// ones.
func mountOf(table mountTable, name string) (at int, rest string) {
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

// FileSystem returns the type of the file system of a path without links, such as ext4; "" if unknown.
func FileSystem(name string) string {
	table := readMounts()
	if at, _ := mountOf(table, name); at >= 0 {
		return table[at].kind
	}
	return ""
}
