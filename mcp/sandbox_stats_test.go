package mcp

import (
	"testing"

	"github.com/sandboxmcp/sandboxmcp/pipeline/status"

	"github.com/sandboxmcp/sandboxmcp/backends"
)

func TestPoolLines(t *testing.T) {
	for _, tt := range []struct {
		name string
		all  []status.Pool
		want string
	}{
		{"none", nil, ""},
		{"unused", []status.Pool{{Backend: "process", Pool: backends.Pool{Language: "shell"}}},
			"\npool of shell (process): 0 ready; 0 of 0 runs used it (0 %)"},
		{"two", []status.Pool{
			{Backend: "process", Pool: backends.Pool{Language: "python", Ready: 3, Memory: 7_200_000, Hits: 97, Misses: 3,
				Cold: map[string]int64{"PYTHONPATH is set": 1, "none was ready": 2}}},
			{Backend: "process", Pool: backends.Pool{Language: "node", Ready: 1, Memory: 6_000_000, Hits: 1}},
		}, "\npool of python (process): 3 ready in 7.2 MB; 97 of 100 runs used it (97 %); cold starts: PYTHONPATH is set 1, none was ready 2" +
			"\npool of node (process): 1 ready in 6.0 MB; 1 of 1 runs used it (100 %)"},
		{"many reasons", []status.Pool{{Backend: "process", Pool: backends.Pool{Language: "python", Misses: 27, Cold: map[string]int64{
			"a": 2, "b": 3, "c": 4, "d": 5, "PYTHON\x1b[2J\nX is set": 6, "f": 7, "g": 1}}}},
			"\npool of python (process): 0 ready; 0 of 27 runs used it (0 %); cold starts: PYTHON\\u001b[2J X is set 6, b 3, c 4, d 5, f 7"},
	} {
		if got := poolLines(tt.all); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
}
