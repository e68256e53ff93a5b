package config

import (
	"strings"
	"testing"
)

func TestPool(t *testing.T) {
	for _, tt := range []struct {
		name, file, variable string
		want                 bool
		error                string
	}{
		{name: "by default", want: true},
		{name: "off", file: "pool: off"},
		{name: "on", file: "pool: on", want: true},
		{name: "the environment", file: "pool: on", variable: "off"},
		{name: "the environment, on", file: "pool: false", variable: "on", want: true},
		{name: "a word", file: "pool: warm", error: `:1: pool: "warm" is neither true nor false`},
		{name: "a word in the environment", variable: "warm", error: "SANDBOXMCP_POOL: pool: "},
		{name: "a key", file: "pool: {size: 3}", error: "pool: expected a value, not keys and values"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, env := writeConfig(t, tt.file)
			c, err := Load(Options{Env: append(env, "SANDBOXMCP_POOL="+tt.variable)})
			if tt.error != "" {
				if err == nil || !strings.Contains(err.Error(), tt.error) {
					t.Errorf("got %v, want %s", err, tt.error)
				}
				return
			}
			if err != nil || c.Pool != tt.want {
				t.Errorf("got %v, %v; want %v", c.Pool, err, tt.want)
			}
		})
	}
}
