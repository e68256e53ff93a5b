package audit

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// Nothing is sealed on top of what was tampered with, receipts too, and all rows stay where they are.
func TestSealRefuses(t *testing.T) {
	for name, test := range map[string]struct{ sql, want string }{
		"a receipt edited": {"DROP TRIGGER receipts_no_update; UPDATE receipts SET envelope = x'00' WHERE seq = 6", "row 6 has another receipt"},
		"a receipt lost":   {"DROP TRIGGER receipts_no_delete; DELETE FROM receipts WHERE seq = 6", "row 6 has lost its receipt"},
		"a receipt added":  {"DROP TRIGGER receipts_at_end; INSERT INTO receipts VALUES (7, x'00')", "row 7 has a receipt of which it says nothing"},
		"a row edited":     {"DROP TRIGGER audit_no_update; UPDATE audit SET data = '{}' WHERE seq = 6", "row 6 was edited"},
	} {
		t.Run(name, func(t *testing.T) {
			path := logPath(t)
			l := openSigned(t, path, signing(100))
			fillFast(t, l, 20)
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			tamper(t, path, test.sql)
			l = openSigned(t, path, signing(100))
			_, err := l.Seal(t.Context(), time.Now().Add(time.Hour))
			wantError(t, err, test.want, "audit verify")
			if got := collect(t, l, Filter{}); len(got) != 20 || len(segmentFiles(t, path)) != 0 {
				t.Errorf("%d rows are left, and files %q", len(got), segmentFiles(t, path))
			}
		})
	}
}

