package export

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"encoding/json"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/net/html"

	"github.com/sandboxmcp/sandboxmcp/audit"
	"github.com/sandboxmcp/sandboxmcp/audit/safetext"
)

// evil is a file name that a program could choose: a formula, an escape sequence, a tag, and a name that reads
// backwards.
const evil = "=cmd|'/c calc'!A0\x1b[2J\u202egnp.exe<script>alert(1)</script>"

type m = map[string]any

// samples are entries of all kinds that the program writes, and one of an unknown kind.
var samples = []audit.Entry{
	{Kind: "execution.started", Data: m{"name": evil, "language": "python", "code_sha256": "ab", "profile": "hardened"}},
	{Kind: "execution.completed", Data: m{"name": "a.py", "language": "python", "ended": "exit", "exit_code": 3, "wall_ms": 12.5,
		"layers":         []string{"user"},
		"missing_layers": []string{"cgroup"}, "session": "S", "artifact_list": []m{{"name": "=a", "withheld": "it has a secret in it"}}}},
	{Kind: "execution.completed", Data: m{"name": "a.py", "language": "python", "ended": "ok", "exit_code": 0}},
	{Kind: "execution.failed", Data: m{"name": "a.py", "ended": "limit", "limit": "memory"}},
	{Kind: "execution.timeout", Data: m{"name": "a.py", "ended": "timeout"}},
	{Kind: "execution.refused", Data: m{"name": "a.py", "ended": "refused", "reason": "no landlock"}},
	{Kind: "session.created", Data: m{"language": "node", "backend": "process", "layers": []m{{"name": "user"}}}},
	{Kind: "session.killed", Data: m{"language": "node", "why": "idle", "cells": 3}},
	{Kind: "session.bridged", Data: m{"session": "S", "key": "x", "bytes": 3}},
	{Kind: "package.installed", Data: m{"language": "python", "packages_installed": []m{{"name": "numpy", "version": "2.1.0"}}}},
	{Kind: "package.installed"},
	{Kind: "egress.denied", Data: m{"name": "evil.example", "reason": "not allowed"}},
	{Kind: "egress.denied", Data: m{"name": "evil.example", "port": 443, "reason": "SNI"}},
	{Kind: "egress.denied", Data: m{"name": "not a \x00 name", "port": 443, "reason": "SNI"}},
	{Kind: "egress.denied", Data: m{"reason": "and 7 more"}},
	{Kind: "egress.approved", Data: m{"name": "example.com", "port": 443, "reason": "allowed", "bytes": 10}},
	{Kind: "egress.approved", Data: m{"name": "example.com", "port": 443, "reason": "refused", "failed": true}},
	{Kind: "egress.requested", Run: "Q", Data: m{"kind": "egress", "what": "example.com", "client": "agent"}},
	{Kind: "egress.approved", Run: "Q", Data: m{"kind": "egress", "what": "example.com", "by": "cli", "user": "ann", "scope": "time",
		"until": "2026-01-01T00:00:00Z"}},
	{Kind: "egress.denied", Run: "Q", Data: m{"kind": "egress", "what": "example.com", "by": "cli"}},
	{Kind: "egress.revoked", Run: "Q", Data: m{"kind": "egress", "what": "example.com", "by": "cli"}},
	{Kind: "approval.requested", Run: "Q", Data: m{"kind": "host", "what": "git status"}},
	{Kind: "approval.forgotten", Run: "Q", Data: m{"kind": "host", "what": "git status"}},
	{Kind: "vault.accessed", Data: m{"secrets": []string{"TOKEN", "KEY"}}},
	{Kind: "vault.added", Data: m{"name": "TOKEN", "hosts": []string{"example.com"}}},
	{Kind: "vault.rotated", Data: m{"name": "TOKEN"}},
	{Kind: "vault.deleted", Data: m{"name": "TOKEN"}},
	{Kind: "resource.exceeded", Data: m{"limit": "memory", "hit": []string{"disk"}}},
	{Kind: "artifact.signed", Data: m{"artifacts": 2}},
	{Kind: "limits.changed", Data: m{"session": "S"}},
	{Kind: "novel", Data: m{"name": 7, "hit": "x", "egress": "none", "text": evil}},
}

