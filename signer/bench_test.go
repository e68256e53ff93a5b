package signer

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

func BenchmarkCollect(b *testing.B) {
	large := strings.Repeat("0123456789abcdef", 64<<20/16)
	search := func(r io.Reader) (bool, error) {
		_, err := io.Copy(io.Discard, r)
		return false, err
	}
	for _, c := range []struct {
		name    string
		files   int
		content string
		o       Options
		save    bool
	}{
		{name: "1 small", files: 1, content: "result\n"},
		{name: "1 small, saved", files: 1, content: "result\n", save: true},
		{name: "1000 small", files: 1000, content: "result\n"},
		{name: "1000 small, saved", files: 1000, content: "result\n", save: true},
		{name: "100000 of which 1000 fit", files: 100_000, content: "result\n"},
		{name: "64 MB", files: 1, content: large},
		{name: "64 MB, saved", files: 1, content: large, save: true},
		{name: "64 MB, searched and saved", files: 1, content: large, save: true, o: Options{ContainsSecret: search}},
	} {
		b.Run(c.name, func(b *testing.B) {
			files := make([]File, c.files)
			for i := range files {
				files[i] = file(fmt.Sprintf("out/%d", i), c.content)
			}
			dir := b.TempDir()
			b.SetBytes(int64(min(c.files, DefaultMaxCount) * len(c.content)))
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if c.save { // a new directory: replacing files costs some file systems a flush
					c.o.Dir = directoryAt(b, filepath.Join(dir, strconv.Itoa(i)))
				}
				if _, err := Collect(context.Background(), sourceOf(files...), c.o); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
