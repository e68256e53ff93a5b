package config

import "testing"

// TestReference wants a sentence for each setting, and a setting for each sentence.
func TestReference(t *testing.T) {
	about := abouts()
	for _, e := range Reference() {
		if e.About == "" || e.Takes == "" || e.Default == "" {
			t.Errorf("%s is not documented: %+v", e.Key, e)
		}
		delete(about, e.Key)
	}
	for key := range about {
		t.Errorf("%s is documented, and there is no such setting", key)
	}
}
