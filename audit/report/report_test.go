package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"regexp"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"github.com/sandboxmcp/sandboxmcp/audit"
	"github.com/sandboxmcp/sandboxmcp/audit/safetext"
)

type m = map[string]any

// evil is a name chosen by a program.
const evil = "</td><script>alert(1)</script><img src=x onerror=alert(1)>\x1b[2J\u202egnp.exe"

var day = time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)

// sequence gives entries the numbers and times of a log, a minute apart.
func sequence(entries ...audit.Entry) iter.Seq2[audit.Row, error] {
	return func(yield func(audit.Row, error) bool) {
		for i, e := range entries {
			data, err := json.Marshal(e.Data)
			if err == nil && e.Data == nil {
				data = []byte("{}")
			}
			r := audit.Row{Seq: int64(i + 1), Time: day.Add(time.Duration(i) * time.Minute), Kind: e.Kind, Run: e.Run, Namespace: e.Namespace,
				Data: data}
			if !yield(r, err) {
				return
			}
		}
	}
}

func collect(t *testing.T, entries ...audit.Entry) *Summary {
	t.Helper()
	s, err := Collect(sequence(entries...))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func write(t *testing.T, s *Summary, a About) string {
	t.Helper()
	var b bytes.Buffer
	if err := s.Write(&b, a); err != nil {
		t.Fatal(err)
	}
	harmless(t, b.String())
	return b.String()
}

// harmless checks a page like a browser, and like a strict reader of tags.
func harmless(t *testing.T, page string) {
	t.Helper()
	if !strings.HasPrefix(page, "<!DOCTYPE html>") {
		t.Errorf("the page begins with %.40q", page)
	}
	if !strings.Contains(page, `content="default-src 'none'; style-src 'unsafe-inline'"`) {
		t.Error("there is no content security policy")
	}
	if strings.ContainsFunc(strings.ReplaceAll(page, "\n", ""), safetext.Hidden) {
		t.Error("hidden characters are in the page")
	}
	if found := regexp.MustCompile(`(?i)https?://|url\(|@import|ZgotmplZ|%!`).FindString(page); found != "" {
		t.Errorf("the page has %q", found)
	}
	doc, err := html.Parse(strings.NewReader(page))
	if err != nil {
		t.Fatal(err)
	}
	ids := map[string]bool{}
	var links []string
	for n := range doc.Descendants() {
		switch n.Data {
		case "script", "img", "link", "iframe", "object", "base", "form", "embed":
			if n.Type == html.ElementNode {
				t.Errorf("the page has a <%s>", n.Data)
			}
		}
		for _, a := range n.Attr {
			switch {
			case a.Key == "href" && strings.HasPrefix(a.Val, "#"):
				links = append(links, a.Val[1:])
			case strings.HasPrefix(a.Key, "on") || a.Key == "src" || a.Key == "href":
				t.Errorf("<%s> has %s=%q", n.Data, a.Key, a.Val)
			case a.Key == "id":
				ids[a.Val] = true
			}
		}
	}
	for _, l := range links {
		if !ids[l] {
			t.Errorf("a link leads to #%s, which is not there", l)
		}
	}
	balanced(t, page)
}

// balanced checks that each opened tag is closed in order: browsers tolerate errors, printers may not.
func balanced(t *testing.T, page string) {
	t.Helper()
	void := map[string]bool{"meta": true, "br": true}
	var open []string
	for z := html.NewTokenizer(strings.NewReader(page)); ; {
		switch z.Next() {
		case html.ErrorToken:
			if len(open) > 0 {
				t.Errorf("left open: %v", open)
			}
			return
		case html.StartTagToken:
			if name, _ := z.TagName(); !void[string(name)] {
				open = append(open, string(name))
			}
		case html.EndTagToken:
			name, _ := z.TagName()
			if len(open) == 0 || open[len(open)-1] != string(name) {
				t.Fatalf("</%s> closes %v", name, open)
			}
			open = open[:len(open)-1]
		}
	}
}

func TestNoRows(t *testing.T) {
	page := write(t, collect(t), About{})
	for _, want := range []string{"There are no rows", "nobody decided anything", "none were installed", "It was not checked"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page has no %q", want)
		}
	}
}

func TestError(t *testing.T) {
	broken := errors.New("broken")
	_, err := Collect(func(yield func(audit.Row, error) bool) { yield(audit.Row{}, broken) })
	if !errors.Is(err, broken) {
		t.Errorf("got %v, want %v", err, broken)
	}
}

func run(id, kind string, data m) audit.Entry {
	return audit.Entry{Kind: kind, Run: id, Namespace: "team", Data: data}
}

