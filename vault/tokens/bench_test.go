package tokens

import (
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// texts returns programs' typical output, about 1 MB each, and output designed to be slow.
func texts() map[string]string {
	s := source{rand.New(rand.NewPCG(3, 4))}
	var logs, code, hostile strings.Builder
	for i := 0; logs.Len() < 1_000_000; i++ {
		fmt.Fprintf(&logs, "2026-01-02T15:04:%02d.%03dZ INFO request done path=/api/v1/users/%d?limit=50%%20&sort=name status=200 took=%dms\n",
			i%60, i%1000, s.IntN(1e6), s.IntN(500))
		fmt.Fprintf(&code, "\tif err := s.walk.follow(options.text[%d:], last); err != nil {\n\t\treturn fmt.Errorf(\"parse %%s: %%w\", "+
			"this.name, err) // see https://example.com/a\n\t}\n", i)
		fmt.Fprintf(&hostile, "-eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9_eyJ-glpat-xoxb-github_pat_%d", i)
	}
	return map[string]string{
		"log": logs.String(), "code": code.String(), "hostile": hostile.String(),
		"base64": lines(s.random(1_000_000, std64), "\n"), "base64url": s.random(1_000_000, url64), "hex": s.random(1_000_000, hexes),
		"dashes": strings.Repeat(strings.Repeat("-", 79)+"\n", 12_500), "dots": strings.Repeat("eyJ", 330_000),
		"urls": strings.Repeat("http://a:b", 100_000), "begins": strings.Repeat("-----BEGIN PRIVATE KEY----- ", 36_000),
		"names": strings.Repeat("linear_linear_aws_secret_", 40_000),
	}
}

func BenchmarkWrite(b *testing.B) {
	all := texts()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		text := []byte(all[name])
		for _, mask := range []bool{false, true} {
			b.Run(fmt.Sprintf("%s/mask=%v", name, mask), func(b *testing.B) {
				w := NewWriter(io.Discard, mask, func(string) {})
				b.SetBytes(int64(len(text)))
				b.ReportAllocs()
				for b.Loop() {
					w.Write(text)
				}
			})
		}
	}
}
