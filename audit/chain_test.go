package audit

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// decode inverts encode. Its existence proves that no two rows have the same encoding.
func decode(t *testing.T, b []byte) (r Row) {
	t.Helper()
	take := func(n uint64) []byte {
		if uint64(len(b)) < n {
			t.Fatalf("the encoding ends %d bytes early", n-uint64(len(b)))
		}
		head := b[:n]
		b = b[n:]
		return head
	}
	number := func() uint64 { return binary.BigEndian.Uint64(take(8)) }
	text := func() string { return string(take(number())) }

	if got := string(take(uint64(len(hashPrefix)))); got != hashPrefix {
		t.Fatalf("the encoding begins with %q", got)
	}
	r.Prev = hex.EncodeToString(take(hashSize))
	r.Seq = int64(number())
	r.Time = time.Unix(0, int64(number())).UTC()
	r.Kind, r.Run, r.Namespace, r.Data = text(), text(), text(), json.RawMessage(text())
	if len(b) > 0 {
		t.Fatalf("%d bytes are left over", len(b))
	}
	return r
}

func FuzzEncode(f *testing.F) {
	f.Add(int64(1), int64(2), []byte{1}, "kind", "run", "namespace", "{}", 1)
	f.Add(int64(-1), int64(0), []byte{}, "", "", "", "", 0)
	f.Add(int64(0), int64(-1), []byte("\x00\x00\x00\x00\x00\x00\x00\x01a"), "a\x00", "\x00\x00\x00\x00\x00\x00\x00\x01", "ab", "\xff", 3)
	f.Fuzz(func(t *testing.T, seq, nanos int64, prev []byte, kind, run, namespace, data string, shift int) {
		r := Row{Seq: seq, Time: time.Unix(0, nanos).UTC(), Kind: kind, Run: run, Namespace: namespace, Data: json.RawMessage(data)}
		r.Prev = hex.EncodeToString(append(prev, make([]byte, hashSize)...)[:hashSize])
		if diff := cmp.Diff(r, decode(t, encodeRow(r))); diff != "" {
			t.Fatalf("row (-) and what its encoding says (+):\n%s", diff)
		}
		for _, other := range neighbours(r, shift) {
			if !cmp.Equal(r, other) && bytes.Equal(encodeRow(r), encodeRow(other)) {
				t.Fatalf("one encoding for two rows:\n%s", cmp.Diff(r, other))
			}
		}
	})
}

// neighbours returns rows that a careless encoding would not distinguish from r: the same texts, split elsewhere.
func neighbours(r Row, shift int) []Row {
	all := r.Kind + r.Run + r.Namespace + string(r.Data)
	cut := func(n int) (head string) {
		n = min(max(n, 0), len(all))
		head, all = all[:n], all[n:]
		return head
	}
	moved, swapped := r, r
	moved.Kind, moved.Run, moved.Namespace = cut(len(r.Kind)+shift), cut(len(r.Run)-shift), cut(len(r.Namespace))
	moved.Data = json.RawMessage(all)
	swapped.Kind, swapped.Run = r.Run, r.Kind
	return []Row{moved, swapped}
}

// TestHashIsFixed: the encoding is a file format: if it changed, old logs could not be verified any more.
func TestHashIsFixed(t *testing.T) {
	r := Row{
		Seq: 7, Time: time.Unix(1700000000, 123456789), Kind: "execution.started", Run: "01J", Namespace: "default",
		Data: json.RawMessage(`{"a":1}`), Prev: strings.Repeat("ab", hashSize),
	}
	got := hashRow(r)
	const want = "d0546521547a61fb8c780a0aed4fc58bdc7db898f4e64119c8537f58ca540d1a" // from Python's hashlib and struct
	if hex.EncodeToString(got[:]) != want {
		t.Errorf("got %x, want %s", got, want)
	}
}
