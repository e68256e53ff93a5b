package cli

import (
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/cli/command"
	"github.com/sandboxmcp/sandboxmcp/cli/config"
	"github.com/sandboxmcp/sandboxmcp/cli/manual"
)

var update = flag.Bool("update", false, "write the generated part of README.md anew")

// The generated part of README.md stands between these lines.
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
	want := reference()
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

// reference is the commands and settings in Markdown.
func reference() string {
	var b strings.Builder
	app := (&program{Streams: &command.Streams{Out: io.Discard, Err: io.Discard}}).app()
	b.WriteString("\n## Commands\n\nGlobal flags, before or after the command:\n\n")
	writeTerms(&b, manualHead(app)[2].Terms...)
	for _, s := range commandSections(app)[1:] {
		fmt.Fprintf(&b, "### %s\n\n```text\n%s\n```\n\n", s.Title, s.Synopsis)
		writeText(&b, s.Text)
		writeTerms(&b, s.Terms...)
	}
	b.WriteString("## Settings\n\n| key, and variable | default | takes | what it does |\n|---|---|---|---|\n")
	for _, e := range config.Reference() {
		key := "`" + e.Key + "`"
		if e.Env != "" {
			key += "<br>`" + e.Env + "`"
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", key, cell(e.Default), cell(e.Takes), cell(e.About))
	}
	b.WriteString("\n")
	return b.String()
}

func writeTerms(b *strings.Builder, terms ...manual.Term) {
	if len(terms) == 0 {
		return
	}
	b.WriteString("| flag | |\n|---|---|\n")
	for _, t := range terms {
		fmt.Fprintf(b, "| `%s` | %s |\n", strings.ReplaceAll(t.Word, "|", `\|`), cell(t.Meaning))
	}
	b.WriteString("\n")
}

// writeText writes the paragraphs of a help; its indented lines become code.
func writeText(b *strings.Builder, text string) {
	code := false
	fence := func(on bool) {
		if on && !code {
			b.WriteString("\n```text\n")
		} else if !on && code {
			b.WriteString("```\n")
		}
		code = on
	}
	for l := range strings.SplitSeq(text, "\n") {
		if indented := strings.HasPrefix(l, "  "); indented {
			fence(true)
			b.WriteString(l[2:] + "\n")
		} else if l != "" || !code {
			if code {
				l = "\n" + l
			}
			fence(false)
			b.WriteString(cell(l) + "\n")
		}
	}
	fence(false)
	b.WriteString("\n")
}

// cell keeps Markdown from reading characters of text as its own.
func cell(text string) string {
	return strings.NewReplacer("|", `\|`, "<", `\<`, "*", `\*`, "[", `\[`, "]", `\]`).Replace(text)
}
