package cli

import (
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/cli/command"
	"github.com/sandboxmcp/sandboxmcp/cli/config"
	"github.com/sandboxmcp/sandboxmcp/cli/manual"
)

var update = flag.Bool("update", false, "write the generated part of README.md anew")

// The generated part of README.md is between these lines.
const (
	referenceStart = "<!-- From here on generated: go test ./cli -run TestReference -update -->\n"
	referenceEnd   = "<!-- The end of what is generated. -->\n"
)

// TestReference compares the reference in README.md with the commands and settings of the code.
func TestReference(t *testing.T) {
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	head, rest, started := strings.Cut(string(text), referenceStart)
	got, tail, ended := strings.Cut(rest, referenceEnd)
	if !started || !ended {
		t.Fatalf("README.md has no place for the reference: the lines %q and %q", referenceStart, referenceEnd)
	}
	want := referenceText()
	if *update {
		if err := os.WriteFile("README.md", []byte(head+referenceStart+want+referenceEnd+tail), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	gotLines, wantLines := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i, l := range wantLines {
		if i >= len(gotLines) || gotLines[i] != l {
			t.Fatalf("README.md, line %d of its generated part: want %q; write it with go test ./cli -run TestReference -update", i+1, l)
		}
	}
	if len(gotLines) > len(wantLines) {
		t.Errorf("README.md has more than is generated: %q", gotLines[len(wantLines):])
	}
}

// sharedBy is the least number of commands whose common flag, with the same word and meaning, is listed once for all.
const sharedBy = 3

// referenceText returns the commands and settings in Markdown. It has the first paragraph of each help, and no examples:
// --help has all.
func referenceText() string {
	var b strings.Builder
	app := (&program{Streams: &command.Streams{Out: io.Discard, Err: io.Discard}}).app()
	sections := commandSections(app)[1:]
	first, shared := sharedFlags(sections)
	b.WriteString("\n## Commands\n\n`COMMAND --help` says more of each, with examples, and `sandboxmcp man` all. Where a flag has a " +
		"default that is not named, it is a setting. Before or after any\n" +
		"command:\n\n")
	writeTerms(&b, manualHead(app)[2].Terms...)
	b.WriteString("Where a command has one of these flags, it means the same for all:\n\n")
	writeTerms(&b, first...)
	for _, s := range sections {
		fmt.Fprintf(&b, "### %s\n\n```text\n%s\n```\n\n%s\n\n", s.Title, s.Synopsis, tableCell(helpSummary(s.Text)))
		writeTerms(&b, slices.DeleteFunc(slices.Clone(s.Terms), func(t manual.Term) bool { return shared[t] })...)
		var words []string
		for _, t := range s.Terms {
			if shared[t] {
				words = append(words, "`"+t.Word+"`")
			}
		}
		if len(words) > 0 {
			b.WriteString("Shared: " + strings.Join(words, ", ") + "\n\n")
		}
	}
	b.WriteString("## Settings\n\nSettings of `caps` are the highest `limits` that a caller can ask for.\n\n| key, and variable | default " +
		"| takes | what it does |\n|---|---|---|---|\n")
	for _, row := range settingRows() {
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", row[0], row[1], row[2], row[3])
	}
	b.WriteString("\n")
	return b.String()
}

// maxSummary bounds the part of a help's second paragraph in the reference, in bytes.
const maxSummary = 280

// helpSummary returns the beginning of a help: its first line, and the first whole sentences of the paragraph after it.
func helpSummary(help string) string {
	about, more, _ := strings.Cut(help, "\n\n")
	what, _, _ := strings.Cut(more, "\n\n")
	what, _, _ = strings.Cut(strings.ReplaceAll(what, "\n  ", "\x00"), "\x00")
	what = strings.ReplaceAll(what, "\n", " ")
	if end := strings.LastIndex((what + " ")[:min(len(what)+1, maxSummary)], ". "); strings.HasPrefix(what, "Example") || end < 0 {
		what = ""
	} else {
		what = what[:end+1]
	}
	return strings.TrimSpace(about + " " + what)
}

// sharedFlags returns the flags that are listed once for all commands, each in its most common meaning.
func sharedFlags(sections []manual.Section) (first []manual.Term, shared map[manual.Term]bool) {
	users := map[manual.Term]int{}
	most := map[string]manual.Term{}
	for _, s := range sections {
		for _, t := range s.Terms {
			if users[t]++; users[t] > users[most[t.Word]] {
				most[t.Word] = t
			}
		}
	}
	shared = map[manual.Term]bool{}
	for _, word := range slices.Sorted(maps.Keys(most)) {
		if t := most[word]; users[t] >= sharedBy {
			first, shared[t] = append(first, t), true
		}
	}
	return first, shared
}

// settingRows returns the cells of the settings table. A limit and its cap share a row, and so do the images of all
// languages.
func settingRows() (rows [][4]string) {
	at := map[string]int{}
	for _, e := range config.Reference() {
		key := "`" + e.Key + "`"
		if e.Env != "" {
			key += "<br>`" + e.Env + "`"
		}
		section, name, _ := strings.Cut(e.Key, ".")
		group := e.Key
		switch section {
		case "caps":
			group = "limits." + name
		case "images":
			group = section
		}
		if i, there := at[group]; there {
			rows[i][0] += "<br>" + key
			rows[i][1] += "<br>" + tableCell(e.Default)
			continue
		}
		at[group] = len(rows)
		rows = append(rows, [4]string{key, tableCell(e.Default), tableCell(e.Takes), tableCell(e.About)})
	}
	return rows
}

func writeTerms(b *strings.Builder, terms ...manual.Term) {
	if len(terms) == 0 {
		return
	}
	b.WriteString("| flag | |\n|---|---|\n")
	for _, t := range terms {
		fmt.Fprintf(b, "| `%s` | %s |\n", strings.ReplaceAll(t.Word, "|", `\|`),
			tableCell(strings.TrimSuffix(t.Meaning, " (default: "+command.SeeConfig+")")))
	}
	b.WriteString("\n")
}

// tableCell escapes text for a Markdown table.
func tableCell(text string) string {
	return strings.NewReplacer("|", `\|`, "<", `\<`, "*", `\*`, "[", `\[`, "]", `\]`).Replace(text)
}
