package audit

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestOpenDamaged: reading a damaged file returns all rows except those in damaged pages, which are named, and the
// file is not changed.
func TestOpenDamaged(t *testing.T) {
	path, rows := signedLog(t)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	const page = 4096
	for name, test := range map[string]struct {
		damage func(b []byte) []byte
		least  int    // minimum number of rows
		says   string // the error; "" is none
	}{
		"whole":       {func(b []byte) []byte { return b }, len(rows), ""},
		"cut":         {func(b []byte) []byte { return b[:len(b)*3/4/page*page] }, len(rows) / 2, "can't be read: all from "},
		"cut in page": {func(b []byte) []byte { return b[:len(b)*3/4/page*page+99] }, len(rows) / 2, "can't be read: all from "},
		"two pages": {func(b []byte) []byte {
			for _, n := range []int{len(b) / page / 2, len(b) / page * 2 / 3} {
				copy(b[n*page:], bytes.Repeat([]byte{0xa5}, page))
			}
			return b
		}, len(rows) - 300, "these rows can't be read: "},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "old.db")
			damaged := test.damage(bytes.Clone(whole))
			if err := os.WriteFile(file, damaged, 0o600); err != nil {
				t.Fatal(err)
			}
			l, err := OpenDamaged(t.Context(), file)
			if err != nil {
				t.Fatal(err)
			}
			missing, n := map[int64]bool{}, 0
			for _, r := range rows {
				missing[r.Seq] = true
			}
			for r, rowErr := range l.Rows(t.Context(), Filter{}) {
				if err = rowErr; err == nil {
					n++
					delete(missing, r.Seq)
					if r.Hash != rows[r.Seq-1].Hash || !bytes.Equal(r.Data, rows[r.Seq-1].Data) {
						t.Errorf("row %d is another one", r.Seq)
					}
				}
			}
			if n < test.least || (err == nil) != (len(missing) == 0) || test.says != "" &&
				(err == nil || !strings.Contains(err.Error(), test.says)) {
				t.Errorf("%d rows, without %d, and the error %v; want at least %d, and %q", n, len(missing), err, test.least, test.says)
			}
			for seq := range missing {
				if gap := fmt.Sprint(seq); !missing[seq-1] && !strings.Contains(err.Error(), gap) {
					t.Errorf("row %d is missing, and %v does not name it", seq, err)
				}
			}
			if err := l.Close(); err != nil {
				t.Error(err)
			}
			if now, _ := os.ReadFile(file); !bytes.Equal(now, damaged) {
				t.Error("the file was changed")
			}
			if files, _ := os.ReadDir(filepath.Dir(file)); len(files) != 1 {
				t.Errorf("left beside it: %v", files)
			}
		})
	}
}
