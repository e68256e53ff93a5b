package vault

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	unknown "github.com/sandboxmcp/sandboxmcp/vault/tokens"
)

// randomSecrets returns values that look like keys and passwords of 16 to 60 characters.
func randomSecrets() []string {
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

// texts returns typical program output, about 1 MB each.
func texts(values []string) map[string][]byte {
	r := rand.New(rand.NewPCG(3, 4))
	noise := make([]byte, 750_000)
	for i := range noise {
		noise[i] = byte(r.Uint32())
	}
	var logs, mixed strings.Builder
	for i := 0; logs.Len() < 1_000_000; i++ {
		line := fmt.Sprintf("2026-01-02T15:04:%02d.%03dZ INFO request done path=/api/v1/users/%d?limit=50%%20&sort=name status=200 took=%dms\n",
			i%60, i%1000, r.IntN(1e6), r.IntN(500))
		logs.WriteString(line)
		if mixed.Len() < 1_000_000 {
			mixed.WriteString(line)
			if i%10 == 0 {
				mixed.WriteString(values[r.IntN(len(values))])
			}
		}
	}
	prose, err := os.ReadFile("README.md")
	if err != nil {
		panic(err)
	}
	var records bytes.Buffer
	for out := json.NewEncoder(&records); records.Len() < 1_000_000; {
		out.Encode(map[string]any{"id": r.IntN(1e6), "name": "Ada Lovelace", "price": r.Float64(), "tags": []string{"new", "sale"},
			"url":  "https://example.com/a?b=c&d",
			"note": "the \"second\" line\nis longer", "address": map[string]any{"street": "12, rue de l'Été", "city": "Paris", "ok": true}})
	}
	return map[string][]byte{
		"text":      bytes.Repeat(prose, 1_000_000/len(prose)),
		"log":       []byte(logs.String()),
		"records":   records.Bytes(),
		"dashes":    []byte(strings.Repeat(strings.Repeat("-", 79)+"\n", 12_500)),
		"blanks":    bytes.Repeat([]byte(" "), 1_000_000),
		"lines":     bytes.Repeat([]byte("\n"), 1_000_000),
		"slashes":   bytes.Repeat([]byte(`\`), 1_000_000),
		"percents":  bytes.Repeat([]byte("%"), 1_000_000),
		"ands":      bytes.Repeat([]byte("&am"), 333_333),
		"digits":    []byte(strings.Repeat("0101101 ", 125_000)),
		"begins":    []byte(strings.Repeat(values[0][:7]+" ", 125_000)),
		"all begin": []byte(strings.Repeat(values[0][:len(values[0])-1]+" ", 1_000_000/len(values[0]))),
		"base64":    []byte(fold(base64.StdEncoding.EncodeToString(noise), 76, "\n")),
		"hex":       []byte(hex.EncodeToString(noise[:500_000])),
		"binary":    noise,
		"json":      []byte(strings.Repeat(`{"a":"\u00e4\n\\","b":[1,2,3]}`, 30_000)),
		"secrets":   []byte(strings.Repeat(strings.Join(values, "\n"), 250)),
		"1% secret": []byte(mixed.String()),
	}
}

func BenchmarkWrite(b *testing.B) {
	values := randomSecrets()
	for name, text := range texts(values) {
		for _, n := range []int{1, 100} {
			b.Run(fmt.Sprintf("%s/%d", name, n), func(b *testing.B) {
				l := lease(b, values[:n]...)
				w := l.Writer(io.Discard)
				b.SetBytes(int64(len(text)))
				b.ReportAllocs()
				for b.Loop() {
					for p := range slices.Chunk(text, 32<<10) {
						w.Write(p)
					}
				}
			})
		}
	}
}

// BenchmarkWriteThrough measures a run's output: redaction, followed by the search for tokens that are in no vault.
func BenchmarkWriteThrough(b *testing.B) {
	values := randomSecrets()
	all := texts(values)
	for _, name := range []string{"text", "log", "records", "json"} {
		b.Run(name, func(b *testing.B) {
			w := lease(b, values...).Writer(unknown.NewWriter(io.Discard, false, func(string) {}))
			b.SetBytes(int64(len(all[name])))
			for b.Loop() {
				for p := range slices.Chunk(all[name], 32<<10) {
					w.Write(p)
				}
			}
		})
	}
}

func BenchmarkLease(b *testing.B) {
	values := randomSecrets()
	for _, n := range []int{1, 10, 100} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				lease(b, values[:n]...).Close()
			}
		})
	}
}

// BenchmarkFirstByte measures the cost of the first byte of text.
func BenchmarkFirstByte(b *testing.B) {
	values := randomSecrets()
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
