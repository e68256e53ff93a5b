package runtimes

import (
	"maps"
	"slices"
	"testing"
)

func TestJoin(t *testing.T) {
	got := Merge("all", []Runtime{
		{Prefixes: []string{"/opt/x/python", "/opt/y"}, PathDirs: []string{"/opt/x/python/bin"},
			Links: map[string]string{"/opt/z/link": "/opt/y/python", "/opt/x/alias": "/opt/y"}},
		{Prefixes: []string{"/opt/x", "/opt/y/node"}, PathDirs: []string{"/opt/y/bin", "/opt/x/python/bin"}},
		{Prefixes: []string{"/opt/xy"}},
	})
	// No prefix is inside another, and links inside a prefix are not listed.
	if want := []string{"/opt/x", "/opt/xy", "/opt/y"}; !slices.Equal(got.Prefixes, want) {
		t.Errorf("it shows %q, want %q", got.Prefixes, want)
	}
	if want := []string{"/opt/x/python/bin", "/opt/y/bin"}; !slices.Equal(got.PathDirs, want) {
		t.Errorf("its path is %q, want %q", got.PathDirs, want)
	}
	if want := map[string]string{"/opt/z/link": "/opt/y/python"}; !maps.Equal(got.Links, want) {
		t.Errorf("its links are %q, want %q", got.Links, want)
	}
}
