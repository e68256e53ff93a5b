package process

import "testing"

func TestInside(t *testing.T) {
	s := &Sandbox{profile: profile{landlockOnly: true}, view: view{dir: "/run/x"}}
	for dir, want := range map[string]string{
		"": "/run/x", "/workspace": "/run/x", "/workspace/a": "/run/x/a", "/workspaces/a": "/workspaces/a", "/tmp": "/tmp",
	} {
		if got := s.insidePath(dir); got != want {
			t.Errorf("%q: got %q, want %q", dir, got, want)
		}
	}
}
