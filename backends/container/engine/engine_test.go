package engine

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

func TestDigest(t *testing.T) {
	sum := "@sha256:" + strings.Repeat("a", 64)
	all := []string{"localhost/made" + sum, "mirror.example/python" + sum, "python" + sum, "localhost:5000/python" + sum}
	for ref, want := range map[string]string{
		"python:3.12":                       "python" + sum,
		"docker.io/library/python":          "python" + sum,
		"mirror.example/python:3":           "mirror.example/python" + sum,
		"localhost:5000/python":             "localhost:5000/python" + sum,
		"other.example/python":              "mirror.example/python" + sum,
		"localhost/made:1":                  "mirror.example/python" + sum,
		"sha256:" + strings.Repeat("b", 64): "mirror.example/python" + sum,
		"No Reference":                      "mirror.example/python" + sum,
	} {
		if got := Digest(ref, all); got != want {
			t.Errorf("%s: got %q, want %q", ref, got, want)
		}
	}
	if got := Digest("localhost/made:1", all[:1]); got != "" {
		t.Errorf("made here: got %q", got)
	}
	if got := Digest("python", nil); got != "" {
		t.Errorf("of none: got %q", got)
	}
}

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
		{"." + list + none, "ours", ""}, // of the current directory
	} {
		got, err := Program(test.path, test.name)
		if got != test.want || errors.Is(err, exec.ErrNotFound) != (test.want == "") {
			t.Errorf("%s on %q: got %q, %v", test.name, test.path, got, err)
		}
	}
}
