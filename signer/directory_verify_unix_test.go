//go:build unix

package signer

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandboxmcp/sandboxmcp/audit/statefile"
)

// TestVerifyDoesNotFollowOrWait: a link or FIFO in place of a file is neither followed out of the directory nor
// waited for.
func TestVerifyDoesNotFollowOrWait(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	writeFile(t, outside, "secret", "a")
	writeFile(t, dir, "real", "a")
	at := func(name string) string { return filepath.Join(dir, name) }
	for _, err := range []error{
		os.Symlink("real", at("inside")), os.Symlink(filepath.Join(outside, "secret"), at("absolute")),
		os.Symlink("../"+filepath.Base(outside)+"/secret", at("relative")), os.Symlink(outside, at("dir")),
		os.Symlink("loop", at("loop")), os.Symlink("none", at("dangling")), syscall.Mkfifo(at("fifo"), 0o600),
		os.Symlink("/dev/zero", at("device")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	var lines strings.Builder
	for _, name := range []string{"real", "inside", "absolute", "relative", "dir/secret", "loop", "dangling", "fifo", "device"} {
		lines.WriteString(sum("a") + "  " + name + "\n")
	}
	_, problems, err := VerifyManifest(strings.NewReader(lines.String()), Directory{Path: dir})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"path absolute", "path relative", "path dir/secret", "unreadable loop", "missing dangling", "unreadable fifo",
		"path device", "extra dir"}
	if diff := cmp.Diff(want, kinds(problems)); diff != "" {
		t.Errorf("(-want +got):\n%s\n%v", diff, problems)
	}
	for name, why := range map[string]string{at("fifo"): "a FIFO", "/dev/zero": "a device", at("device"): "a device", dir: "a directory"} {
		if _, err := statefile.Open(name); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// A link in place of the directory itself is the caller's choice.
	link := filepath.Join(outside, "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	_, through, err := VerifyManifest(strings.NewReader(lines.String()), Directory{Path: link})
	if err != nil || !cmp.Equal(kinds(through), want) {
		t.Errorf("through a link: %v, %v", through, err)
	}
}
