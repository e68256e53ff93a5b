package kernel

import (
	"bytes"
	"encoding/binary"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestCutter writes a stream split at each possible place.
func TestCutter(t *testing.T) {
	old, now := newMark(), newMark()
	for _, c := range []struct{ name, stream, cell, after string }{
		{"nothing", "\x00" + now + "\x00", "", ""},
		{"around", "before\x00" + now + "\x00after", "before", "after"},
		{"a mark that was given up", "be\x00" + old + "\x00fore\x00" + now + "\x00after", "before", "after"},
		{"nearly a mark", "\x00" + now[:31] + "\x00\x00" + now + "\x00", "\x00" + now[:31] + "\x00", ""},
		{"a mark without end", "\x00" + now + "x\x00" + now + "\x00", "\x00" + now + "x", ""},
		{"a mark twice", "\x00" + now + "\x00\x00" + now + "\x00", "", "\x00" + now + "\x00"},
		{"zeros", strings.Repeat("\x00", 100) + now + "\x00" + strings.Repeat("\x00", 100), strings.Repeat("\x00", 99),
			strings.Repeat("\x00", 100)},
	} {
		t.Run(c.name, func(t *testing.T) {
			for at := range len(c.stream) + 1 {
				k := &cutter{}
				k.startCell(old, nil)
				k.endCell()
				var cell bytes.Buffer
				k.startCell(now, &cell)
				k.Write([]byte(c.stream[:at]))
				k.Write([]byte(c.stream[at:]))
				select {
				case <-k.reached:
				default:
					t.Errorf("split at %d: the mark was not seen", at)
				}
				k.endCell()
				k.release()
				if cell.String() != c.cell || k.betweenText() != c.after {
					t.Errorf("split at %d: got %q and %q, want %q and %q", at, cell.String(), k.betweenText(), c.cell, c.after)
				}
			}
		})
	}
}

// TestCutterGivesUp waits for a mark that never comes.
func TestCutterGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var cell bytes.Buffer
		k := &cutter{}
		mark := newMark()
		k.startCell(mark, &cell)
		k.Write([]byte("text\x00" + mark[:5]))
		began := time.Now()
		k.waitForMark(nil)
		if took := time.Since(began); took != markTimeout {
			t.Errorf("it took %v", took)
		}
		k.endCell()
		k.Write([]byte(mark[5:] + "\x00late"))
		if cell.String() != "text" || k.betweenText() != "late" {
			t.Errorf("got %q and %q", cell.String(), k.betweenText())
		}
	})
}

// FuzzCutter splits any stream anywhere: only marks are removed.
func FuzzCutter(f *testing.F) {
	f.Add([]byte("a\x00b"), []byte("\x00"), 3)
	f.Add([]byte{0, 0, 0}, []byte{}, 0)
	f.Fuzz(func(t *testing.T, before, after []byte, size int) {
		mark := strings.Repeat("0f", 16)
		whole := "\x00" + mark + "\x00"
		if bytes.Contains(append(append([]byte{}, before...), whole[:len(whole)-1]...), []byte(whole)) || len(after) > betweenMax {
			return // before contains a mark, or forms one with the start of the true mark
		}
		stream := append(append(append([]byte{}, before...), whole...), after...)
		size = min(max(size, 1), 64)
		var cell bytes.Buffer
		k := &cutter{}
		k.startCell(mark, &cell)
		for len(stream) > 0 {
			n := min(size, len(stream))
			k.Write(stream[:n])
			stream = stream[n:]
		}
		k.release()
		if !bytes.Equal(cell.Bytes(), before) || k.betweenText() != string(after) {
			t.Errorf("got %q and %q, want %q and %q", cell.Bytes(), k.betweenText(), before, after)
		}
	})
}

// FuzzFrame decodes frames that any program may have written.
func FuzzFrame(f *testing.F) {
	for _, text := range []string{`{"op":"ready","version":"3"}`, `{"op":"done","id":1,"value":{"a":"b"},"exit":7}`, `{"vars":[{}]}`, `[`,
		``} {
		frame := binary.BigEndian.AppendUint32(nil, uint32(len(text)))
		f.Add(append(frame, text...))
	}
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, '{'})
	f.Fuzz(func(t *testing.T, data []byte) {
		r := bytes.NewReader(data)
		if _, err := readFrame(r, jsonCodec{}, func() error { return nil }); err == nil && r.Len() == len(data) {
			t.Error("a frame out of nothing")
		}
	})
}