// TestPage has a row of each kind, and checks the page's text about it.
func TestPage(t *testing.T) {
	s := collect(t,
		run("A", "execution.started", m{"name": "a.py"}),
		run("A", "execution.completed", m{"name": "a.py", "language": "python", "ended": "ok", "client": "some-agent 1", "user": "ann",
			"policy_sha256": "f00d", "receipt_sha256": "feed", "wall_ms": 90_000, "peak_memory": 5_000_000, "backend": "process",
			"profile": "hardened", "layers": []string{"user", "net"}, "missing_layers": []string{"cgroup"},
			"egress":           []m{{"name": "api.example.com", "port": 443, "allowed": true, "count": 3, "sent": 1500, "received": 2_500_000}},
			"egress_decisions": 7, "artifacts": 2, "artifact_list": []m{{"name": "out.csv"},
				{"name": "leak.txt", "withheld": "it has TOKEN in it"}}}),
		run("B", "execution.started", m{"name": "b.py"}),
		run("C", "execution.refused", m{"name": "c.py", "language": "python", "ended": "refused", "stage": "backend", "layer": "landlock",
			"reason": "this kernel has no Landlock"}),
		run("A", "egress.approved", m{"name": "api.example.com", "port": 443}),
		run("A", "egress.denied", m{"name": "evil.example", "reason": "nobody allowed it"}),
		run("Q", "egress.requested", m{"what": "q.example", "kind": "egress"}),
		run("Q", "egress.approved", m{"what": "q.example", "kind": "egress", "by": "cli", "user": "ann", "scope": "session",
			"until": "2026-03-02T10:00:00Z"}),
		run("A", "vault.accessed", m{"secrets": []string{"TOKEN"}}),
		run("", "vault.added", m{"name": "TOKEN", "hosts": []string{"api.example.com"}}),
		run("A", "package.installed", m{"language": "python", "packages_installed": []m{{"name": "numpy", "version": "2.1.0"}}}),
		run("A", "resource.exceeded", m{"limit": "memory"}),
		run("H", "execution.completed", m{"tool": "host_exec", "what": "git status", "session": "S", "ended": "exit", "exit_code": 3}),
		run("S", "session.created", m{"language": "node", "layers": []string{"user"}}),
		run("S", "session.killed", m{"language": "node", "why": "idle", "cells": 4}),
	)
	page := write(t, s, About{Version: "1.2", Organisation: "Example Ltd", Machine: "build-7", Since: day.Add(-time.Hour),
		Scope: []string{"namespace team"}, Log: Log{Path: "/db", Keys: []string{"beef"}, Checked: true,
			Report: audit.Report{Rows: 14, Head: "cafe", Checkpoint: &audit.CheckedPoint{Size: 14, Root: "cm9vdA==", Signed: true},
				Files: []audit.File{{First: 1, Last: 9, Path: "old.db"}, {First: 10, Last: 12, Path: "old.db.2"}}}}})
	text := textOf(t, page)
	for _, want := range []string{
		"15 rows, from row 1 (2026-03-02 09:00:00) to row 15", "Counted were only namespace team", "3 runs", "1 refused",
		"Organisation Example Ltd Machine build-7 Period 2026-03-02 08:00:00 to",
		"Policy f00d 1 run, 2026-03-02 09:01:00 to 2026-03-02 09:01:00 Signed by beef",
		"each row was checked, and is as it was written; the last checkpoint is signed by one of these keys", "host_exec 1",
		"2026-03-02 09:01:00 A some-agent 1 ann team a.py python ok without cgroup 1 0 2 feed",
		"2026-03-02 09:12:00 H session S team git status host_exec exit 3 0 0 0",
		"2026-03-02 09:03:00 C c.py python team this kernel has no Landlock", "2026-03-02 09:01:00 A a.py python team without cgroup",
		"Signature",
		"of 1 there is no end in the log", "1m30s", "5.0 MB", "this kernel has no Landlock", "cgroup process hardened team 1",
		"Runs refused because a layer could not be had landlock 1", "evil.example 0 1 0 nobody allowed it",
		"api.example.com 443 1 3 1.5 kB 2.5 MB",
		"6 decisions are in no row", "approved q.example egress team ann cli session 2026-03-02T10:00:00Z", "TOKEN team 1",
		"vault.added TOKEN team api.example.com",
		"numpy 2.1.0 python team 1", "memory team 1", "1 were created and 1 ended", "4 cells", "idle 1", "leak.txt it has TOKEN in it A team",
		"1 runs left 2 files", "is as it was written", "14 rows, signed by a key that is known here", "beef", "old.db.2",
		"execution.started 2",
	} {
		if !strings.Contains(strings.ToLower(text), strings.ToLower(want)) {
			t.Errorf("the page does not say %q", want)
		}
	}
	// write has checked that their targets exist
	for _, link := range []string{`href="#without"`, `href="#refusals"`, `href="#runs"`, `href="#row-2"`, `href="#row-4"`} {
		if !strings.Contains(page, link) {
			t.Errorf("the page has no link %s", link)
		}
	}
	if t.Failed() {
		t.Log(text)
	}
}

