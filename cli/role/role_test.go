package role

import (
	"strings"
	"testing"
)

func TestOf(t *testing.T) {
	for _, tt := range []struct {
		args string
		pid  int
		want string
	}{
		{"", 7, ""},
		{"sandboxmcp", 7, ""},
		{"sandboxmcp run a.py", 7, ""},
		{HostCommand, 7, HostCommand},
		{HostCommand + " more", 7, HostCommand},
		{"/bin/" + HostCommand, 7, ""},
		{Parser, 7, Parser},
		{Parser + " more", 7, ""},
		{ContainerInit + " python", 1, ContainerInit},
		{ContainerInit + " python", 7, ""},
		{ContainerInit + " attach", 7, ContainerInit},
		{ContainerInit + " attach more", 7, ""},
		{ContainerInit, 1, ""},
		{ContainerInit + " " + Guest, 7, Guest},
		{"sandboxmcp " + Guest, 7, ""},
		{"sandboxmcp " + PageReader, 7, PageReader},
		{"sandboxmcp " + PageReader + " more", 7, ""},
		{"sandboxmcp run " + PageReader, 7, ""},
		{PageReader, 7, ""},
	} {
		if got := roleOf(strings.Fields(tt.args), tt.pid); got != tt.want {
			t.Errorf("%q as %d: got %q, want %q", tt.args, tt.pid, got, tt.want)
		}
	}
}
