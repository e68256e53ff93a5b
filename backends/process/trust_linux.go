package process

import (
	"bytes"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/sandboxmcp/sandboxmcp/backends"
)

// bundles are where distributions keep the certificates that programs trust, all in one file: Debian,
// Fedora, openSUSE, Alpine and Arch. Go's crypto/x509 looks in the same places.
var bundles = []string{
	"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem",
	"/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", "/etc/ssl/cert.pem", "/etc/pki/tls/cert.pem",
}

// trust puts more beside what the host trusts, into a file of our own, and shows that in the place of the
// system's bundles, for programs that heed no variable.
func (r *root) trust(more []byte) {
	if len(more) == 0 {
		return
	}
	content, shown := system()
	if len(content) > 0 && !bytes.HasSuffix(content, []byte("\n")) {
		content = append(content, '\n')
	}
	r.mkdir(path.Dir(backends.TrustFile))
	r.write(newRoot+backends.TrustFile, string(content)+string(more), unix.O_CREAT, 0o644)
	for _, at := range shown {
		r.do("mount "+at, unix.SYS_MOUNT, r.str(newRoot+backends.TrustFile), r.str(newRoot+at), val(0), val(unix.MS_BIND), val(0))
		r.attr(newRoot+at, 0, unix.MOUNT_ATTR_RDONLY|unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV)
	}
}

// system returns what the host trusts, and which files of those that a sandbox is shown say so, with
// links followed: PID 1 still has the host's root, where they would lead elsewhere.
func system() (content []byte, shown []string) {
	for _, bundle := range bundles {
		real, err := filepath.EvalSymlinks(bundle)
		if err != nil || slices.Contains(shown, real) || !isShown(real) {
			continue
		}
		if content == nil {
			if content, err = os.ReadFile(real); err != nil {
				continue
			}
		}
		shown = append(shown, real)
	}
	return content, shown
}

// isShown says whether a file of the host lies in what all sandboxes see of it.
func isShown(file string) bool {
	if slices.ContainsFunc(shownFolders, func(dir string) bool { return under(file, dir) }) {
		return true
	}
	return slices.ContainsFunc(etcNames(), func(name string) bool {
		at := "/etc/" + name
		info, err := os.Lstat(at)
		return err == nil && (at == file || info.IsDir() && strings.HasPrefix(file, at+"/"))
	})
}
