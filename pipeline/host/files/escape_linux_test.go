package files

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
	"github.com/sandboxmcp/sandboxmcp/backends/paths"
)

// place is a root with a file in it, beside a directory that nobody may reach.
type place struct {
	t             *testing.T
	root, outside string
	Access
}

func newPlace(t *testing.T) *place {
	t.Helper()
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	p := &place{t: t, root: base + "/root", outside: base + "/outside"}
	for _, dir := range []string{p.root + "/sub", p.outside, base + "/own/keys"} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	p.writeFile(p.root+"/a.txt", "inside\n")
	p.writeFile(p.root+"/sub/b.txt", "below\n")
	p.writeFile(p.outside+"/secret", outsideText)
	p.writeFile(base+"/own/keys/key", outsideText)
	p.Access = Access{Roots: []Root{{Path: p.root, Write: true}}, Guard: NewGuard([]string{base + "/own"}, base+"/home",
		[]string{p.root + "/obeyed", "of/a-Client.json"}), MaxBytes: 1 << 20}
	return p
}

const outsideText = "this must never be seen\n"

func (p *place) writeFile(name, text string) {
	p.t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		p.t.Fatal(err)
	}
}

func (p *place) link(to, name string) string {
	p.t.Helper()
	if err := os.Symlink(to, p.root+"/"+name); err != nil {
		p.t.Fatal(err)
	}
	return p.root + "/" + name
}

// TestEscapes hangs where a fifo is waited for.
func TestEscapes(t *testing.T) {
	p := newPlace(t)
	own := filepath.Dir(p.root) + "/own/keys/key"
	if err := os.Link(own, p.root+"/hard"); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(p.root+"/fifo", 0o666); err != nil {
		t.Fatal(err)
	}
	p.writeFile(p.root+"/sub/.env", "A=1\n")
	for _, dir := range []string{".git/hooks", ".ssh", "x/.GNUPG", "hooks", "bare/objects", "bare/refs"} {
		if err := os.MkdirAll(p.root+"/"+dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	p.writeFile(p.root+"/.ssh/config", "x")
	p.writeFile(p.root+"/x/.GNUPG/key", "x")
	tests := []struct{ name, path, want string }{
		{"dots", p.root + "/../outside/secret", ".."},
		{"dots inside", p.root + "/sub/../a.txt", ".."},
		{"outside", p.outside + "/secret", "no directory that is allowed"},
		{"a name that begins like the root's", p.root + "x/secret", "no directory that is allowed"},
		{"above", filepath.Dir(p.root), "no directory that is allowed"},
		{"relative", "a.txt", "not absolute"},
		{"NUL", p.root + "/a.txt\x00.png", "NUL"},
		{"very long", p.root + strings.Repeat("/a", 3000), "bytes"},
		{"very long word", p.root + "/" + strings.Repeat("a", 300), "too long"},
		{"absolute link", p.link(p.outside+"/secret", "abs"), "link"},
		{"relative link", p.link("../outside/secret", "rel"), "link"},
		{"link that stays inside", p.link("a.txt", "in"), "link"},
		{"link on the way", p.link("../outside", "way") + "/secret", "link"},
		{"link to itself", p.link("loop", "loop"), "link"},
		{"link to /proc/self/root", p.link("/proc/self/root", "magic") + p.outside + "/secret", "link"},
		{"descriptors", "/proc/self/fd/0", "no directory that is allowed"},
		{"descriptors by /dev", "/dev/fd/0", "no directory that is allowed"},
		{"hard link to a key", p.root + "/hard", "kept from agents"},
		{"fifo", p.root + "/fifo", "a fifo"},
		{"directory", p.root + "/sub", "a directory"},
		{"root", p.root, "a directory"},
		{"trailing slash", p.root + "/a.txt/", "as a directory"},
		{"trailing dot", p.root + "/a.txt/.", "as a directory"},
		{"file as a directory", p.root + "/a.txt/b", "not a directory"},
		{"credentials", p.root + "/.ssh/config", "credentials"},
		{"credentials in another case", p.root + "/x/.GNUPG/key", "credentials"},
		{"environment", p.root + "/sub/.env", "credentials"},
		{"our own", own, "belongs to sandboxmcp"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, access := range []Access{p.Access, {Roots: append([]Root{{Path: filepath.Dir(own), Write: true}}, p.Roots...), Guard: p.Guard,
				MaxBytes: p.MaxBytes}} {
				if !strings.Contains(tt.name, "our own") && len(access.Roots) > 1 || strings.Contains(tt.name, "our own") && len(access.Roots) == 1 {
					continue
				}
				got, err := access.Read(t.Context(), tt.path)
				if err == nil || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("read %q: got %q, %v, want an error with %q", tt.path, got, err, tt.want)
				}
				for _, mode := range []string{Create, Overwrite, Append} {
					if _, err := access.Write(t.Context(), tt.path, []byte("x"), mode); err == nil {
						t.Errorf("%s %q worked", mode, tt.path)
					}
				}
			}
		})
	}
	for _, f := range []string{p.outside + "/secret", own} {
		if got, err := os.ReadFile(f); err != nil || string(got) != outsideText {
			t.Errorf("%s is now %q, %v", f, got, err)
		}
	}
}

