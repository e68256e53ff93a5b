package browser

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sandboxmcp/sandboxmcp/backends/paths"
	"github.com/sandboxmcp/sandboxmcp/pipeline/remedy"
)

// Program is a browser of this machine.
type Program struct {
	Path string   // the program itself, not a starter script
	Dirs []string // directories that it needs besides the system's
}

// Remedy returns advice for a machine without a browser.
func Remedy() remedy.Text {
	return remedy.Text{"install one, as with apt-get install chromium, or set ", remedy.Setting.With("web.browser"),
		" to the path of a Chromium"}
}

// errMissing is the error for a machine without a browser.
var errMissing = errors.New("no browser found (chromium, google-chrome, brave-browser, microsoft-edge)")

// names are searched in this order.
var names = []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "brave-browser", "microsoft-edge"}

// FindProgram returns the browser at path, or for "" a browser of this machine.
func FindProgram(path string) (Program, error) {
	if path != "" {
		return resolveProgram(path)
	}
	return inPath( // programs of packages that are not in PATH
		"/usr/lib/chromium/chromium", "/usr/lib64/chromium-browser/chromium-browser", "/usr/lib/chromium-browser/chromium-browser",
		"/opt/google/chrome/chrome", "/opt/brave.com/brave/brave", "/opt/microsoft/msedge/msedge", "/opt/chromium/chrome")
}

// inPath returns the first of names in PATH, or of these places, that can be contained.
func inPath(places ...string) (Program, error) {
	var found []string
	for _, name := range names {
		if at, err := exec.LookPath(name); err == nil {
			found = append(found, at)
		}
	}
	var first error
	for _, at := range append(found, places...) {
		p, err := resolveProgram(at)
		if err == nil {
			return p, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			first = cmp.Or(first, err)
		}
	}
	return Program{}, cmp.Or(first, errMissing)
}

// resolveProgram returns the program that a path finally starts: most paths are links to scripts.
func resolveProgram(path string) (Program, error) {
	if !filepath.IsAbs(path) {
		return Program{}, fmt.Errorf("the browser %q is not an absolute path", path)
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return Program{}, fmt.Errorf("the browser %s is not there: %w", path, err)
	}
	if real == "/usr/bin/snap" || strings.HasPrefix(real, "/snap/") {
		return Program{}, errSnap(path)
	}
	head, err := readHead(real)
	switch {
	case err != nil:
		return Program{}, fmt.Errorf("the browser %s can't be read: %w", path, err)
	case isBinary(head):
		return Program{real, extraDirs(real)}, nil
	case bytes.Contains(head, []byte("/snap/bin/")):
		return Program{}, errSnap(path)
	}
	base := filepath.Base(real)
	for _, dir := range []string{filepath.Dir(real), "/usr/lib/" + base, "/usr/lib64/" + base} {
		for _, name := range []string{base, "chrome", "chromium", "chromium-browser", "brave", "msedge"} {
			at := filepath.Join(dir, name)
			if head, err := readHead(at); err == nil && isBinary(head) && at != path && dir != "/usr/bin" && dir != "/bin" {
				return Program{at, extraDirs(at)}, nil
			}
		}
	}
	return Program{}, fmt.Errorf("the browser %s is a script, and the program that it starts was not found: set web.browser to that", path)
}

func errSnap(path string) error {
	return fmt.Errorf("the browser %s comes from a snap, which starts only in a containment of its own: another one is needed", path)
}

func isBinary(head []byte) bool { return bytes.HasPrefix(head, []byte("\x7fELF")) }

// readHead reads the start of an executable file.
func readHead(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Mode()&0o111 == 0 {
		return nil, errors.New("it is not a program")
	}
	return io.ReadAll(io.LimitReader(f, 16<<10))
}

// extraDirs returns the directories that a sandbox needs besides the system's.
func extraDirs(path string) []string {
	dir := filepath.Dir(path)
	system := []string{"/usr", "/bin", "/lib", "/lib64"}
	if slices.ContainsFunc(system, func(s string) bool { return paths.Within(dir, s) }) {
		return nil
	}
	return []string{dir}
}
