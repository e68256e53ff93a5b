package client

import (
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
		if got := chooseDigest(ref, all); got != want {
			t.Errorf("%s: got %q, want %q", ref, got, want)
		}
	}
	if got := chooseDigest("localhost/made:1", all[:1]); got != "" {
		t.Errorf("made here: got %q", got)
	}
	if got := chooseDigest("python", nil); got != "" {
		t.Errorf("of none: got %q", got)
	}
}
