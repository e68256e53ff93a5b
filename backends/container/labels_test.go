package container

import (
	"strings"
	"testing"
)

func TestLabels(t *testing.T) {
	for _, tt := range []struct {
		name               string
		operators, request map[string]string
		want               int // how many; -1 for a refusal
	}{
		{"none", nil, nil, 0},
		{"both", map[string]string{"a": "1"}, map[string]string{"b.c/d-e_f": "täxt"}, 2},
		{"the same", map[string]string{"a": "1"}, map[string]string{"a": "1"}, 1},
		{"the operator's changed", map[string]string{"a": "1"}, map[string]string{"a": "2"}, -1},
		{"ours", nil, map[string]string{LabelInstance: "x"}, -1},
		{"ours, in capitals", nil, map[string]string{"SandboxMCP.state": "x"}, -1},
		{"ours, by the operator", map[string]string{LabelState: "x"}, nil, -1},
		{"the engine's", nil, map[string]string{"io.podman.annotations.autoremove": "FALSE"}, -1},
		{"a unit's", nil, map[string]string{"PODMAN_SYSTEMD_UNIT": "x"}, -1},
		{"no key", nil, map[string]string{"": "x"}, -1},
		{"a key with =", nil, map[string]string{"a=b": "x"}, -1},
		{"a key with a line", nil, map[string]string{"a\nb": "x"}, -1},
		{"a long key", nil, map[string]string{strings.Repeat("k", 200): "x"}, -1},
		{"a long value", nil, map[string]string{"k": strings.Repeat("v", 5000)}, -1},
		{"a value with a line", nil, map[string]string{"k": "a\nb"}, -1},
		{"a value that is no text", nil, map[string]string{"k": "\xff"}, -1},
	} {
		got, err := labels(tt.operators, tt.request)
		if (err != nil) != (tt.want < 0) || err == nil && len(got) != tt.want {
			t.Errorf("%s: got %v, %v", tt.name, got, err)
		}
	}
	many := map[string]string{}
	for i := range 100 {
		many[strings.Repeat("k", i+1)] = "v"
	}
	if _, err := labels(nil, many); err == nil {
		t.Error("100 labels are taken")
	}
}
