package container

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends"
)

func TestMounts(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	join := func(name string) string { return filepath.Join(dir, name) }
	os.Mkdir(join("folder"), 0o755)
	os.Mkdir(join("engine"), 0o755)
	os.WriteFile(join("file"), nil, 0o644)
	os.Symlink("/", join("whole"))
	os.Symlink("folder", join("link"))
	os.Symlink("engine", join("to-engine"))
	l, err := net.Listen("unix", join("engine/e.sock"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	b := New(newDouble(), Config{})
	s := &standing{Info: Info{Local: true, Address: "unix://" + join("to-engine/e.sock")}}
	tests := []struct {
		name   string
		mounts []backends.Mount
		work   string
		want   string // in the refusal; "" for none
	}{
		{"a folder", []backends.Mount{{Host: join("folder"), Inside: "/data"}}, "", ""},
		{"a file", []backends.Mount{{Host: join("file"), Inside: "/opt/x/file"}}, "", ""},
		{"in the workspace", []backends.Mount{{Host: join("folder"), Inside: "/workspace/data"}}, "", ""},
		{"a workspace", nil, join("folder"), ""},
		{"both", []backends.Mount{{Host: join("folder"), Inside: "/data"}}, join("folder"), ""},
		{"not there", []backends.Mount{{Host: join("nothing"), Inside: "/data"}}, "", "can't be shown"},
		{"relative", []backends.Mount{{Host: "folder", Inside: "/data"}}, "", "absolute, clean"},
		{"dots", []backends.Mount{{Host: dir + "/folder/..", Inside: "/data"}}, "", "absolute, clean"},
		{"dots inside", []backends.Mount{{Host: dir, Inside: "/data/../proc"}}, "", "absolute, clean"},
		{"NUL", []backends.Mount{{Host: dir, Inside: "/data\x00"}}, "", "absolute, clean"},
		{"the host", []backends.Mount{{Host: "/", Inside: "/data"}}, "", "whole host"},
		{"the host by a link", []backends.Mount{{Host: join("whole"), Inside: "/data"}}, "", "whole host"},
		{"processes", []backends.Mount{{Host: "/proc/self", Inside: "/data"}}, "", "whole host"},
		{"devices", []backends.Mount{{Host: "/dev", Inside: "/data"}}, "", "devices"},
		{"the kernel", []backends.Mount{{Host: "/sys/kernel", Inside: "/data"}}, "", "devices"},
		{"the engine", []backends.Mount{{Host: join("engine/e.sock"), Inside: "/data"}}, "", "told to do anything"},
		{"the engine's folder", []backends.Mount{{Host: join("engine"), Inside: "/data"}}, "", "told to do anything"},
		{"the engine's folder by a link", []backends.Mount{{Host: join("to-engine"), Inside: "/data"}}, "", "told to do anything"},
		{"the engine's folder as a workspace", nil, dir, "told to do anything"},
		{"a file as a workspace", nil, join("file"), "not a folder"},
		{"root", []backends.Mount{{Host: dir, Inside: "/"}}, "", "own"},
		{"over us", []backends.Mount{{Host: dir, Inside: Home + "/init"}}, "", "own"},
		{"over certificates", []backends.Mount{{Host: dir, Inside: "/run/sandbox"}}, "", "own"},
		{"over /tmp", []backends.Mount{{Host: dir, Inside: "/tmp"}}, "", "own"},
		{"over the system", []backends.Mount{{Host: dir, Inside: "/usr/lib"}}, "", "read-only"},
		{"over the resolver", []backends.Mount{{Host: dir, Inside: "/etc/resolv.conf"}}, "", "read-only"},
		{"in a mount", []backends.Mount{{Host: join("folder"), Inside: "/data"}, {Host: join("file"), Inside: "/data/file"}}, "", "another mount"},
		{"twice", []backends.Mount{{Host: join("folder"), Inside: "/data"}, {Host: join("file"), Inside: "/data"}}, "", "twice"},
		{"in the host's workspace", []backends.Mount{{Host: join("file"), Inside: "/workspace/file"}}, join("folder"), "host's workspace"},
		{"too many", make([]backends.Mount, 25), "", "25 mounts"},
	}
	for _, tt := range tests {
		spec := backends.Spec{Mounts: tt.mounts, Workspace: backends.Mount{Host: tt.work}}
		binds, err := b.mounts(s, spec)
		var refusal *backends.Refusal
		switch {
		case tt.want == "" && err != nil:
			t.Errorf("%s: %v", tt.name, err)
		case tt.want == "":
			if want := len(tt.mounts) + min(1, len(tt.work)); len(binds) != want {
				t.Errorf("%s: got %v", tt.name, binds)
			}
		case !errors.As(err, &refusal) || !strings.Contains(refusal.Reason, tt.want):
			t.Errorf("%s: got %v, want %q", tt.name, err, tt.want)
		}
	}
	link := backends.Spec{Mounts: []backends.Mount{{Host: join("link"), Inside: "/data", Write: true}}}
	if binds, err := b.mounts(s, link); err != nil || binds[0] != (Bind{join("folder"), "/data", true}) {
		t.Errorf("a link: got %v, %v", binds, err)
	}
	s.Local = false
	if _, err := b.mounts(s, link); err == nil || !strings.Contains(err.Error(), "elsewhere") {
		t.Errorf("an engine elsewhere: got %v", err)
	}
}
