//go:build linux

package backendtest

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends"
)

// hiddenFiles is a host directory that contains hidden files.
type hiddenFiles struct {
	dir      string   // visible to programs
	hidden   []string // except these, whose content is "canary"
	commands []string // shell commands that would print them, in dir
}

func newHiddenFiles(t *testing.T) hiddenFiles {
	dir, err := filepath.EvalSymlinks(makeSharedDir(t))
	if err != nil {
		t.Fatal(err)
	}
	h := hiddenFiles{dir: dir, hidden: []string{filepath.Join(dir, "a/state"), filepath.Join(dir, "b c/log.db"),
		filepath.Join(dir, "not/there")}}
	for _, sub := range []string{"a", "a/state", "a/state/keys", "b c"} {
		os.Mkdir(filepath.Join(dir, sub), 0o755)
		os.Chmod(filepath.Join(dir, sub), 0o755)
	}
	for _, file := range []string{"a/state/keys/signing.key", "a/state/vault.key", "b c/log.db"} {
		os.WriteFile(filepath.Join(dir, file), []byte("canary"), 0o644)
		os.Chmod(filepath.Join(dir, file), 0o644)
	}
	os.Symlink("a/state/keys", filepath.Join(dir, "by-link"))
	os.Symlink("state", filepath.Join(dir, "a/all"))
	h.commands = []string{"cat a/state/keys/signing.key a/state/vault.key by-link/signing.key a/all/vault.key 'b c/log.db'",
		"cat ../*/a/state/vault.key /proc/self/cwd/a/state/vault.key", "ls -A a/state", "umount a/state && cat a/state/vault.key",
		"find . -type f -exec cat {} +; echo", "mkdir a/state/new && echo canary"}
	return h
}

// Hidden tries to read files that a backend hides, through every kind of mount of a parent directory.
func Hidden(t *testing.T, newBackend func(t testing.TB, hidden []string) backends.Backend, o Options) {
	h := newHiddenFiles(t)
	backend := newBackend(t, h.hidden)
	t.Cleanup(func() {
		if err := backend.Close(); err != nil {
			t.Errorf("close backend: %v", err)
		}
	})
	b := &bench{backend: backend, o: o}
	link, above := filepath.Join(makeSharedDir(t), "link"), filepath.Dir(h.dir)
	if err := os.Symlink(h.dir, link); err != nil {
		t.Fatal(err)
	}
	mounted := func(host, inside string) backends.Spec {
		return b.specWithMount(backends.Mount{Host: host, Inside: inside})
	}
	both := mounted(h.dir, "/data")
	both.Workspace.Host = h.dir
	session := mounted(h.dir, "/data")
	session.Keep = true
	for name, c := range map[string]struct {
		spec backends.Spec
		dir  string
	}{
		"a mount":           {mounted(h.dir, "/home/user"), "/home/user"},
		"a directory above": {mounted(above, "/data"), "/data/" + filepath.Base(h.dir)},
		"a directory below": {mounted(filepath.Join(h.dir, "a"), "/data/a"), "/data"},
		"the workspace":     {b.specWithWorkspace(backends.Mount{Host: h.dir}), "/workspace"},
		"a proposal":        {b.specWithWorkspace(backends.Mount{Host: h.dir, Propose: true}), "/workspace"},
		"both":              {both, "/data"},
		"a link":            {mounted(link, "/data"), "/data"},
		"a session's mount": {session, "/data"},
	} {
		t.Run(name, func(t *testing.T) {
			o := mustExec(t, b.start(t, c.spec), "bash", "-c", `cd "$0" || exit; (`+strings.Join(h.commands, "); (")+"); ls", c.dir)
			if strings.Contains(o.Stdout, "canary") || strings.Contains(o.Stdout, "key") {
				t.Errorf("%q, %q", o.Stdout, o.Stderr)
			}
			if !strings.HasSuffix(o.Stdout, "a\nb c\nby-link\ngiven\n") && !strings.HasSuffix(o.Stdout, "\na\n") {
				t.Errorf("what is not hidden: got %q, %q", o.Stdout, o.Stderr)
			}
		})
	}
	t.Run("refused", func(t *testing.T) { testHiddenRefused(t, b, h, mounted) })
}

func testHiddenRefused(t *testing.T, b *bench, h hiddenFiles, mounted func(host, inside string) backends.Spec) {
	link := filepath.Join(makeSharedDir(t), "link")
	if err := os.Symlink(filepath.Join(h.dir, "a/all/keys"), link); err != nil {
		t.Fatal(err)
	}
	writable := mounted(h.dir, "/data")
	writable.Mounts[0].Write = true
	for name, spec := range map[string]backends.Spec{
		"what is hidden, by a link":    mounted(link, "/data"),
		"below it, by a link":          mounted(filepath.Join(h.dir, "by-link/signing.key"), "/data"),
		"the directory":                mounted(filepath.Join(h.dir, "a/state"), "/data"),
		"a file":                       mounted(filepath.Join(h.dir, "b c/log.db"), "/data"),
		"the workspace":                b.specWithWorkspace(backends.Mount{Host: filepath.Join(h.dir, "a/all")}),
		"to be written to":             writable,
		"what is the server's and not": mounted(filepath.Join(h.dir, "a/state/../state"), "/data"),
	} {
		err := b.startRefused(t, spec)
		if refusal, is := errors.AsType[*backends.Refusal](err); !is || refusal.Remedy.IsZero() {
			t.Errorf("%s: got %v", name, err)
		}
	}
	own := mounted(filepath.Join(h.dir, "a/state/keys"), "/data")
	if o := mustExec(t, b.start(t, own), "cat", "/data/signing.key"); o.Stdout != "canary" {
		t.Errorf("the server's own mount: got %q, %q", o.Stdout, o.Stderr)
	}
}