// Files with names like those of refused ones can still be used.
func TestAllowed(t *testing.T) {
	p := newPlace(t)
	for _, name := range []string{p.root + "/a.txt", p.root + "//./a.txt"} {
		if got, err := p.Read(t.Context(), name); err != nil || string(got) != "inside\n" {
			t.Errorf("%q: got %q, %v", name, got, err)
		}
	}
	odd := p.root + "/\xff\x1b[31m"
	if _, err := p.Write(t.Context(), odd, []byte("x"), Create); err != nil {
		t.Errorf("a name that is not UTF-8: %v", err)
	}
	if _, err := p.Read(t.Context(), odd); err != nil {
		t.Errorf("a name that is not UTF-8: %v", err)
	}
	var none Access
	if _, err := none.Read(t.Context(), p.root+"/a.txt"); !isOutside(err) {
		t.Errorf("without roots: %v", err)
	}
	read := Access{Roots: []Root{{Path: p.root}}, MaxBytes: 100}
	if _, err := read.Write(t.Context(), p.root+"/n", nil, Create); !isOutside(err) {
		t.Errorf("a root for reading was written to: %v", err)
	}
	one := Access{Roots: []Root{{Path: p.root + "/a.txt"}}, MaxBytes: 100}
	if got, err := one.Read(t.Context(), p.root+"/a.txt"); err != nil || string(got) != "inside\n" {
		t.Errorf("a root that is a file: %q, %v", got, err)
	}
	if _, err := one.Read(t.Context(), p.root+"/sub/b.txt"); !isOutside(err) {
		t.Errorf("beside a root that is a file: %v", err)
	}
}

func isOutside(err error) bool {
	var d *Denial
	return errors.As(err, &d) && d.Outside
}

// A root leads through no link that a program may have left, also one of the configuration.
func TestLinkedRoot(t *testing.T) {
	p := newPlace(t)
	link := filepath.Dir(p.root) + "/link"
	if err := os.Symlink(p.root, link); err != nil {
		t.Fatal(err)
	}
	for _, exact := range []bool{false, true} {
		a := Access{Roots: []Root{{Path: link, Exact: exact}}, Guard: p.Guard, MaxBytes: 100}
		for _, name := range []string{link + "/a.txt", p.root + "/a.txt"} {
			if text, err := a.Read(t.Context(), name); err == nil {
				t.Errorf("exact %v: %s was read: %q", exact, name, text)
			}
		}
	}
	if to, err := os.Readlink("/bin"); err == nil {
		a := Access{Roots: []Root{{Path: "/bin"}}, Guard: p.Guard, MaxBytes: 10 << 20}
		for _, name := range []string{"/bin/true", filepath.Join("/", to, "true")} {
			if _, err := a.Read(t.Context(), name); err != nil {
				t.Errorf("a link of the system: %v", err)
			}
		}
	}
}

// A root that names a private place, or lies in it, allows it; our own places no root does.
func TestNamed(t *testing.T) {
	p := newPlace(t)
	if err := os.MkdirAll(p.root+"/.ssh/sub", 0o700); err != nil {
		t.Fatal(err)
	}
	p.writeFile(p.root+"/.ssh/sub/x", "x")
	for root, want := range map[string]bool{p.root: false, p.root + "/.ssh": true, p.root + "/.ssh/sub": true, p.root + "/.ssh/sub/x": true} {
		a := Access{Roots: []Root{{Path: root}}, Guard: p.Guard, MaxBytes: 100}
		if _, err := a.Read(t.Context(), p.root+"/.ssh/sub/x"); (err == nil) != want {
			t.Errorf("root %s: %v", root, err)
		}
	}
}

