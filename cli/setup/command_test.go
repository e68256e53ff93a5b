package setup

import (
	"os"
	"path/filepath"
	"testing"
)

// TestThisProgram checks that clients get the path that survives an upgrade by a package manager.
func TestThisProgram(t *testing.T) {
	defer func(name string) { os.Args[0] = name }(os.Args[0])
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "sandboxmcp")
	if err := os.Symlink(program, link); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", filepath.Dir(link))
	for name, want := range map[string]string{link: link, "sandboxmcp": link, filepath.Dir(link): program, "no-such-program": program} {
		os.Args[0] = name
		if got, err := thisProgram(); got != want || err != nil {
			t.Errorf("started as %q: got %q, %v, want %q", name, got, err, want)
		}
	}
}

func TestPassing(t *testing.T) {
	for program, want := range map[string]bool{
		"/tmp/go-build220705763/b001/exe/sandboxmcp": true, "/home/x/.cache/go-build/3f/3f1b-d/sandboxmcp": true,
		"/usr/local/go/bin/sandboxmcp": false, "/home/x/go/bin/sandboxmcp": false, "/home/my-go-build/sandboxmcp": false,
	} {
		if got := isGoRun(program); got != want {
			t.Errorf("%s: got %v", program, got)
		}
	}
}
