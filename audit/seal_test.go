package audit

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// sealedLog is a closed log with 1,000 rows of which 700 are sealed in two segments, and some rows after
// that. rows are all of them.
func sealedLog(t testing.TB) (path string, rows []Row) {
	t.Helper()
	path = logPath(t)
	l := openSigned(t, path, signing(100))
	at := time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC) // before today, when tests go on
	l.now = func() time.Time {
		at = at.Add(time.Minute / 1500) // all are signed in time
		return at
	}
	for range 10 {
		fillFast(t, l, 100)
	}
	for _, until := range []int{300, 700} {
		all := collect(t, l, Filter{Sealed: true})
		segments, err := l.Seal(t.Context(), all[until].Time)
		if err != nil || len(segments) != 1 || segments[0].Last != int64(until) {
			t.Fatal(segments, err)
		}
	}
	fillFast(t, l, 20)
	rows = collect(t, l, Filter{Sealed: true})
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return path, rows
}

// copySealed copies a log with all that is beside it.
func copySealed(t testing.TB, from string) (to string) {
	t.Helper()
	to = logPath(t)
	if err := os.CopyFS(filepath.Dir(to), os.DirFS(filepath.Dir(from))); err != nil {
		t.Fatal(err)
	}
	return to
}

// unpack returns the lines of a segment file.
func unpack(t testing.TB, file string) []string {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")
}

