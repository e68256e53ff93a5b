package vault

import (
	"bytes"
	"compress/gzip"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "record a vault of this format")

// releasedFormats are the schema versions of releases: any later program opens all of them. testdata has a vault of
// each version, and its key, which opens nothing else.
var releasedFormats []int64

// formatSecrets are the secrets of the vaults in testdata.
var formatSecrets = map[string]string{"API_KEY": "hunter2-hunter2", "TEXT": "correct horse"}

func formatFile(version int64, name string) string {
	return fmt.Sprintf("testdata/format-%d.%s.gz", version, name)
}

func recordFormat(t *testing.T) {
	dir := t.TempDir()
	s := NewSealed(dir, nil)
	for key, value := range formatSecrets {
		if err := s.Add(t.Context(), Entry{Namespace: "default", Key: key, Binding: Binding{Hosts: []string{"api.example.com"}}}, []byte(value),
			false); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll("testdata", 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"vault.db", "vault.key"} {
		content, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		z, _ := gzip.NewWriterLevel(&b, gzip.BestCompression)
		z.Write(content)
		z.Close()
		if err := os.WriteFile(formatFile(schemaVersion, name), b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// TestFormats opens a vault of each format. After a change of the schema, -update records one more.
func TestFormats(t *testing.T) {
	if *update {
		recordFormat(t)
	}
	files, _ := filepath.Glob("testdata/format-*.vault.db.gz")
	if !slices.Contains(files, formatFile(schemaVersion, "vault.db")) {
		t.Errorf("no vault of version %d is recorded: go test ./vault -run TestFormats -update", schemaVersion)
	}
	for _, file := range files {
		var version int64
		if _, err := fmt.Sscanf(file, "testdata/format-%d.vault.db.gz", &version); err != nil {
			t.Fatal(err)
		}
		t.Run(fmt.Sprint(version), func(t *testing.T) {
			dir := t.TempDir()
			for _, name := range []string{"vault.db", "vault.key"} {
				packed, err := os.ReadFile(formatFile(version, name))
				if err != nil {
					t.Fatal(err)
				}
				z, err := gzip.NewReader(bytes.NewReader(packed))
				if err != nil {
					t.Fatal(err)
				}
				content, err := io.ReadAll(z)
				if err == nil {
					err = os.WriteFile(filepath.Join(dir, name), content, 0o600)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			s := NewSealed(dir, nil)
			if version != schemaVersion && !slices.Contains(releasedFormats, version) {
				if _, _, err := s.Get(t.Context(), "default", "TEXT"); err == nil || !strings.Contains(err.Error(), "no release") {
					t.Errorf("got %v", err)
				}
				return
			}
			if err := s.Add(t.Context(), Entry{Namespace: "default", Key: "NEW"}, []byte("new value"), false); err != nil {
				t.Error(err)
			}
			for key, want := range formatSecrets {
				if got, binding, err := s.Get(t.Context(), "default", key); err != nil || string(got) != want ||
					!slices.Equal(binding.Hosts, []string{"api.example.com"}) {
					t.Errorf("%s is %q for %v, %v", key, got, binding, err)
				}
			}
			if entries, problems, err := s.List(t.Context(), ""); err != nil || len(problems) > 0 || len(entries) != len(formatSecrets)+1 {
				t.Errorf("got %v, %v, %v", entries, problems, err)
			}
		})
	}
}
