package config

import (
	"slices"
	"testing"

	search "github.com/sandboxmcp/sandboxmcp/egress/web/engine"
)

// TestEngineNames has the settings name the engines that there are.
func TestEngineNames(t *testing.T) {
	if there := search.Names(); !slices.Equal(engineNames, there) {
		t.Errorf("settings know %v, and there are %v", engineNames, there)
	}
}
