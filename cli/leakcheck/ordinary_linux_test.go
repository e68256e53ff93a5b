package leakcheck

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/run"
)

// ordinaryOutput returns ordinary output: source code, logs, numbers, documents, tables, and text that only resembles secrets.
func ordinaryOutput(t *testing.T) string {
	t.Helper()
	dice := rand.New(rand.NewPCG(3, 4))
	var out strings.Builder
	for _, pattern := range []string{"*.go", "testdata/*", "../../*/*.go", "../../*/*/*.go", "../../*.md", "../../backends/kernel/*/*",
		"../../mcp/testdata/*.json"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 && !strings.HasSuffix(pattern, ".md") {
			t.Fatalf("%s: %v, %d files", pattern, err, len(files))
		}
		for _, name := range files {
			if text, err := os.ReadFile(name); err == nil && len(text) < 100<<10 {
				out.Write(text)
			}
		}
	}
	const common = "true false null password secret token key admin root localhost 127.0.0.1 default example user test AKIA ghp_ sk_live_ " +
		"xoxb- Bearer postgres://app: -----BEGIN PRIVATE KEY-----"
	words := strings.Fields(common)
	m := mint{t, dice}
	for i := range hosttest.Rounds(5_000, 20_000) {
		word := words[dice.IntN(len(words))]
		switch i % 10 {
		case 0:
			fmt.Fprintf(&out, "2026-01-02T03:04:%02d.%06dZ INFO [%s] request id=%s took %dms\n", i%60, dice.IntN(1e6), word, m.randomText(hexes, 32),
				dice.IntN(900))
		case 1:
			fmt.Fprintf(&out, "%d,%.6f,%q,%s\n", i, dice.Float64()*1e6, word, m.randomText(digits, 12))
		case 2:
			fmt.Fprintf(&out, `{"id":%d,"name":%q,"hash":"%s","nested":{"list":[1,2,3,null,true],"text":"\u00e9\n%s"}}`+"\n", i, word,
				m.randomText(hexes, 64), word)
		case 3:
			fmt.Fprintf(&out, "\x1b[1m│\x1b[0m \x1b[32m%-12s\x1b[0m │ %10d │ %s\n", word, dice.IntN(1e9), strings.Repeat("─", 20))
		case 4:
			fmt.Fprintf(&out, "<td>%s &amp; &#233; &lt;%d&gt;</td> %%20 %%C3%%A9 =3D =\n", word, i)
		case 5:
			fmt.Fprintf(&out, "%s=%s\n", strings.ToUpper(word), m.randomText(alnum, 40))
		case 6:
			fmt.Fprintf(&out, "%s\n", m.randomText(alnum+"/+", 76)) // base64 of other data
		case 7:
			for range 16 {
				fmt.Fprintf(&out, "%02x ", dice.IntN(256))
			}
			fmt.Fprintf(&out, " |%s|\n", word)
		case 8:
			for range 12 {
				fmt.Fprintf(&out, "%d, ", dice.IntN(256))
			}
			fmt.Fprintln(&out, `日本語 \x41\102 🎉`)
		case 9:
			fmt.Fprintln(&out, strings.Join(strings.Split(word, ""), "\n"))
		}
	}
	return out.String()
}

// TestOrdinary checks that output without secrets passes byte for byte while hundreds of secrets are leased.
func TestOrdinary(t *testing.T) {
	b := newBench(t)
	want := ordinaryOutput(t)
	found := map[string]string{}
	if b.search.verbatim(want, found, "raw"); len(found) > 0 {
		t.Fatalf("the corpus has secrets: %v", found)
	}
	dir := t.TempDir()
	input := filepath.Join(dir, "corpus")
	if err := os.WriteFile(input, []byte(want), 0o644); err != nil {
		t.Fatal(err)
	}
	saved := t.TempDir()
	code := "import os, shutil, sys\ndata = open('corpus', 'rb').read()\n" +
		"for i in range(0, len(data), 7001): os.write(1, data[i:i + 7001])\n" +
		"for i in range(0, len(data), 333): os.write(2, data[i:i + 333])\nshutil.copy('corpus', 'copy')"
	_, res, err := pipeline.Do(t.Context(), b.Pipeline, run.Request{Language: "python", Code: []byte(code), Reach: run.Reach{Secrets: b.names},
		Inputs:    []run.Input{{Host: input}},
		Artifacts: saved, Bounds: pipeline.Bounds{Output: 16 << 20, Limits: pipeline.Bounds{}.Limits}})
	if err != nil {
		t.Fatal(err)
	}
	for name, got := range map[string]string{"stdout": res.Stdout, "stderr": res.Stderr} {
		if got != want {
			at := 0
			for at < min(len(got), len(want)) && got[at] == want[at] {
				at++
			}
			t.Errorf("%s has %d bytes of %d, and differs from %d on: %q, want %q", name, len(got), len(want), at, got[at:min(at+80, len(got))],
				want[at:min(at+80, len(want))])
		}
	}
	copied, err := os.ReadFile(filepath.Join(saved, "copy"))
	if err != nil || string(copied) != want {
		t.Errorf("the artifact: %v, %d bytes of %d, %+v", err, len(copied), len(want), res.Artifacts)
	}
}
