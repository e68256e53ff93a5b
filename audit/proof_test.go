package audit

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/sandboxmcp/sandboxmcp/audit/checkpoint"
	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
)

var update = flag.Bool("update", false, "write golden files anew")

func TestProof(t *testing.T) {
	path := logPath(t)
	l := openSigned(t, path, signing(100))
	for _, n := range []int{1, 254, 2, 256, 1, 800, 37} {
		fillFast(t, l, n)
	}
	hosttest.Until(t, "hundreds of rows are signed", func() bool {
		c, _, err := newestCheckpoint(t.Context(), l.active.Load().db)
		return err == nil && c.Size >= 1314
	})
	for _, seq := range []int64{1, 2, 3, 255, 256, 257, 512, 513, 514, 1000, 1024, 1025, 1314, 1350, 1351} {
		text, err := l.Proof(t.Context(), fmt.Sprint(seq))
		if err != nil {
			t.Fatal(err)
		}
		p, err := CheckProof(text, keys('b', 'a'))
		if err != nil || p.Row.Seq != seq || p.Size < max(seq, 1314) {
			t.Errorf("row %d: got %+v, %v", seq, p, err)
		}
		if err := referenceCheck(text, keys('a')[0].PublicKey); err != nil {
			t.Errorf("row %d: x/mod says %v", seq, err)
		}
	}
	text, err := l.Proof(t.Context(), "r6")
	if p, checkErr := CheckProof(text, keys('a')); err != nil || checkErr != nil || p.Row.Run != "r6" || receiptHash(p.Row.Data) == nil {
		t.Errorf("of a run: got %+v, %v, %v", p, err, checkErr)
	}
	for id, want := range map[string]string{"0": "no row 0", "1352": "no row 1352", "-1": "no row -1", "": "no entry for it",
		"none": "no entry for it", "9223372036854775807": "no row"} {
		_, err := l.Proof(t.Context(), id)
		wantError(t, err, want)
	}
	// Without a key, it needs a checkpoint that was signed before.
	reader := openLog(t, path)
	if _, err := reader.Proof(t.Context(), "7"); err != nil {
		t.Error(err)
	}
	fill(t, reader, 1)
	_, err = reader.Proof(t.Context(), "1352")
	wantError(t, err, "not signed yet")
}

// referenceCheck checks a proof with golang.org/x/mod only, like a reader that only knows the formats.
func referenceCheck(text []byte, key ed25519.PublicKey) error {
	head, msg, _ := strings.Cut(string(text), "\n\n")
	lines := strings.Split(head, "\n")
	origin, _, _ := strings.Cut(msg, "\n")
	vkey, err := note.NewEd25519VerifierKey(origin, key)
	if err != nil {
		return err
	}
	v, err := note.NewVerifier(vkey)
	if err != nil {
		return err
	}
	n, err := note.Open([]byte(msg), note.VerifierList(v))
	if err != nil {
		return err
	}
	// x/mod's own parser accepts one first line only.
	tree, err := tlog.ParseTree([]byte("go.sum database tree\n" + strings.Join(strings.SplitN(n.Text, "\n", 2)[1:], "")))
	if err != nil {
		return err
	}
	index, err := strconv.ParseInt(strings.TrimPrefix(lines[2], "index "), 10, 64)
	if err != nil {
		return err
	}
	var p tlog.RecordProof
	for _, line := range lines[3:] {
		h, err := tlog.ParseHash(line)
		if err != nil {
			return err
		}
		p = append(p, h)
	}
	extra, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(lines[1], "extra "))
	if err != nil {
		return err
	}
	var r Row
	if err := json.Unmarshal(extra, &r); err != nil {
		return err
	}
	hash := hashRow(r)
	return tlog.CheckRecord(p, tree.N, tree.Hash, index, tlog.RecordHash(hash[:]))
}

