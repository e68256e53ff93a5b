package audit

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/audit/schema"
)

// releasedFormats are the schema versions of releases. Any later program reads, verifies and continues all of them,
// and refuses unreleased ones. testdata has a log of each version.
var releasedFormats []int64

// formatRows are the kinds of the rows in testdata's logs; the last row has a receipt.
var formatRows = []string{"execution.started", "vault.added", "execution.completed"}

// recordFormat writes a log in this program's format.
func recordFormat(t *testing.T) {
	path := logPath(t)
	l := openSigned(t, path, signing(2))
	for i, kind := range formatRows {
		e := Entry{Kind: kind, Run: "01ARZ3NDEKTSV4RRFFQ69G5FAV", Namespace: "default", Data: map[string]any{"row": i, "text": "ümläut \u2028"}}
		if i == len(formatRows)-1 {
			e.Receipt = []byte(`{"payload":"e30="}`)
		}
		if _, err := l.Append(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	for from, to := range map[string]string{path: formatFile(schema.Version), l.active.Load().latestPath(): formatFile(schema.Version) +
		"-checkpoint"} {
		content, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		z, _ := gzip.NewWriterLevel(&b, gzip.BestCompression)
		z.Write(content)
		z.Close()
		if err := os.WriteFile(to+".gz", b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func formatFile(version int64) string { return fmt.Sprintf("testdata/format-%d.db", version) }

// unpackFormat unpacks a recorded log into a directory of its own.
func unpackFormat(t *testing.T, version int64) (path string) {
	t.Helper()
	path = logPath(t)
	for _, suffix := range []string{"", "-checkpoint"} {
		f, err := os.Open(formatFile(version) + suffix + ".gz")
		if err != nil {
			t.Fatal(err)
		}
		z, err := gzip.NewReader(f)
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(z)
		if err == nil {
			err = os.WriteFile(path+suffix, content, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		f.Close()
	}
	return path
}

// TestFormats opens a log of each format. After a change of the schema, -update records one more.
func TestFormats(t *testing.T) {
	if *update {
		recordFormat(t)
	}
	files, _ := filepath.Glob("testdata/format-*.db.gz")
	if !slices.Contains(files, formatFile(schema.Version)+".gz") {
		t.Errorf("no log of version %d is recorded: go test ./audit -run TestFormats -update", schema.Version)
	}
	for _, file := range files {
		var version int64
		if _, err := fmt.Sscanf(file, "testdata/format-%d.db.gz", &version); err != nil {
			t.Fatal(err)
		}
		t.Run(fmt.Sprint(version), func(t *testing.T) {
			path := unpackFormat(t, version)
			if version == schema.Version || slices.Contains(releasedFormats, version) {
				wantContinued(t, path)
				tamper(t, path, fmt.Sprintf("PRAGMA user_version = %d", schema.Version+1)) // an older program's view of a newer file
				_, err := Open(t.Context(), path)
				wantError(t, err, fmt.Sprintf("version %d", schema.Version+1), "use the sandboxmcp that wrote it")
				return
			}
			before, _ := os.ReadFile(path)
			_, err := Open(t.Context(), path)
			wantError(t, err, fmt.Sprintf("version %d", version), "no release", "move it")
			if after, _ := os.ReadFile(path); !bytes.Equal(before, after) {
				t.Error("the file was changed")
			}
		})
	}
}

// wantContinued reads a recorded log, verifies it, and appends to it.
func wantContinued(t *testing.T, path string) {
	t.Helper()
	o := VerifyOptions{Keys: keys('a')}
	if r := verify(t, path, o); r.Bad != nil || r.Rows != int64(len(formatRows)) || r.Checkpoint == nil || !r.Checkpoint.Signed ||
		r.Unsigned != 0 {
		t.Errorf("as it was recorded: %+v, bad %+v", r, r.Bad)
	}
	l := openSigned(t, path, signing(2))
	var kinds []string
	for _, row := range collect(t, l, Filter{}) {
		kinds = append(kinds, row.Kind)
		if !strings.Contains(string(row.Data), "ümläut") || row.Namespace != "default" || row.Run == "" {
			t.Errorf("row %d is %+v", row.Seq, row)
		}
	}
	slices.Sort(kinds)
	if want := slices.Sorted(slices.Values(formatRows)); !slices.Equal(kinds, want) {
		t.Errorf("rows are %q, want %q", kinds, want)
	}
	if receipt, err := l.Receipt(t.Context(), "01ARZ3NDEKTSV4RRFFQ69G5FAV"); err != nil || string(receipt) != `{"payload":"e30="}` {
		t.Errorf("the receipt is %s, %v", receipt, err)
	}
	fill(t, l, 3)
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if r := verify(t, path, o); r.Bad != nil || r.Rows != int64(len(formatRows))+3 || r.Unsigned != 0 {
		t.Errorf("continued: %+v, bad %+v", r, r.Bad)
	}
}
