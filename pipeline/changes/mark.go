package changes

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
)

// marksOf returns a warning to the reviewer about a changed file: the names of commands in it that are new or
// different.
func marksOf(name string, before, after []byte) string {
	var word string
	var commands func([]byte) map[string]string
	switch base := path.Base(name); {
	case base == "package.json":
		word, commands = "scripts", scripts
	case strings.EqualFold(base, "makefile"), base == "GNUmakefile", strings.HasSuffix(base, ".mk"):
		word, commands = "targets", targets
	default:
		return ""
	}
	old, now := commands(before), commands(after)
	var changed []string
	for _, c := range slices.Sorted(maps.Keys(now)) {
		if old[c] != now[c] {
			changed = append(changed, quoteName(c))
		}
	}
	if len(changed) == 0 {
		return ""
	}
	const limit = 8
	if len(changed) > limit {
		changed = append(changed[:limit], fmt.Sprintf("%d more", len(changed)-limit))
	}
	return fmt.Sprintf("%s changed: %s", word, strings.Join(changed, ", "))
}

func scripts(b []byte) map[string]string {
	var p struct{ Scripts map[string]string }
	_ = json.Unmarshal(b, &p) // npm runs nothing of a file that it can't parse
	return p.Scripts
}

// targets returns the recipes of a makefile by the words before their colons.
func targets(b []byte) map[string]string {
	all, now := map[string]string{}, ""
	for line := range bytes.Lines(b) {
		text := string(line)
		if head, _, is := strings.Cut(text, ":"); is && !strings.ContainsAny(text[:1], "\t #") && !strings.ContainsAny(head, "=$") {
			now = strings.TrimSpace(head)
		}
		if now != "" {
			all[now] += text
		}
	}
	return all
}
