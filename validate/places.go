package validate

import (
	"path"
	"slices"
	"strings"

	"github.com/sandboxmcp/sandboxmcp/backends/paths"
	"github.com/sandboxmcp/sandboxmcp/cli/lazy"
)

// systemRoots are the directories that belong to the system.
var systemRoots = strings.Fields(`/etc /usr /bin /sbin /lib /lib32 /lib64 /boot /sys /proc /dev /var/lib
	/var/log /var/spool /var/run /run /root`)

var (
	// ordinaryFile matches those of the system's files that ordinary programs write to.
	ordinaryFile = lazy.Regexp(`^(/dev/(null|stdout|stderr|stdin|tty|shm|shm/.*|fd|fd/.*|mqueue/.*|pts/.*|tcp/.*|udp/.*)|/proc/self/(fd/.*|oom_score_adj|comm))$`)
	// privateFile matches the settings of a person's other programs.
	privateFile = lazy.Regexp(`^(~\w*|/root|/home/[^/]+)/\.(ssh|aws|gnupg|kube|docker|bashrc|bash_profile|bash_login|profile|zshrc|zprofile|` +
		`gitconfig|netrc|npmrc|pypirc|config/autostart|config/systemd|local/bin)(/|$)`)
	diskDevice = lazy.Regexp(`^/dev/((sd|hd|vd|xvd)[a-z*?]|nvme[0-9]|mmcblk|disk[0-9/]|mapper/|mem$|kmem$|loop[0-9]|dm-)`)
)

// systemFile reports whether a path belongs to the system, or to a person's settings; "~" is a home.
func systemFile(name string) bool {
	if name == "" {
		return false
	}
	name = path.Clean(name)
	if ordinaryFile().MatchString(name) {
		return false
	}
	return privateFile().MatchString(name) || slices.ContainsFunc(systemRoots, func(root string) bool {
		return paths.Within(name, root)
	})
}

// everything reports whether a path or a shell's pattern names nearly all files.
func everything(name string) bool {
	if name == "" {
		return false
	}
	clean := path.Clean(strings.TrimSuffix(strings.TrimSuffix(name, "*"), "."))
	return clean == "/" || clean == "~" || clean == "/home" || clean == ".." || clean == "../.." ||
		slices.Contains(systemRoots, clean) || clean == "/var"
}
