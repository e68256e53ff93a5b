package config

import "testing"

// TestReference checks that each setting has a description.
func TestReference(t *testing.T) {
	for _, e := range Reference() {
		if e.About == "" || e.Takes == "" || e.Default == "" {
			t.Errorf("%s is not documented: %+v", e.Key, e)
		}
	}
}