func repack(t testing.TB, file string, lines []string) {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	for _, line := range lines {
		fmt.Fprintln(z, line)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
}

func segmentFiles(t testing.TB, path string) []string {
	t.Helper()
	files, err := filepath.Glob(path + "-segments/*")
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// A segment file from anybody costs the memory of hashes, whatever texts are in its rows.
func TestSegmentRowsAreSmall(t *testing.T) {
	path, _ := sealedLog(t)
	sealings := 0
	for _, file := range segmentFiles(t, path) {
		f, err := os.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		c, err := readSegmentRows(f)
		if err != nil || c.bad != nil {
			t.Fatal(err, c.bad)
		}
		for _, r := range c.rows {
			if r.Kind == sealedKind {
				sealings++
			} else if text := r.Kind + r.Run + r.Namespace + string(r.Data); text != "" {
				t.Fatalf("row %d keeps %q", r.Seq, text)
			}
		}
	}
	t.Log(sealings, "sealings")
}

func TestSeal(t *testing.T) {
	path, rows := sealedLog(t)
	r := wantSigned(t, path, 1022, 'a')
	if len(r.Segments) != 2 || !r.Segments[0].Here || len(r.Remarks) != 0 {
		t.Errorf("got segments %+v, remarks %q", r.Segments, r.Remarks)
	}
	if len(rows) != 1022 {
		t.Fatalf("got %d rows", len(rows))
	}
	for i, row := range rows {
		if row.Seq != int64(i+1) {
			t.Fatalf("row %d stands at place %d", row.Seq, i+1)
		}
	}
	l := openSigned(t, path, signing(100))
	if got := collect(t, l, Filter{}); len(got) != 322 || got[0].Seq != 701 {
		t.Errorf("in the database: %d rows from %d on", len(got), got[0].Seq)
	}
	files := segmentFiles(t, path)
	if len(files) != 2 || filepath.Base(files[1]) != "00000000000000000301-00000000000000000700.jsonl.gz" {
		t.Errorf("files %q", files)
	}
	for _, f := range files {
		if info, err := os.Stat(f); err != nil || info.Mode() != 0o600 {
			t.Error(info.Mode(), err)
		}
	}
	if info, err := os.Stat(path + "-segments"); err != nil || info.Mode().Perm() != 0o700 {
		t.Error(info.Mode(), err)
	}
	// The triggers are back.
	_, err := l.db.Exec("DELETE FROM audit WHERE seq = 701")
	wantError(t, err, "append-only")
	_, err = l.db.Exec("DELETE FROM receipts")
	wantError(t, err, "append-only")
	// Numbers go on, also where all but the newest row are sealed.
	if _, err := l.Seal(t.Context(), time.Now().AddDate(100, 0, 0)); err != nil {
		t.Fatal(err)
	}
	if got := fill(t, l, 1); got[0].Seq != 1024 {
		t.Errorf("the next row is number %d", got[0].Seq)
	}
	if s, err := l.Seal(t.Context(), time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)); err != nil || s != nil {
		t.Errorf("sealed %v, %v", s, err)
	}
	l.Close()
	wantSigned(t, path, 1024, 'a')
	_, err = openLog(t, path).Seal(t.Context(), time.Now())
	wantError(t, err, "without a key")
}

func TestSealedRows(t *testing.T) {
	path, rows := sealedLog(t)
	l := openLog(t, path)
	for name, f := range map[string]Filter{
		"all":              {},
		"a run":            {Run: "r7"},
		"kinds":            {Kinds: []string{sealedKind, "none"}},
		"a namespace":      {Namespace: "default"},
		"no such":          {Namespace: "none"},
		"namespaces":       {Namespaces: []string{"none", "default"}},
		"no namespaces":    {Namespaces: []string{}},
		"no such ones":     {Namespaces: []string{"none", "defaults"}},
		"since":            {Since: rows[650].Time},
		"until":            {Until: rows[299].Time},
		"until row 1":      {Until: rows[0].Time},
		"after":            {After: 299},
		"after a segment":  {After: 300},
		"after all":        {After: 5000},
		"limit":            {Limit: 10},
		"limit in older":   {Limit: 350},
		"limit in oldest":  {Limit: 900},
		"limit above all":  {Limit: 9000},
		"limit of a run":   {Limit: 3, Run: "r7"},
		"limit and after":  {Limit: 500, After: 600},
		"limit of nothing": {Limit: 5, Run: "x"},
	} {
		f.Sealed = true
		var want []Row
		for _, r := range rows {
			if f.chooses(r) {
				want = append(want, r)
			}
		}
		if f.Limit > 0 {
			want = want[max(0, len(want)-f.Limit):]
		}
		if diff := cmp.Diff(want, collect(t, l, f)); diff != "" {
			t.Errorf("%s: want (-), got (+):\n%s", name, diff)
		}
	}
	n := 0
	for range l.Rows(t.Context(), Filter{Sealed: true}) {
		if n++; n == 5 {
			break
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	n = 0
	for r, err := range l.Follow(ctx, Filter{Sealed: true}, time.Millisecond) {
		if n++; err != nil || r.Seq != int64(n) {
			t.Fatal(r.Seq, n, err)
		}
		if n == len(rows) {
			cancel()
		}
	}
	if err := os.Remove(segmentFiles(t, path)[0]); err != nil {
		t.Fatal(err)
	}
	for r, err := range l.Rows(t.Context(), Filter{Sealed: true}) {
		if err == nil {
			t.Fatal(r)
		}
		wantError(t, err, "rows 1 to 300 are in a sealed segment that is not here")
	}
	if got := collect(t, l, Filter{Sealed: true, After: 300}); len(got) != len(rows)-300 {
		t.Errorf("got %d rows", len(got))
	}
}

func TestSealedMissing(t *testing.T) {
	original, _ := sealedLog(t)
	saved, err := os.ReadFile(original + "-checkpoint")
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name    string
		missing []int
		absent  int64
		remarks []string
	}{
		{"first", []int{0}, 300, []string{"rows 1 to 300 are in a sealed segment that is not here"}},
		{"second", []int{1}, 400, []string{"rows 301 to 700 are in a sealed segment that is not here"}},
		{"both", []int{0, 1}, 700, []string{"rows 1 to 300 are in", "rows 301 to 700 are in"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			path := copySealed(t, original)
			files := segmentFiles(t, path)
			for _, i := range test.missing {
				if err := os.Remove(files[i]); err != nil {
					t.Fatal(err)
				}
			}
			r := verify(t, path, VerifyOptions{Keys: keys('a')})
			if r.Bad != nil || r.Rows != 1022-test.absent || r.Absent != test.absent || r.Unsigned != 0 {
				t.Errorf("%d rows checked, %d not here, %d unsigned, bad %+v", r.Rows, r.Absent, r.Unsigned, r.Bad)
			}
			for i, s := range test.remarks {
				if len(r.Remarks) != len(test.remarks) || !strings.Contains(r.Remarks[i], s) {
					t.Errorf("remarks %q, want %q", r.Remarks, test.remarks)
				}
			}
			if r := verify(t, path, VerifyOptions{Keys: keys('a'), Checkpoints: [][]byte{saved}}); r.Bad != nil {
				t.Errorf("with a kept checkpoint: %+v", r.Bad)
			}
			// It goes on without them.
			l := openSigned(t, path, signing(100))
			fillFast(t, l, 300)
			if _, err := l.Seal(t.Context(), time.Now().AddDate(100, 0, 0)); err != nil {
				t.Fatal(err)
			}
			text, err := l.Proof(t.Context(), "1323")
			if err != nil {
				t.Fatal(err)
			}
			if _, err := CheckProof(text, keys('a')); err != nil {
				t.Error(err)
			}
			lost := test.missing[0]*400 + 5
			_, err = l.Proof(t.Context(), fmt.Sprint(lost))
			wantError(t, err, "are in a sealed segment that is not here")
			l.Close()
			if r := verify(t, path, VerifyOptions{Keys: keys('a')}); r.Bad != nil || r.Rows+r.Absent != 1323 {
				t.Errorf("%d rows checked, %d not here, bad %+v", r.Rows, r.Absent, r.Bad)
			}
		})
	}
}

func TestVerifySegment(t *testing.T) {
	path, rows := sealedLog(t)
	files := segmentFiles(t, path)
	for i, want := range []struct{ first, last int64 }{{1, 300}, {301, 700}} {
		r, err := VerifySegment(files[i], keys('b', 'a'))
		if err != nil || r.Bad != nil || r.Rows != want.last-want.first+1 || r.Checkpoint.Size != want.last || !r.Checkpoint.Signed || r.Head != rows[want.last-1].Hash {
			t.Errorf("%s: %+v, %+v, %v", files[i], r, r.Bad, err)
		}
	}
	_, err := VerifySegment(files[0], keys('b'))
	wantError(t, err, "no known key")
	if r, err := VerifySegment(files[0], nil); err != nil || r.Bad != nil || r.Checkpoint.Signed {
		t.Errorf("with no key: %+v, %v", r.Bad, err)
	}
	if _, err := VerifySegment(filepath.Dir(files[0]), keys('a')); err == nil {
		t.Error("a directory is no segment")
	}
	lines := unpack(t, files[1])
	edit := func(i int, old, new string) []string {
		edited := append([]string{}, lines...)
		if edited[i] = strings.Replace(edited[i], old, new, 1); edited[i] == lines[i] {
			t.Fatalf("%q is not in %s", old, lines[i])
		}
		return edited
	}
	rehashed := append([]string{}, lines...) // the last row, which only the checkpoint vouches for
	var last Row
	if err := json.Unmarshal([]byte(lines[len(lines)-2]), &last); err != nil {
		t.Fatal(err)
	}
	last.Data = json.RawMessage(`{"n":0}`)
	hash := sum(last)
	last.Hash = fmt.Sprintf("%x", hash)
	b, _ := json.Marshal(last)
	rehashed[len(lines)-2] = string(b)
	for name, test := range map[string]struct {
		lines []string
		want  string
	}{
		"edited":                {edit(6, `"n":6}`, `"n":7}`), "edited"},
		"spelled otherwise":     {edit(6, `"n":6}`, `"n": 6}`), "not a whole segment"},
		"a key twice":           {edit(6, `"kind":`, `"kind":"x","kind":`), "not a whole segment"},
		"receipt edited":        {edit(1, `"envelope":"ey`, `"envelope":"fy`), "another receipt"},
		"receipt of another":    {edit(1, `"receipt_of":301`, `"receipt_of":302`), "not a whole segment"},
		"receipt lost":          {append(append([]string{}, lines[:1]...), lines[2:]...), "lost its receipt"},
		"row lost":              {append(append([]string{}, lines[:3]...), lines[4:]...), "is missing"},
		"first row lost":        {lines[2:], "not a whole segment"},
		"checkpoint lost":       {lines[:len(lines)-1], "not a whole segment"},
		"more behind":           {append(append([]string{}, lines...), "x"), "not a whole segment"},
		"last rehashed":         {rehashed, "checkpoint was made over other rows"},
		"tree before edited":    {edit(len(lines)-1, `"before":["`, `"before":["AAAA`), "not a whole segment"},
		"checkpoint for others": {edit(len(lines)-1, `\n700\n`, `\n699\n`), "signature does not match"},
		"half a segment":        {lines[:100], "not a whole segment"},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "x.jsonl.gz")
			repack(t, file, test.lines)
			r, err := VerifySegment(file, keys('a'))
			if err != nil || r.Bad == nil || !strings.Contains(r.Bad.Why, test.want) {
				t.Errorf("got %+v, %v; want %q", r.Bad, err, test.want)
			}
		})
	}
	file := filepath.Join(t.TempDir(), "same.gz")
	repack(t, file, lines)
	if r, err := VerifySegment(file, keys('a')); err != nil || r.Bad != nil {
		t.Errorf("packed again: %+v, %v", r.Bad, err)
	}
}

