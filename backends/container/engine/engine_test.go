package engine

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
)

func TestProgram(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("programs have other names")
	}
	dir := t.TempDir()
	there, none := filepath.Join(dir, "there"), filepath.Join(dir, "none")
	for _, dir := range []string{there, none} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	want := filepath.Join(there, "ours")
	if err := os.WriteFile(want, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Chdir(there)
	list := string(filepath.ListSeparator)
	for _, test := range []struct{ path, name, want string }{
		{none + list + there, "ours", want},
		{none, want, want},
		{none, "ours", ""},
		{"", "ours", ""},
		{"." + list + none, "ours", ""}, // in the current directory
	} {
		got, err := FindProgram(test.path, test.name)
		if got != test.want || errors.Is(err, exec.ErrNotFound) != (test.want == "") {
			t.Errorf("%s on %q: got %q, %v", test.name, test.path, got, err)
		}
	}
}
