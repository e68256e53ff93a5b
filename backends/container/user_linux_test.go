package container

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
)

func TestChooseUser(t *testing.T) {
	if os.Getuid() != 0 {
		hosttest.SkipMissing(t, "root", "only root can make directories of other users")
	}
	dir := t.TempDir()
	mkdir := func(name string, mode os.FileMode, uid int) string {
		path := filepath.Join(dir, name)
		if err := os.Mkdir(path, 0o700); err != nil {
			t.Fatal(err)
		}
		os.Chown(path, uid, uid+1)
		os.Chmod(path, mode)
		return path
	}
	open, roots := mkdir("open", 0o777, 0), mkdir("roots", 0o755, 0)
	anns, bobs, shut := mkdir("anns", 0o755, 2000), mkdir("bobs", 0o700, 3000), mkdir("shut", 0o500, 2000)
	groups := mkdir("groups", 0o770, 1999) // its group is 2000
	rootful, rootless, mapped := Info{Local: true}, Info{Local: true, Rootless: true, UserNS: true}, Info{Local: true, UserNS: true}
	alone := Info{Local: true, Rootless: true, UserNS: true, Users: 1}
	root, ann := serverUser{0, 0, 0}, serverUser{2000, 2000, 65536}
	const stranger, own = "stranger", "own"
	for _, tt := range []struct {
		name, engine string
		info         Info
		us           serverUser
		read, write  []string
		want         string // "uid:gid", stranger, or a part of the refusal
		keep         bool
	}{
		{"root, nothing shown", "docker", rootful, root, nil, nil, stranger, false},
		{"root, to read", "docker", rootful, root, []string{roots}, nil, stranger, false},
		{"root, open", "docker", rootful, root, nil, []string{open}, stranger, false},
		{"root, another's", "docker", rootful, root, nil, []string{anns, open}, "2000:2001", false},
		{"root, two others'", "docker", rootful, root, nil, []string{anns, bobs}, "another user", false},
		{"root, root's", "docker", rootful, root, nil, []string{roots}, "belongs to root", false},
		{"root, shut", "docker", rootful, root, nil, []string{shut}, "even its owner", false},
		{"user, nothing shown", "docker", rootful, ann, nil, nil, stranger, false},
		{"user, to read", "docker", rootful, ann, []string{anns}, nil, "2000:2000", false},
		{"user, own", "docker", rootful, ann, nil, []string{anns}, "2000:2000", false},
		{"user, by the group", "docker", rootful, ann, nil, []string{groups}, "2000:2000", false},
		{"user, another's", "docker", rootful, ann, nil, []string{bobs}, "can't be written by user 2000", false},
		{"rootless podman, own", "podman", rootless, ann, nil, []string{anns}, "2000:2000", true},
		{"rootless podman, to read", "podman", rootless, ann, []string{anns}, nil, "2000:2000", true},
		{"rootless podman, another's", "podman", rootless, ann, nil, []string{bobs}, "can't be written by user 2000", false},
		{"rootless podman, nothing shown", "podman", rootless, ann, nil, nil, stranger, false},
		{"rootless docker, own", "docker", rootless, ann, nil, []string{anns}, "none of them", false},
		{"rootless docker, open", "docker", rootless, ann, nil, []string{open}, stranger, false},
		{"mapped users, own", "docker", mapped, ann, nil, []string{anns}, "none of them", false},
		{"mapped users, of root", "docker", mapped, root, nil, []string{anns}, "none of them", false},
		{"nobody is mapped", "podman", alone, ann, nil, nil, "/etc/subuid", false},
		{"nobody is mapped, own", "podman", alone, ann, nil, []string{anns}, "/etc/subuid", false},
		{"subordinate users of somewhere else", "docker", rootless, serverUser{2000, 2000, 0}, nil, nil, stranger, false},
		{"root of a user's engine", "podman", rootless, root, nil, []string{open}, stranger, false},
	} {
		var binds []Bind
		for _, path := range tt.read {
			binds = append(binds, Bind{path, "/data", false})
		}
		for _, path := range tt.write {
			binds = append(binds, Bind{path, "/data", true})
		}
		got, err := chooseUser(tt.engine, tt.info, tt.us, binds)
		switch {
		case err != nil && !strings.Contains(err.Error(), tt.want), err == nil && got.keep != tt.keep:
			t.Errorf("%s: got %+v, %v, want %s", tt.name, got, err, tt.want)
		case err == nil && tt.want == stranger:
			low, high := firstUID, firstUID+uids-1
			if tt.info.UserNS {
				low, high = 10000, 65535
			}
			if got.uid < low || got.uid > high || got.gid != got.uid {
				t.Errorf("%s: got %+v", tt.name, got)
			}
		case err == nil && got.String() != tt.want:
			t.Errorf("%s: got %s, want %s", tt.name, got, tt.want)
		}
	}
}

func TestUnprivileged(t *testing.T) {
	for _, tt := range []struct{ users, mapped, low, high int }{
		{0, 65536, 10000, 65535}, {0, 0, 10000, 65535}, {0, 20000, 10000, 20000}, {0, 1000, 500, 1000}, {0, 1, 1, 1},
		{65537, 0, 10000, 65535}, {1001, 65536, 500, 1000}, {2, 0, 1, 1}, // the engine's number has precedence
	} {
		seen := map[int]bool{}
		for range 200 {
			got := unprivileged(Info{Local: true, Rootless: true, UserNS: true, Users: tt.users}, serverUser{1000, 1000, tt.mapped})
			if seen[got.uid] = true; got.uid < tt.low || got.uid > tt.high {
				t.Fatalf("%d users, %d mapped: got %d", tt.users, tt.mapped, got.uid)
			}
		}
		// The kernel counts processes by user.
		if len(seen) < min(100, tt.high-tt.low+1) {
			t.Errorf("%d users, %d mapped: only %d different ones", tt.users, tt.mapped, len(seen))
		}
	}
}

func TestSubordinate(t *testing.T) {
	const file = "ann:100000:65536\n# bob:1:2\nbob:165536:1000\n1000:300000:7\nann:bad:-5\nann:5\n"
	for _, tt := range []struct {
		names []string
		want  int
	}{{[]string{"ann"}, 65536}, {[]string{"bob", "1000"}, 1007}, {[]string{"", "2000"}, 0}} {
		if got := countSubordinate(strings.NewReader(file), tt.names...); got != tt.want {
			t.Errorf("%v: got %d, want %d", tt.names, got, tt.want)
		}
	}
}

// TestOnHost checks the host's files of a container's user for access rights of their own.
func TestOnHost(t *testing.T) {
	us := serverUser{uid: 1000}
	for name, c := range map[string]struct {
		who  identity
		info Info
		want int
	}{
		"an engine that maps no users": {identity{uid: 1234}, Info{}, 1234},
		"one that does":                {identity{uid: 1234}, Info{UserNS: true}, -1},
		"a rootless one":               {identity{uid: 1234}, Info{Rootless: true, UserNS: true}, -1},
		"the server's own":             {identity{uid: 1000, keep: true}, Info{Rootless: true, UserNS: true}, 1000},
	} {
		if got := c.who.onHost(c.info, us); got != c.want {
			t.Errorf("%s: got %d, want %d", name, got, c.want)
		}
	}
}