// A receipt is found wherever its row is.
func TestSealedReceipt(t *testing.T) {
	path := logPath(t)
	l := openSigned(t, path, signing(3))
	for i := range 4 {
		entry := Entry{Kind: "k", Run: fmt.Sprint("r", i), Receipt: fmt.Append(nil, "receipt ", i)}
		if _, err := l.Append(t.Context(), entry); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := l.Seal(t.Context(), time.Now().AddDate(1, 0, 0)); err != nil {
		t.Fatal(err)
	}
	for i := range 4 {
		if got, err := l.Receipt(t.Context(), fmt.Sprint("r", i)); err != nil || string(got) != fmt.Sprint("receipt ", i) {
			t.Errorf("run %d: %q, %v", i, got, err)
		}
	}
	_, err := l.Receipt(t.Context(), "r9")
	wantError(t, err, ErrNoReceipt.Error())
	files := segmentFiles(t, path)
	text, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(files[0], append(text, 0), 0o600); err != nil {
		t.Fatal(err)
	}
	if r, err := VerifySegment(files[0], keys('a')); err == nil && r.Bad == nil {
		t.Error("a byte behind the segment's end was not noticed")
	}
	os.Remove(files[0])
	_, err = l.Receipt(t.Context(), "r0")
	wantError(t, err, "not here")
}
