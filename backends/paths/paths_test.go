package paths

import (
	"path/filepath"
	"testing"
)

func TestWithin(t *testing.T) {
	const no, is, below = 0, 1, 2
	for _, tt := range []struct {
		name, dir string
		want      int
	}{
		{"/", "/", is},
		{"/a", "/", below},
		{"/a/b", "/", below},
		{"//a", "//", below},
		{"/", "/a", no},
		{"/a", "/a", is},
		{"/a", "/a/", is},
		{"/a/", "/a", is},
		{"/a/b", "/a", below},
		{"/a/b", "/a/", below},
		{"/a//b/", "/a", below},
		{"/ab", "/a", no},
		{"/a", "/ab", no},
		{"/a", "/a/b", no},
		{"/a/../b", "/a", no},
		{"/a/./b", "/a", below},
		{"/a/..b", "/a", below},
		{"/..a", "/", below},
		{"/a/..", "/", is},
		{"/..", "/", is},
		{".", ".", is},
		{"", ".", is},
		{"a", ".", below},
		{"a", "", below},
		{"..a", ".", below},
		{"..", ".", no},
		{"../a", ".", no},
		{".", "..", no},
		{"a", "..", no},
		{"../a", "..", below},
		{"../..", "..", no},
		{"../../a", "..", no},
		{"a/b", "a", below},
		{"ab", "a", no},
		{"a", "/", no},
		{"", "/", no},
		{"a", "/a", no},
		{"/a", "a", no},
		{"/a", ".", no},
		{"/", ".", no},
		{"/a", "", no},
	} {
		if got := Within(tt.name, tt.dir); got != (tt.want != no) {
			t.Errorf("%q within %q: got %v", tt.name, tt.dir, got)
		}
		if got := Below(tt.name, tt.dir); got != (tt.want == below) {
			t.Errorf("%q below %q: got %v", tt.name, tt.dir, got)
		}
	}
}

// FuzzWithin compares Within with filepath.Rel: if Rel succeeds, a path in a directory is reached without "..".
func FuzzWithin(f *testing.F) {
	f.Add("/a/b", "/a")
	f.Add("../..", "..")
	f.Fuzz(func(t *testing.T, name, dir string) {
		rest, err := filepath.Rel(dir, name)
		local := err == nil && filepath.IsLocal(rest)
		if got := Within(name, dir); got != local {
			t.Errorf("%q within %q: got %v; relative: %q, %v", name, dir, got, rest, err)
		}
		if got := Below(name, dir); got != (local && rest != ".") {
			t.Errorf("%q below %q: got %v; relative: %q, %v", name, dir, got, rest, err)
		}
	})
}
