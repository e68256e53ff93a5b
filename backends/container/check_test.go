package container

import (
	"strings"
	"testing"
)

func TestLabels(t *testing.T) {
	many := map[string]string{}
	for i := range 100 {
		many[strings.Repeat("k", i+1)] = "v"
	}
	for _, tt := range []struct {
		name   string
		labels map[string]string
		ok     bool
	}{
		{"none", nil, true},
		{"two", map[string]string{"a": "1", "b.c/d-e_f": "täxt"}, true},
		{"ours", map[string]string{LabelInstance: "x"}, false},
		{"ours, in capitals", map[string]string{"SandboxMCP.state": "x"}, false},
		{"the engine's", map[string]string{"io.podman.annotations.autoremove": "FALSE"}, false},
		{"a unit's", map[string]string{"PODMAN_SYSTEMD_UNIT": "x"}, false},
		{"one that is bad of two", map[string]string{"a": "1", "com.docker.x": "1"}, false},
		{"no key", map[string]string{"": "x"}, false},
		{"a key with =", map[string]string{"a=b": "x"}, false},
		{"a key with a line", map[string]string{"a\nb": "x"}, false},
		{"a long key", map[string]string{strings.Repeat("k", 200): "x"}, false},
		{"a long value", map[string]string{"k": strings.Repeat("v", 5000)}, false},
		{"a value with a line", map[string]string{"k": "a\nb"}, false},
		{"a value that is no text", map[string]string{"k": "\xff"}, false},
		{"a hundred", many, false},
	} {
		if err := CheckLabels(tt.labels); (err == nil) != tt.ok {
			t.Errorf("%s: got %v", tt.name, err)
		}
	}
}

func TestGPUs(t *testing.T) {
	for text, ok := range map[string]bool{
		"all": true, "0": true, "0,1": true, "3,12": true,
		"": false, ",": false, "0,": false, "-1": false, "00": false, "100": false, "0,all": false, "all,all": false, "ALL": false,
		"GPU-1": false, "0;1": false, "1,1": false, "../sda": false, "0\n": false, "none": false,
	} {
		if err := CheckGPUs(strings.Split(text, ",")); (err == nil) != ok {
			t.Errorf("%q: got %v", text, err)
		}
	}
	if err := CheckGPUs(nil); err != nil {
		t.Error(err)
	}
}
