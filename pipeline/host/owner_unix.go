//go:build unix

package host

import (
	"io/fs"

	"github.com/sandboxmcp/sandboxmcp/audit/statefile"
)

// changeable describes who else could change a file or directory, "" if nobody could but root and our own user. A
// sticky bit does not help where the program itself lies: new names can be made there.
func changeable(info fs.FileInfo) string {
	switch {
	case statefile.Foreign(info):
		return "belongs to another user"
	case info.Mode()&0o022 != 0:
		return "can be written by others"
	}
	return ""
}

// sticky says that others may make new names in a directory of root's or ours, as in /tmp, and take none away that is there.
func sticky(info fs.FileInfo) bool {
	return info.Mode()&fs.ModeSticky != 0 && !statefile.Foreign(info)
}