func TestTraps(t *testing.T) {
	p := newPlace(t)
	for _, dir := range []string{".git/hooks", ".vscode", ".husky", "hooks", "bare.git/objects", "bare.git/refs", ".venv/bin", "venv/bin",
		".config/autostart", "src/config", "x/.GIT",
		".opencode/plugin", ".kiro/settings", ".amazonq", ".qwen", ".roo", ".codeium/windsurf", ".mvn", ".yarn/plugins", ".nobody-knows-this",
		".github", "of", "obeyed"} {
		if err := os.MkdirAll(p.root+"/"+dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{".git/hooks/pre-commit", ".git/config", ".git/info", ".bashrc", ".profile", ".zshrc", ".envrc",
		".vscode/tasks.json", ".husky/pre-commit",
		"hooks/pre-push", "bare.git/config", ".venv/bin/activate", "venv/bin/python", ".config/autostart/x.desktop", "x/.GIT/config", "x/.Git",
		"GIT~1", ".git ", ".git::$INDEX_ALLOCATION", "x.pth", ".mcp.json",
		".opencode/plugin/x.js", ".kiro/settings/mcp.json", ".amazonq/mcp.json", ".qwen/settings.json", ".roo/mcp.json",
		".codeium/windsurf/mcp_config.json", "crush.json", "mcp.json",
		"a.code-workspace", ".nvim.lua", ".ansible.cfg", ".bazelrc", ".mvn/extensions.xml", ".yarn/plugins/x.cjs", ".pnp.cjs",
		".nobody-knows-this/x", ".x", "...", "sub/.x", "NVIM~1.LUA", ".github/x.yml",
		"obeyed/settings.json", "of/a-client.json"} {
		if _, err := p.Write(t.Context(), p.root+"/"+name, []byte("x"), Create); err == nil || !strings.Contains(err.Error(), "by itself") &&
			!strings.Contains(err.Error(), "git repository") {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, name := range []string{"hooks/useState.ts", "src/config/x.json", "src/gitconfig", "README.md", ".gitignore", ".env.example",
		".editorconfig", "sub/a.b", "mcp.go", "a~"} {
		if _, err := p.Write(t.Context(), p.root+"/"+name, []byte("x"), Create); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	p.writeFile(p.root+"/.git/config", "[core]")
	if _, err := p.Read(t.Context(), p.root+"/.git/config"); err != nil {
		t.Errorf("what is only run may be read: %v", err)
	}
	p.writeFile(p.root+"/.nobody-knows-this/y", "y")
	if _, err := p.Read(t.Context(), p.root+"/.nobody-knows-this/y"); err != nil {
		t.Errorf("what is hidden may be read: %v", err)
	}
	named := Access{Roots: []Root{{Path: p.root + "/.config", Write: true}}, MaxBytes: 100}
	if _, err := named.Write(t.Context(), p.root+"/.config/autostart/x.desktop", []byte("x"), Create); err == nil {
		t.Error("a root that names a directory of many programs' files names none of these")
	}
	named = Access{Roots: []Root{{Path: p.root + "/.vscode", Write: true}}, MaxBytes: 100}
	if _, err := named.Write(t.Context(), p.root+"/.vscode/tasks.json", []byte("x"), Create); err != nil {
		t.Errorf("a root that names it: %v", err)
	}
}

// Another process swaps a file, a directory and links for each other all the time: reads return only content from
// inside.
func TestSwapped(t *testing.T) {
	p := newPlace(t)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := 0; ctx.Err() == nil; i++ {
			spare, name := p.root+"/spare", p.root+"/sub"
			switch i % 3 {
			case 0:
				_ = os.Symlink(p.outside, spare)
			case 1:
				_ = os.Symlink("../outside", spare)
			case 2:
				_ = os.Mkdir(spare, 0o755)
				_ = os.WriteFile(spare+"/secret", []byte("inside\n"), 0o644)
			}
			_ = os.Rename(name, p.root+"/old")
			_ = os.Rename(spare, name)
			_ = os.RemoveAll(p.root + "/old")
		}
	}()
	seen, rounds := 0, hosttest.Rounds(600, 30_000)
	for range rounds {
		got, err := p.Read(t.Context(), p.root+"/sub/secret")
		if err == nil && string(got) != "inside\n" && len(got) > 0 {
			t.Fatalf("read %q from outside", got)
		}
		if err == nil {
			seen++
		}
		_, _ = p.Write(t.Context(), p.root+"/sub/secret", []byte("inside\n"), Overwrite)
		_, _ = p.Write(t.Context(), p.root+"/sub/new", []byte("inside\n"), Create)
	}
	stop()
	<-done
	t.Logf("%d of %d found a file", seen, rounds)
	names, err := os.ReadDir(p.outside)
	if err != nil || len(names) != 1 {
		t.Errorf("outside has %v, %v", names, err)
	}
	if got, err := os.ReadFile(p.outside + "/secret"); err != nil || string(got) != outsideText {
		t.Errorf("outside was written to: %q, %v", got, err)
	}
}

func TestLarge(t *testing.T) {
	p := newPlace(t)
	sparse := p.root + "/sparse"
	p.writeFile(sparse, "")
	if err := os.Truncate(sparse, 1<<40); err != nil {
		hosttest.SkipMissing(t, "sparse files", err.Error())
	}
	if _, err := p.Read(t.Context(), sparse); err == nil || !strings.Contains(err.Error(), "at most") {
		t.Errorf("a file of 1 TB: %v", err)
	}
	if _, err := p.Write(t.Context(), sparse, []byte("x"), Append); err == nil {
		t.Error("a file of 1 TB grew")
	}
	if w, err := p.Write(t.Context(), sparse, []byte("x"), Overwrite); err != nil || !w.Large {
		t.Errorf("a file of 1 TB can't be replaced: %+v, %v", w.Large, err)
	}
}

// A file that grows as fast as it is read ends at the cap.
func TestGrowing(t *testing.T) {
	p := newPlace(t)
	f, err := os.OpenFile(p.root+"/log", os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for n := 0; ctx.Err() == nil && n < 64<<20; n += 1 << 16 {
			_, _ = f.Write(make([]byte, 1<<16))
		}
	}()
	for range 50 {
		if b, err := p.Read(t.Context(), p.root+"/log"); err == nil && int64(len(b)) > p.MaxBytes {
			t.Errorf("%d bytes were read", len(b))
		}
	}
	stop()
	<-done
}

func TestSpecial(t *testing.T) {
	a := Access{Roots: []Root{{Path: "/", Write: true}}, MaxBytes: 1 << 20}
	for name, want := range map[string]string{
		"/dev/zero": "a device", "/dev/null": "a device", "/proc/self/environ": "link", "/proc/1/environ": "kernel", "/proc/version": "kernel",
		"/proc/self/root/etc/passwd": "link", "/proc/1/root/etc/passwd": "", "/proc/self/fd/0": "link", "/sys/kernel/uevent_helper": "",
		"/etc/shadow": "credentials",
	} {
		if _, err := a.Read(t.Context(), name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
		if _, err := a.Write(t.Context(), name, []byte("x"), Overwrite); err == nil {
			t.Errorf("%s was written to", name)
		}
	}
}

// A bind mount shows our own directory, a directory in it, and a file of it, below a root.
func TestBindMount(t *testing.T) {
	if os.Geteuid() != 0 {
		hosttest.SkipMissing(t, "root", "only root mounts")
	}
	p := newPlace(t)
	own := filepath.Dir(p.root) + "/own"
	for _, from := range []string{own, own + "/keys", own + "/keys/key", filepath.Dir(own)} {
		to := p.root + "/m"
		_ = os.RemoveAll(to)
		name := to + strings.TrimPrefix(own+"/keys/key", from)
		if info, _ := os.Stat(from); info.IsDir() {
			_ = os.Mkdir(to, 0o755)
		} else {
			p.writeFile(to, "")
		}
		if err := unix.Mount(from, to, "", unix.MS_BIND, ""); err != nil {
			hosttest.SkipMissing(t, "mount", err.Error())
		}
		a := p.Access
		a.Guard = NewGuard([]string{own}, "", nil)
		got, err := a.Read(t.Context(), name)
		if err == nil {
			t.Errorf("%s by a bind mount of %s: read %q", name, from, got)
		}
		if _, err := a.Write(t.Context(), name, []byte("x"), Append); err == nil {
			t.Errorf("%s by a bind mount of %s was written to", name, from)
		}
		if err := unix.Unmount(to, unix.MNT_DETACH); err != nil {
			t.Fatal(err)
		}
	}
	if got, _ := os.ReadFile(own + "/keys/key"); string(got) != outsideText {
		t.Errorf("the key is now %q", got)
	}
}

func FuzzClean(f *testing.F) {
	for _, s := range []string{"/a/b", "/..", "/a/../b", "//a/./b", "/a\x00", "a", "", "/...", "/a/..b"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, err := Clean(s)
		if err != nil {
			return
		}
		if !filepath.IsAbs(got) || filepath.Clean(got) != got || filepath.Clean(s) != got || strings.Contains("/"+s+"/", "/../") {
			t.Errorf("%q became %q", s, got)
		}
		root := Root{Path: "/root/of/all"}
		if paths.Within(got, root.Path) && !filepath.IsLocal(relative(got, root.Path)) {
			t.Errorf("%q leaves the root as %q", s, relative(got, root.Path))
		}
	})
}
