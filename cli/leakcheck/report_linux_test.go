package leakcheck

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// dumpVariable names a directory in which all output is saved, for scanners.
const dumpVariable = "SANDBOXMCP_LEAK_DUMP"

// reportLeaks writes the leaks by encoding and path, and fails for unexpected ones.
func (b *bench) reportLeaks() {
	type place struct{ from, where string }
	leaks := map[place]map[string]string{}
	var mu sync.Mutex
	var work sync.WaitGroup
	room := make(chan struct{}, 4)
	seen := map[string]bool{}
	for _, c := range b.outcome.texts {
		if seen[c.text] { // only its first place is reported
			continue
		}
		seen[c.text] = true
		work.Go(func() {
			room <- struct{}{}
			defer func() { <-room }()
			found := b.search.secretsIn(c.text)
			if len(found) == 0 {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			p := place{c.from, c.where}
			if leaks[p] == nil {
				leaks[p] = map[string]string{}
			}
			for name, how := range found {
				leaks[p][name] = how
			}
		})
	}
	work.Wait()
	var lines []string
	for p, found := range leaks {
		first := sortedKeys(found)[0]
		line := fmt.Sprintf("%-24s %-36s %3d secrets, such as %s (%s): %s", p.from, p.where, len(found), first, b.secrets[first].format,
			found[first])
		lines = append(lines, line)
	}
	slices.Sort(lines)
	if len(lines) > 0 {
		b.Errorf("%d leaks in %d texts:\n%s", len(lines), len(b.outcome.texts), strings.Join(lines, "\n"))
	}
}

// runScanner runs a public scanner on all output, if one is installed.
func (b *bench) runScanner() {
	dir := os.Getenv(dumpVariable)
	if dir == "" {
		dir = b.TempDir()
	}
	scanner, err := exec.LookPath("gitleaks")
	if err != nil && os.Getenv(dumpVariable) == "" {
		b.Log("not scanned: gitleaks is not in PATH")
		return
	}
	for i, t := range b.outcome.texts {
		file := filepath.Join(dir, regexp.MustCompile(`[^a-z0-9]+`).ReplaceAllString(strings.ToLower(t.from+" "+t.where), "-"),
			fmt.Sprintf("%05d.txt", i))
		os.MkdirAll(filepath.Dir(file), 0o755)
		if err := os.WriteFile(file, []byte(t.text), 0o644); err != nil {
			b.Fatal(err)
		}
	}
	if scanner == "" {
		return
	}
	report := filepath.Join(b.TempDir(), "report.json")
	out, err := exec.Command(scanner, "dir", dir, "--no-banner", "--exit-code", "0", "--max-decode-depth", "2", "--report-format", "json",
		"--report-path", report).CombinedOutput()
	if err != nil {
		b.Fatalf("%s: %v: %s", scanner, err, out)
	}
	var found []struct{ RuleID, Match, File string }
	text, err := os.ReadFile(report)
	if err == nil {
		err = json.Unmarshal(text, &found)
	}
	if err != nil {
		b.Fatal(err)
	}
	for i, f := range found {
		if i == 20 {
			b.Errorf("and %d more", len(found)-i)
			break
		}
		b.Errorf("gitleaks: %s in %s: %.200q", f.RuleID, filepath.Base(filepath.Dir(f.File)), f.Match)
	}
}