// textOf returns the text of a page, with single spaces.
func textOf(t *testing.T, page string) string {
	t.Helper()
	doc, err := html.Parse(strings.NewReader(page))
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for n := range doc.Descendants() {
		if n.Type == html.TextNode && n.Parent.Data != "style" {
			b.WriteString(n.Data + " ")
		}
	}
	text := strings.Join(strings.Fields(b.String()), " ")
	return strings.NewReplacer(" . ", ". ", " , ", ", ", " ; ", "; ", " : ", ": ").Replace(text)
}

// TestHostile uses names that would break out of the page wherever a program can choose one.
func TestHostile(t *testing.T) {
	data := m{"ended": evil}
	for _, key := range []string{"name", "language", "session", "backend", "profile", "signal", "limit", "stage", "reason", "layer", "kind",
		"by", "user", "client", "tool", "policy_sha256", "receipt_sha256",
		"scope", "until", "why"} {
		data[key] = evil
	}
	for _, key := range []string{"hit", "layers", "missing_layers", "secrets", "hosts"} {
		data[key] = []string{evil}
	}
	data["egress"] = []m{{"name": evil, "port": 443, "count": 1, "reason": evil}}
	data["artifact_list"] = []m{{"name": evil, "withheld": evil}}
	data["packages_installed"] = []m{{"name": evil, "version": evil}}
	data["wall_ms"], data["peak_memory"] = 1, 1
	var entries []audit.Entry
	for _, kind := range []string{"execution.completed", "execution.refused", "egress.denied", "egress.approved", "vault.accessed",
		"vault.added", "session.created",
		"session.killed", "package.installed", "resource.exceeded", "vault." + evil, evil} {
		entries = append(entries, audit.Entry{Kind: kind, Run: evil, Namespace: evil, Data: data})
	}
	data = maps.Clone(data)
	data["what"] = evil
	entries = append(entries, audit.Entry{Kind: "approval." + evil, Run: evil, Namespace: evil, Data: data})
	page := write(t, collect(t, entries...), About{Version: evil, Scope: []string{evil}, Organisation: evil, Machine: evil,
		Log: Log{Path: evil, Keys: []string{evil}, Report: audit.Report{Bad: &audit.Bad{Why: evil}, Remarks: []string{evil}, Root: evil,
			Checkpoint: &audit.CheckedPoint{Root: evil}, Files: []audit.File{{Path: evil}, {Path: evil}}}}})
	if n := strings.Count(page, `&lt;script&gt;alert(1)&lt;/script&gt;`); n < 60 {
		t.Errorf("the name stands in the page %d times: some tables leave it out", n)
	}
	if !strings.Contains(page, `\x1b[2J\u202egnp.exe`) {
		t.Error("what is hidden in the name is not shown")
	}
}

// TestBounded counts the log of a program that makes up a new name each time.
func TestBounded(t *testing.T) {
	const rows = 50_000
	s, err := Collect(func(yield func(audit.Row, error) bool) {
		for i := range rows {
			kind := []string{"execution.completed", "execution.started", "egress.denied", "vault.accessed", "package.installed",
				"approval.denied"}[i%6]
			data := fmt.Sprintf(`{"name":"n%d","language":"l%[1]d","ended":"e%[1]d","reason":"r%[1]d","secrets":["s%[1]d"],"missing_layers":["m%[1]d"],"wall_ms":%[1]d,
				"what":%q,"packages_installed":[{"name":"p%[1]d"}],"artifact_list":[{"name":"a%[1]d","withheld":"w"}],"egress":[{"name":"d%[1]d","count":1}]}`,
				i, []string{"", "what"}[i%6/5])
			r := audit.Row{Seq: int64(i), Time: day.Add(time.Duration(i) * 40 * time.Hour), Kind: kind, Run: fmt.Sprint(i), Namespace: fmt.Sprint(i),
				Data: json.RawMessage(data)}
			if !yield(r, nil) {
				return
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, n := range map[string]int{"languages": len(s.runs.language.of), "namespaces": len(s.runs.space.of),
		"names":   len(s.egress.names.of),
		"secrets": len(s.secrets.names.of), "packages": len(s.packages.of), "layers": len(s.layers.missing.of), "open": len(s.runs.open)} {
		if n > maxKeys {
			t.Errorf("%s: %d are counted separately, more than %d", name, n, maxKeys)
		}
	}
	if n := s.runs.language.sum(); n != (rows+5)/6 {
		t.Errorf("%d runs are counted, want %d", n, (rows+5)/6)
	}
	page := write(t, s, About{})
	if len(page) > 1<<20 {
		t.Errorf("the page has %d bytes", len(page))
	}
	if !strings.Contains(page, "more were counted together") {
		t.Error("the page does not say what it left out")
	}
}
