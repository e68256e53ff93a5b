package vault

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
)

// hundred returns values that look like keys and passwords of 16 to 60 characters.
func hundred() []string {
	r := rand.New(rand.NewPCG(1, 2))
	const alphabet = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"
	values := make([]string, 100)
	for i := range values {
		v := make([]byte, 16+r.IntN(45))
		for j := range v {
			v[j] = alphabet[r.IntN(len(alphabet))]
		}
		values[i] = string(v)
	}
	return values
}

// texts are what programs print, about 1 MB each.
func texts(values []string) map[string][]byte {
	r := rand.New(rand.NewPCG(3, 4))
	noise := make([]byte, 750_000)
	for i := range noise {
		noise[i] = byte(r.Uint32())
	}
	var logs, mixed strings.Builder
	for i := 0; logs.Len() < 1_000_000; i++ {
		line := fmt.Sprintf("2026-01-02T15:04:%02d.%03dZ INFO request done path=/api/v1/users/%d?limit=50%%20&sort=name status=200 took=%dms\n", i%60, i%1000, r.IntN(1e6), r.IntN(500))
		logs.WriteString(line)
		if mixed.Len() < 1_000_000 {
			mixed.WriteString(line)
			if i%10 == 0 {
				mixed.WriteString(values[r.IntN(len(values))])
			}
		}
	}
	return map[string][]byte{
		"log":       []byte(logs.String()),
		"base64":    []byte(fold(base64.StdEncoding.EncodeToString(noise), 76, "\n")),
		"hex":       []byte(hex.EncodeToString(noise[:500_000])),
		"binary":    noise,
		"json":      []byte(strings.Repeat(`{"a":"\u00e4\n\\","b":[1,2,3]}`, 30_000)),
		"secrets":   []byte(strings.Repeat(strings.Join(values, "\n"), 250)),
		"1% secret": []byte(mixed.String()),
	}
}

func BenchmarkWrite(b *testing.B) {
	values := hundred()
	for name, text := range texts(values) {
		for _, n := range []int{1, 100} {
			b.Run(fmt.Sprintf("%s/%d", name, n), func(b *testing.B) {
				l := lease(b, values[:n]...)
				w := l.Writer(io.Discard)
				b.SetBytes(int64(len(text)))
				b.ReportAllocs()
				for b.Loop() {
					for p := range chunks(text, 32<<10) {
						w.Write(p)
					}
				}
			})
		}
	}
}

func BenchmarkLease(b *testing.B) {
	values := hundred()
	for _, n := range []int{1, 10, 100} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				lease(b, values[:n]...).Close()
			}
		})
	}
}

// BenchmarkFirstByte is what the first byte of text costs.
func BenchmarkFirstByte(b *testing.B) {
	values := hundred()
	for _, n := range []int{1, 10, 100} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				l := lease(b, values[:n]...)
				l.Redact("x")
				l.Close()
			}
		})
	}
}
