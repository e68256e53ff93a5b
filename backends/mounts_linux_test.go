package backends

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestMounts(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	join := func(name string) string { return filepath.Join(dir, name) }
	os.Mkdir(join("directory"), 0o755)
	os.Mkdir(join("engine"), 0o755)
	os.MkdirAll(join("session/podman"), 0o755)
	t.Setenv("XDG_RUNTIME_DIR", join("session"))
	os.WriteFile(join("file"), nil, 0o644)
	os.Symlink("/", join("whole"))
	os.Symlink("directory", join("link"))
	os.Symlink("engine", join("to-engine"))
	l, err := net.Listen("unix", join("engine/e.sock"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	const own = "/.own"
	check := func(spec Spec) (Spec, error) {
		if err := CheckPlaces(spec, own); err != nil {
			return spec, err
		}
		return ResolveMounts(spec, "unix://"+join("to-engine/e.sock"))
	}
	tests := []struct {
		name   string
		mounts []Mount
		work   string
		want   string // in the refusal; "" for none
	}{
		{"a directory", []Mount{{Host: join("directory"), Inside: "/data"}}, "", ""},
		{"a file", []Mount{{Host: join("file"), Inside: "/opt/x/file"}}, "", ""},
		{"in the workspace", []Mount{{Host: join("directory"), Inside: "/workspace/data"}}, "", ""},
		{"a workspace", nil, join("directory"), ""},
		{"both", []Mount{{Host: join("directory"), Inside: "/data"}}, join("directory"), ""},
		{"not there", []Mount{{Host: join("nothing"), Inside: "/data"}}, "", "can't be shown"},
		{"relative", []Mount{{Host: "directory", Inside: "/data"}}, "", "absolute, clean"},
		{"dots", []Mount{{Host: dir + "/directory/..", Inside: "/data"}}, "", "absolute, clean"},
		{"dots inside", []Mount{{Host: dir, Inside: "/data/../proc"}}, "", "absolute, clean"},
		{"NUL", []Mount{{Host: dir, Inside: "/data\x00"}}, "", "absolute, clean"},
		{"the host", []Mount{{Host: "/", Inside: "/data"}}, "", "whole host"},
		{"the host by a link", []Mount{{Host: join("whole"), Inside: "/data"}}, "", "whole host"},
		{"processes", []Mount{{Host: "/proc/self", Inside: "/data"}}, "", "whole host"},
		{"devices", []Mount{{Host: "/dev", Inside: "/data"}}, "", "devices"},
		{"an engine of the user's", []Mount{{Host: join("session"), Inside: "/data"}}, "", "the control socket of a container engine"},
		{"the kernel", []Mount{{Host: "/sys/kernel", Inside: "/data"}}, "", "devices"},
		{"the engine", []Mount{{Host: join("engine/e.sock"), Inside: "/data"}}, "", "the control socket of a container engine"},
		{"the engine's directory", []Mount{{Host: join("engine"), Inside: "/data"}}, "", "the control socket of a container engine"},
		{"the engine's directory by a link", []Mount{{Host: join("to-engine"), Inside: "/data"}}, "", "the control socket of a container engine"},
		{"the engine's directory as a workspace", nil, dir, "the control socket of a container engine"},
		{"a file as a workspace", nil, join("file"), "not a directory"},
		{"root", []Mount{{Host: dir, Inside: "/"}}, "", "reserved"},
		{"over us", []Mount{{Host: dir, Inside: own + "/init"}}, "", "reserved"},
		{"over all of us", []Mount{{Host: dir, Inside: own}}, "", "reserved"},
		{"over certificates", []Mount{{Host: dir, Inside: "/run/sandbox"}}, "", "reserved"},
		{"over /tmp", []Mount{{Host: dir, Inside: "/tmp"}}, "", "reserved"},
		{"over the system", []Mount{{Host: dir, Inside: "/usr/lib"}}, "", "read-only"},
		{"over the resolver", []Mount{{Host: dir, Inside: "/etc/resolv.conf"}}, "", "read-only"},
		{"in a mount", []Mount{{Host: join("directory"), Inside: "/data"}, {Host: join("file"), Inside: "/data/file"}}, "", "another mount"},
		{"twice", []Mount{{Host: join("directory"), Inside: "/data"}, {Host: join("file"), Inside: "/data"}}, "", "twice"},
		{"in the host's workspace", []Mount{{Host: join("file"), Inside: "/workspace/file"}}, join("directory"), "host's workspace"},
		{"too many", make([]Mount, 25), "", "25 mounts"},
	}
	for _, tt := range tests {
		spec := Spec{Mounts: tt.mounts, Workspace: Mount{Host: tt.work}}
		got, err := check(spec)
		var refusal *Refusal
		switch {
		case tt.want == "" && err != nil:
			t.Errorf("%s: %v", tt.name, err)
		case tt.want == "":
			if len(got.Mounts) != len(tt.mounts) || got.Workspace.Host != tt.work {
				t.Errorf("%s: got %v", tt.name, got)
			}
		case !errors.As(err, &refusal) || !strings.Contains(refusal.Reason, tt.want):
			t.Errorf("%s: got %v, want %q", tt.name, err, tt.want)
		}
	}
	asked := []Mount{{Host: join("link"), Inside: "/data", Write: true}}
	got, err := check(Spec{Mounts: asked, Workspace: Mount{Host: join("link")}})
	if err != nil || got.Mounts[0] != (Mount{Host: join("directory"), Inside: "/data", Write: true}) ||
		got.Workspace.Host != join("directory") {
		t.Errorf("links: got %+v, %v", got, err)
	}
	if asked[0].Host != join("link") {
		t.Error("the caller's list was changed")
	}
}

// TestSystemForWriting has root mount directories for writing in which it trusts links.
func TestSystemForWriting(t *testing.T) {
	for name, refused := range map[string]bool{"/usr": true, "/etc": true, "/var": true, "/usr/bin": false, t.TempDir(): false} {
		for _, write := range []bool{false, true} {
			m := Mount{Host: name, Inside: "/data", Write: write}
			_, err := ResolveMounts(Spec{Mounts: []Mount{m}})
			_, errWork := ResolveMounts(Spec{Workspace: m})
			if want := refused && write && os.Geteuid() == 0; (err != nil) != want || (errWork != nil) != want {
				t.Errorf("%s, for writing %v: got %v, %v", name, write, err, errWork)
			}
		}
		_, err := ResolveMounts(Spec{Workspace: Mount{Host: name, Propose: true}})
		if refused = refused && os.Geteuid() == 0; (err != nil) != refused {
			t.Errorf("%s, for changes: got %v", name, err)
		}
	}
}