// goldenProof proves row 2 of a log of three rows in which every byte is fixed.
func goldenProof(t testing.TB) []byte {
	t.Helper()
	l := openSigned(t, logPath(t), signing(0))
	l.now = func() time.Time { return time.Date(2030, 5, 1, 12, 0, 0, 123456789, time.UTC) }
	for i, kind := range []string{"execution.started", "execution.completed", "execution.started"} {
		e := Entry{Kind: kind, Run: "01K9ZB5W7Q3M8Y2D4F6H8J0K2M", Namespace: "default", Data: map[string]string{"name": "<späße>"}}
		if i == 1 {
			e.Receipt = []byte(`{"payload":""}`)
		}
		if _, err := l.Append(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := l.Checkpoint(t.Context()); err != nil { // otherwise one that covers two rows may be the newest
		t.Fatal(err)
	}
	text, err := l.Proof(t.Context(), "2")
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestProofIsFixed: others read the format: if it changed, stored proofs could not be verified any more.
func TestProofIsFixed(t *testing.T) {
	const golden = "testdata/row2.tlog-proof"
	got := goldenProof(t)
	if *update {
		if err := os.WriteFile(golden, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s\n%v", got, want, err)
	}
	if p, err := CheckProof(want, keys('a')); err != nil || p.Row.Seq != 2 || p.Size != 3 {
		t.Errorf("got %+v, %v", p, err)
	}
}

func TestCheckProofRefuses(t *testing.T) {
	good := string(goldenProof(t))
	edit := func(old, new string) string {
		s := strings.Replace(good, old, new, 1)
		if s == good {
			t.Fatalf("%q is not in it", old)
		}
		return s
	}
	lines := strings.Split(good, "\n")
	extra := strings.TrimPrefix(lines[1], "extra ")
	row, err := base64.StdEncoding.DecodeString(extra)
	if err != nil {
		t.Fatal(err)
	}
	with := func(old, new string) string {
		edited := bytes.Replace(row, []byte(old), []byte(new), 1)
		if bytes.Equal(edited, row) {
			t.Fatalf("%q is not in %s", old, row)
		}
		return edit(extra, base64.StdEncoding.EncodeToString(edited))
	}
	var forged Row
	if err := json.Unmarshal(row, &forged); err != nil {
		t.Fatal(err)
	}
	forged.Namespace = "evil"
	hash := hashRow(forged)
	forged.Hash = fmt.Sprintf("%x", hash)
	b, _ := json.Marshal(forged)
	for name, test := range map[string]struct {
		text string
		keys []checkpoint.Key
		want string
	}{
		"nothing":              {"", keys('a'), "not a tlog-proof"},
		"another version":      {edit("@v1", "@v2"), keys('a'), "not a tlog-proof"},
		"no key":               {good, nil, "public key is needed"},
		"another key":          {good, keys('b'), "no known key"},
		"row edited":           {with("default", "Default"), keys('a'), "row 2 in it was edited"},
		"row spelled anew":     {with(`"kind":`, ` "kind":`), keys('a'), "not a row"},
		"row with a key twice": {with(`"kind":`, `"kind":"x","kind":`), keys('a'), "not a row"},
		"row with more":        {with(`"kind":`, `"x":1,"kind":`), keys('a'), "not a row"},
		"row edited, rehashed": {edit(extra, base64.StdEncoding.EncodeToString(b)), keys('a'), "not the one that its checkpoint covers"},
		"another index":        {edit("index 1", "index 0"), keys('a'), "index is not that of row 2"},
		"odd index":            {edit("index 1", "index 01"), keys('a'), "index"},
		"a hash lost":          {edit(lines[3]+"\n", ""), keys('a'), "not the one that its checkpoint covers"},
		"hashes swapped":       {edit(lines[3]+"\n"+lines[4], lines[4]+"\n"+lines[3]), keys('a'), "not the one that its checkpoint covers"},
		"a hash more":          {edit(lines[4], lines[4]+"\n"+lines[4]), keys('a'), "not the one that its checkpoint covers"},
		"no hash":              {edit(lines[3], "x"), keys('a'), "not a hash"},
		"many hashes":          {edit(lines[3], strings.Repeat(lines[3]+"\n", 100)+lines[3]), keys('a'), "needs 63"},
		"no extra":             {edit(lines[1]+"\n", ""), keys('a'), "no row"},
		"size edited":          {edit("\n3\n", "\n4\n"), keys('a'), "signature does not match"},
		"size before the row":  {edit("\n3\n", "\n1\n"), keys('a'), "signature does not match"},
		"no checkpoint":        {good[:strings.Index(good, "\n\n")], keys('a'), "no checkpoint"},
		"half a checkpoint":    {good[:len(good)-3], keys('a'), "not a signed checkpoint"},
	} {
		_, err := CheckProof([]byte(test.text), test.keys)
		t.Run(name, func(t *testing.T) { wantError(t, err, test.want) })
	}
	for range 2000 { // any single byte
		i := rand.IntN(len(good))
		changed := []byte(good)
		changed[i] ^= 1 << rand.IntN(8)
		if _, err := CheckProof(changed, keys('a')); err == nil {
			t.Fatalf("byte %d changed from %q to %q went unnoticed:\n%s", i, good[i], changed[i], changed)
		}
	}
}

// FuzzCheckProof: invalid proofs are errors, never a crash, and a proof of anything other than row 2 would be a
// forgery.
func FuzzCheckProof(f *testing.F) {
	good, err := os.ReadFile("testdata/row2.tlog-proof")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add([]byte(proofHead + "index 0\n\n\n"))
	f.Add([]byte(proofHead + "extra e30=\nindex 0\n\nx\n1\n\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		p, err := CheckProof(text, keys('a'))
		if err == nil && (p.Row.Seq != 2 || p.Row.Kind != "execution.completed" || p.Size != 3) {
			t.Fatalf("%+v was proven by\n%s", p, text)
		}
		parseProof(text)
		checkpoint.Open(text, keys('a'))
	})
}