// A disk that writes something else must not get the only copy.
func TestSealReadsBack(t *testing.T) {
	path := logPath(t)
	l := openSigned(t, path, signing(100))
	fillFast(t, l, 30)
	if err := os.Mkdir(l.segmentDir(), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Checkpoint(t.Context()); err != nil {
		t.Fatal(err)
	}
	p, err := l.pack(t.Context(), 1, 20)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.confirm(); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(p.temporary)
	if err != nil {
		t.Fatal(err)
	}
	other, err := l.pack(t.Context(), 1, 19)
	if err != nil {
		t.Fatal(err)
	}
	less, err := os.ReadFile(other.temporary)
	if err != nil {
		t.Fatal(err)
	}
	flipped := slices.Clone(whole)
	flipped[len(flipped)/2] ^= 1
	for name, b := range map[string][]byte{"cut off": whole[:len(whole)-20], "a bit flipped": flipped, "fewer rows": less, "nothing": nil} {
		if err := os.WriteFile(p.temporary, b, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := p.confirm(); err == nil {
			t.Errorf("%s: not noticed", name)
		}
	}
}

// A segment that was moved away hides its own rows and no others, and says so.
func TestSealedElsewhere(t *testing.T) {
	path, rows := sealedLog(t)
	for _, f := range segmentFiles(t, path) {
		if err := os.Remove(f); err != nil {
			t.Fatal(err)
		}
	}
	l := openLog(t, path)
	// Without Missing, what is not needed is no error.
	for name, f := range map[string]Filter{
		"since":      {Since: rows[700].Time},
		"since, few": {Since: rows[700].Time, Limit: 9000},
		"after":      {After: 700},
		"limit":      {Limit: 10},
		"a new run":  {Run: "7ZZZZZZZZZ0000000000000000"},
	} {
		f.Sealed = true
		for _, err := range l.Rows(t.Context(), f) {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	for name, test := range map[string]struct {
		filter  Filter
		missing string
		rows    int
	}{
		"all":      {Filter{}, "1-300 301-700", 322},
		"since":    {Filter{Since: rows[650].Time}, "301-700", 322},
		"until":    {Filter{Until: rows[299].Time}, "1-300", 0},
		"at once":  {Filter{Since: rows[299].Time, Until: rows[300].Time}, "1-300", 0},
		"limit":    {Filter{Limit: 400}, "301-700 1-300", 322},
		"followed": {Filter{After: 300}, "301-700", 322},
	} {
		var missing []string
		f := test.filter
		f.Sealed, f.Missing = true, func(s Segment) { missing = append(missing, fmt.Sprintf("%d-%d", s.First, s.Last)) }
		if got := collect(t, l, f); len(got) != test.rows || strings.Join(missing, " ") != test.missing {
			t.Errorf("%s: %d rows, missing %q; want %d, %q", name, len(got), missing, test.rows, test.missing)
		}
	}
}

func TestBegan(t *testing.T) {
	for run, want := range map[string]time.Time{
		"01ARZ3NDEKTSV4RRFFQ69G5FAV":  time.UnixMilli(1469922850259),
		"00000000000000000000000000":  time.UnixMilli(0),
		"7ZZZZZZZZZZZZZZZZZZZZZZZZZ":  time.UnixMilli(1<<48 - 1),
		"80000000000000000000000000":  {},
		"01ARZ3NDEKTSV4RRFFQ69G5FA":   {},
		"01ARZ3NDEKTSV4RRFFQ69G5FAVX": {},
		"01ARZ3NDEKTSV4RRFFQ69G5FAU":  {},
		"01arz3ndektsv4rrffq69g5fav":  {},
		"":                            {},
	} {
		if got := began(run); !got.Equal(want) {
			t.Errorf("%q: got %v, want %v", run, got, want)
		}
	}
}

func TestQuoted(t *testing.T) {
	for text, want := range map[string]string{
		"abc": "abc", "a\x1b\n": `a\x1b\n`, strings.Repeat("ä", 200): strings.Repeat("ä", 40) + "...", "": "",
	} {
		if got := quoted(text); got != want {
			t.Errorf("%q: got %s, want %s", text, got, want)
		}
	}
}

// A row that is sealed is proven like any other, by its segment alone.
func TestSealedProof(t *testing.T) {
	path, rows := sealedLog(t)
	l := openLog(t, path)
	check := func(id string, want Row) {
		t.Helper()
		text, err := l.Proof(t.Context(), id)
		if err != nil {
			t.Error(err)
			return
		}
		p, err := CheckProof(text, keys('a'))
		if err != nil {
			t.Error(err)
		}
		if diff := cmp.Diff(want, p.Row); diff != "" {
			t.Errorf("%s: want (-), got (+):\n%s", id, diff)
		}
		if err := referenceCheck(text, keys('a')[0].PublicKey); err != nil {
			t.Errorf("%s: x/mod says %v", id, err)
		}
	}
	for _, seq := range []int{1, 2, 255, 256, 257, 299, 300, 301, 302, 511, 512, 513, 699, 700, 701, 1022} {
		check(fmt.Sprint(seq), rows[seq-1])
	}
	newest := map[string]Row{} // of runs that have a receipt, the row with the newest
	for _, r := range rows {
		if receiptHash(r.Data) != nil {
			newest[r.Run] = r
		}
	}
	for _, run := range []string{"r1", "r6", "r96"} { // in the database and in segments
		check(run, newest[run])
	}
	if err := os.Remove(segmentFiles(t, path)[0]); err != nil {
		t.Fatal(err)
	}
	for _, seq := range []int{301, 400, 512, 513, 700, 701} {
		check(fmt.Sprint(seq), rows[seq-1])
	}
	_, err := l.Proof(t.Context(), "300")
	wantError(t, err, "rows 1 to 300 are in a sealed segment that is not here")
	_, err = l.Proof(t.Context(), "none")
	wantError(t, err, "as far as it is here", "rows 1 to 300")
}

// A run that is sealed whole is found, and a segment that was changed is not believed.
func TestSealedRun(t *testing.T) {
	path := logPath(t)
	l := openSigned(t, path, signing(100))
	for i, run := range []string{"A", "B", "A", "B", "C"} {
		e := Entry{Kind: "k", Run: run, Data: map[string]string{"run": "Z"}}
		if i == 1 {
			e.Receipt = []byte("receipt")
		}
		if _, err := l.Append(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := l.Seal(t.Context(), time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	text, err := l.Proof(t.Context(), "A")
	if p, checkErr := CheckProof(text, keys('a')); err != nil || checkErr != nil || p.Row.Seq != 3 {
		t.Errorf("got row %d, %v, %v; want the last of the run, 3", p.Row.Seq, err, checkErr)
	}
	text, err = l.Proof(t.Context(), "B")
	if p, checkErr := CheckProof(text, keys('a')); err != nil || checkErr != nil || p.Row.Seq != 2 {
		t.Errorf("got row %d, %v, %v; want the one with the receipt, 2", p.Row.Seq, err, checkErr)
	}
	if got := collect(t, l, Filter{Run: "Z", Sealed: true}); len(got) != 0 {
		t.Errorf("got %v", got)
	}
	file := segmentFiles(t, path)[0]
	lines := unpack(t, file)
	repack(t, file, append([]string{strings.Replace(lines[0], `"A"`, `"X"`, 1)}, lines[1:]...))
	for _, err := range l.Rows(t.Context(), Filter{Run: "X", Sealed: true}) {
		wantError(t, err, "was changed", "audit verify")
	}
}

// A file from a stranger costs little.
func TestSegmentIsBounded(t *testing.T) {
	w, err := newSegmentWriter(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	prev := strings.Repeat("0", 2*hashSize)
	for seq := range int64(segmentRows + 1) {
		r := Row{Seq: seq + 1, Kind: "k", Time: time.Unix(0, 0).UTC(), Data: []byte("{}"), Prev: prev}
		hash := sum(r)
		r.Hash = fmt.Sprintf("%x", hash)
		prev = r.Hash
		if err := w.row(r, nil); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.finish(endLine{}); err != nil {
		t.Fatal(err)
	}
	r, err := VerifySegment(w.file.Name(), nil)
	if err != nil || r.Bad == nil || r.Bad.Seq != segmentRows+1 || !strings.Contains(r.Bad.Why, "one too many") {
		t.Errorf("got %+v, %v", r.Bad, err)
	}
}

// What is no segment is said to be none, and not to be tampered with.
func TestNoSegment(t *testing.T) {
	dir := t.TempDir()
	junk, text := filepath.Join(dir, "junk"), filepath.Join(dir, "text.gz")
	if err := os.WriteFile(junk, []byte("hello"), 0o600); err != nil {
		t.Fatal(err)
	}
	repack(t, text, []string{"hello"})
	for _, file := range []string{junk, text} {
		if _, err := VerifySegment(file, nil); !errors.Is(err, ErrNoSegment) {
			t.Errorf("%s: %v", file, err)
		}
	}
}

// A kept checkpoint that says nothing about the log is an error about that checkpoint.
func TestExternalNotes(t *testing.T) {
	path, other := logPath(t), logPath(t)
	var notes [][]byte
	for _, p := range []string{path, other} {
		l := openSigned(t, p, signing(100))
		fill(t, l, 3)
		note, err := l.Checkpoint(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		notes = append(notes, note)
	}
	l := openLog(t, path)
	for _, test := range []struct {
		name string
		note []byte
		keys string
		want string
		none bool
	}{
		{"junk", []byte("hello"), "a", "not a signed checkpoint", true},
		{"nothing", nil, "", "not a signed checkpoint", true},
		{"of another log", notes[1], "a", "of another log", false},
		{"edited", []byte(strings.Replace(string(notes[0]), "\n3\n", "\n4\n", 1)), "a", "signature does not match", false},
	} {
		_, err := l.Verify(t.Context(), VerifyOptions{Keys: keys([]byte(test.keys)...), Checkpoints: [][]byte{notes[0], test.note}})
		var bad *NoteError
		if !errors.As(err, &bad) || bad.Index != 1 || !strings.Contains(err.Error(), test.want) || errors.Is(err, ErrNoNote) != test.none {
			t.Errorf("%s: %v", test.name, err)
		}
	}
	// What is wrong with the log itself is worth more than that.
	tamper(t, path, append(slices.Clone(dropTriggers), "UPDATE audit SET data = '{}' WHERE seq = 2", triggers("", ""))...)
	r, err := l.Verify(t.Context(), VerifyOptions{Keys: keys('a'), Checkpoints: notes[1:]})
	if err != nil || r.Bad == nil || r.Bad.Seq != 2 {
		t.Errorf("got %+v, %v", r.Bad, err)
	}
}