// stored returns the samples as a real log returns them.
func stored(t testing.TB) []audit.Row {
	t.Helper()
	log, err := audit.Open(t.Context(), filepath.Join(t.TempDir(), "audit.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	for _, e := range samples {
		if e.Namespace = "team"; e.Run == "" {
			e.Run = "01RUN"
		}
		if _, err := log.Append(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	var rows []audit.Row
	for r, err := range log.Rows(t.Context(), audit.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, r)
	}
	return rows
}

// exported returns the output of New's writer for rows.
func exported(t testing.TB, format string, rows []audit.Row) string {
	t.Helper()
	var b bytes.Buffer
	w, err := New(format, &b, About{Version: "1.2.3", Made: time.Unix(0, 0), Scope: "namespace <b>x</b>"})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		if err := w.Row(r); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestUnknownFormat(t *testing.T) {
	if w, err := New("xml", io.Discard, About{}); err == nil {
		t.Errorf("got %v, want an error", w)
	}
}

// TestLines compares exported rows with the log, hash by hash.
func TestLines(t *testing.T) {
	rows := stored(t)
	var got []audit.Row
	for lines := bufio.NewScanner(strings.NewReader(exported(t, "jsonl", rows))); lines.Scan(); {
		var r audit.Row
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			t.Fatal(err)
		}
		got = append(got, r)
	}
	if diff := cmp.Diff(rows, got); diff != "" {
		t.Error(diff)
	}
}

// TestDamagedData exports a row whose data was replaced by invalid JSON.
func TestDamagedData(t *testing.T) {
	rows := []audit.Row{{Seq: 1, Kind: "execution.started", Data: json.RawMessage("{\"a\": \x1b")}}
	for _, format := range Formats() {
		got := exported(t, format, rows)
		if strings.ContainsRune(got, 0x1b) || !strings.Contains(got, "execution.started") {
			t.Errorf("%s: got %q", format, got)
		}
		for line := range strings.Lines(got) {
			if format == "jsonl" && !json.Valid([]byte(line)) {
				t.Errorf("%s: %q is not JSON", format, line)
			}
		}
	}
}

func TestCSV(t *testing.T) {
	rows := stored(t)
	text := exported(t, "csv", rows)
	if strings.Count(text, "\r\n") != len(rows)+1 || strings.Count(text, "\n") != len(rows)+1 {
		t.Error("lines do not end as RFC 4180 wants it")
	}
	records, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	if len(records) != len(rows)+1 || records[0][0] != "seq" {
		t.Fatalf("%d records, the first %v", len(records), records[0])
	}
	for i, r := range rows {
		var want, got any
		if json.Unmarshal(r.Data, &want) != nil || json.Unmarshal([]byte(records[i+1][5]), &got) != nil || !cmp.Equal(want, got) {
			t.Errorf("row %d: the data became %s", r.Seq, records[i+1][5])
		}
		if records[i+1][7] != r.Hash {
			t.Errorf("row %d: the hash became %s", r.Seq, records[i+1][7])
		}
	}
	if got := exported(t, "csv", nil); got != "seq,time,kind,run,namespace,data,prev,hash\r\n" {
		t.Errorf("without rows: %q", got)
	}
}

// TestFormulas has cells that a spreadsheet would execute.
func TestFormulas(t *testing.T) {
	for text, want := range map[string]string{
		"=1+1": "'=1+1", "+1": "'+1", "-1": "'-1", "@SUM(A1)": "'@SUM(A1)", "  =1": "'  =1", "\u00a0=1": "'\u00a0=1", `"=1`: `'"=1`,
		"＝1": "'＝1", "\t=1": `\t=1`, "\r=1": `\x0d=1`, "a=1": "a=1", "": "", "'=1": "'=1", "\u202e=1": `\u202e=1`, "x\ny": `x\ny`,
	} {
		if got := escapeCell(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

func FuzzCell(f *testing.F) {
	f.Add("=1")
	f.Add(" \u202e@x\x00")
	f.Fuzz(func(t *testing.T, text string) {
		got := escapeCell(text)
		if strings.IndexAny(got, "=+-@") == 0 || strings.ContainsFunc(got, safetext.Hidden) || !utf8.ValidString(got) {
			t.Errorf("%q became %q", text, got)
		}
	})
}

// TestTable checks the page like a browser: no script, nothing loaded, all text visible.
func TestTable(t *testing.T) {
	rows := stored(t)
	page := exported(t, "html", rows)
	doc, err := html.Parse(strings.NewReader(page))
	if err != nil {
		t.Fatal(err)
	}
	lines := 0
	for n := range doc.Descendants() {
		if n.Type == html.ElementNode {
			switch n.Data {
			case "script", "img", "link", "iframe", "object", "b", "base", "form", "a":
				t.Errorf("the page has a <%s>", n.Data)
			case "tr":
				lines++
			}
		}
		for _, a := range n.Attr {
			if strings.HasPrefix(a.Key, "on") || a.Key == "src" || a.Key == "href" {
				t.Errorf("<%s> has %s=%q", n.Data, a.Key, a.Val)
			}
		}
	}
	if lines != len(rows)+1 {
		t.Errorf("%d lines, want %d", lines, len(rows)+1)
	}
	if !strings.Contains(page, `content="default-src 'none'; style-src 'unsafe-inline'"`) {
		t.Error("there is no content security policy")
	}
	for _, want := range []string{`=cmd|&#39;/c calc&#39;!A0\x1b[2J\u202egnp.exe&lt;script&gt;`, "namespace &lt;b&gt;",
		"limit of memory, disk", "numpy 2.1.0"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page has no %q", want)
		}
	}
	if strings.ContainsFunc(strings.ReplaceAll(page, "\n", ""), safetext.Hidden) {
		t.Error("hidden characters are in the page")
	}
}

func BenchmarkExport(b *testing.B) {
	rows := stored(b)
	for _, format := range Formats() {
		b.Run(format, func(b *testing.B) {
			w, err := New(format, io.Discard, About{})
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if err := w.Row(rows[i%len(rows)]); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
