package config

import (
	"strings"
	"testing"
)

func TestPool(t *testing.T) {
	for _, tt := range []struct {
		name, file, variable string
		want                 Pool
		error                string
	}{
		{name: "as large as the server", file: "max_concurrent: 6", want: Pool{true, 12, 128, 300}},
		{name: "but with room for some kinds", file: "max_concurrent: 1", want: Pool{true, minIdle, 128, 300}},
		{name: "but no larger than is of use", file: "max_concurrent: 1000", want: Pool{true, maxIdle, 128, 300}},
		{name: "unless somebody says so", file: "max_concurrent: 1000\npool: {max: 1000}", want: Pool{true, 1000, 128, 300}},
		{name: "off", file: "max_concurrent: 3\npool: off", want: Pool{false, minIdle, 128, 300}},
		{name: "on", file: "max_concurrent: 3\npool: on", want: Pool{true, minIdle, 128, 300}},
		{name: "the environment", file: "max_concurrent: 3\npool: on", variable: "off", want: Pool{false, minIdle, 128, 300}},
		{name: "the environment, on", file: "max_concurrent: 3\npool: {enabled: false}", variable: "on", want: Pool{true, minIdle, 128, 300}},
		{name: "a word", file: "pool: warm", error: `:1: pool.enabled: "warm" is neither true nor false`},
		{name: "a word in the environment", variable: "warm", error: "SANDBOXMCP_POOL: pool.enabled: "},
		{name: "another key", file: "pool: {size: 3}", error: "pool.size: unknown key"},
		{name: "none, by number", file: "pool: {max: 0}", error: "pool.max: 0 is out of range: 1 to 1000"},
		{name: "a fraction", file: "pool: {memory_mb: 1.5}", error: "pool.memory_mb: 1.5 is not a whole number"},
		{name: "never idle", file: "pool: {idle_seconds: 0}", error: "pool.idle_seconds: 0 is out of range"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, env := write(t, tt.file)
			c, err := Load(Options{Env: append(env, "SANDBOXMCP_POOL="+tt.variable)})
			if tt.error != "" {
				if err == nil || !strings.Contains(err.Error(), tt.error) {
					t.Errorf("got %v, want %s", err, tt.error)
				}
				return
			}
			if err != nil || c.Pool != tt.want {
				t.Errorf("got %+v, %v; want %+v", c.Pool, err, tt.want)
			}
		})
	}
}
