package leakcheck

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/run"
	"github.com/sandboxmcp/sandboxmcp/pipeline/session"
	"github.com/sandboxmcp/sandboxmcp/vault"
)

// exceptions are encodings in which a secret can get out. A program can transform text without limit, so the line is
// drawn where nobody would recognise it as text.
var exceptions = []string{
	"gzip",         // compressed
	"xor",          // encrypted, in a sense
	"every second", // mixed with other data
	"upper case",   // a different secret in most formats
}

// partly are encodings that are found by themselves, but not inside JSON or a list. Of HTML's named characters, only
// the five that escaping produces are known.
var partly = []string{"html named", "quoted-printable", "utf-16 le", "utf-16 be", "spaced"}

func TestLeaks(t *testing.T) {
	b := newBench(t)
	all, source := encodings(t)
	var work sync.WaitGroup
	names := make(chan string, len(all))
	for range 3 {
		work.Go(func() {
			ids := b.createSessions()
			for name := range names {
				b.runRequest(name, "run", run.Request{Language: "python", Code: []byte(source), Env: []string{"ENCODING=" + name}})
				b.leakBySession(ids, name, source)
			}
		})
	}
	for _, name := range all {
		names <- name
	}
	close(names)
	for language, file := range map[string]string{"node": "hostile.js", "shell": "hostile.sh"} {
		code, err := os.ReadFile(filepath.Join("testdata", file))
		if err != nil {
			t.Fatal(err)
		}
		b.runRequest(language, "run", run.Request{Language: language, Code: code})
	}
	work.Wait()
	b.leakByDrivers()
	b.leakByRefusals()
	b.close()
	for run, events := range b.events.of {
		text, _ := json.Marshal(events)
		b.outcome.append(b.encodingOf(run), "events", fromJSON(text))
	}
	b.outcome.append("", "log", b.log.String())
	os.RemoveAll(b.path("saved")) // artifacts, which were searched
	b.collectFiles("", "left", b.dir)
	b.reportLeaks()
	b.runScanner()
}

// TestExceptions reports encodings that are not searched for, and fails for those that are.
func TestExceptions(t *testing.T) {
	b := newBench(t)
	_, source := encodings(t)
	for _, name := range exceptions {
		b.runRequest(name, "run", run.Request{Language: "python", Code: []byte(source), Env: []string{"ENCODING=" + name}})
	}
	for _, c := range b.outcome.texts {
		if c.where == "run stdout" {
			t.Logf("%s: %d of %d secrets are taken out", c.from, strings.Count(c.text, vault.Mark), 2*len(b.secrets))
		}
	}
}

// encodings returns the names of the hostile program's encodings, without the exceptions, and its source.
func encodings(t *testing.T) (all []string, source string) {
	t.Helper()
	text, err := os.ReadFile("testdata/hostile.py")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`(?m)^    '([^']+)': lambda`).FindAllStringSubmatch(string(text), -1) {
		all = append(all, m[1])
	}
	for _, e := range slices.Concat(exceptions, partly) {
		i := slices.Index(all, e)
		if i < 0 {
			t.Fatalf("nothing is encoded as %s", e)
		}
		all = slices.Delete(all, i, i+1)
	}
	if len(all) < 35 {
		t.Fatalf("only %d encodings: %q", len(all), all)
	}
	return all, string(text)
}

// createSessions returns one session with all secrets leased, and one without any.
func (b *bench) createSessions() (ids [2]string) {
	for i := range ids {
		_, opened, err := pipeline.Do(b.Context(), b.Pipeline, session.New{Language: "python"})
		if err != nil {
			b.Error(err)
			return ids
		}
		ids[i] = opened.ID
	}
	b.runRequest("", "lend", run.Request{Where: run.Where{Session: ids[0]}, Code: []byte("kept = set(globals()) | {'kept'}")})
	return ids
}

// leakBySession has a session leak its secrets, and has another, without leases, print the values that it receives from it.
func (b *bench) leakBySession(ids [2]string, name, source string) {
	cell := func(id, how, code string) pipeline.Outcome {
		return b.runRequest(name, how, run.Request{Where: run.Where{Session: id}, Code: []byte(code), Reach: run.Reach{Secrets: []string{}},
			Env: []string{"ENCODING=" + name, "HOW=session"}})
	}
	cell(ids[0], "cell", "for old in set(globals()) - kept: del globals()[old]\n"+source+"\nshow()\nsome(20)")
	cell(ids[0], "cell", "files()\nstreams()\nprint(variables(globals()))")
	cell(ids[0], "cell", "fail()")
	cell(ids[0], "cell", "class Odd(Exception): pass\nOdd.__name__ = Odd.__qualname__ = some(1)[0].replace(chr(0), '-')\nraise "+
		"Odd(some(1)[0]) from ValueError(*some(2))")
	cell(ids[0], "cell", "import sys; sys.exit(some(1)[0])")
	state, err := session.Inspect(b.Context(), b.Pipeline, "", ids[0])
	if err != nil {
		b.Error(err)
	}
	b.collect(name, "inspect", "", state)
	_, _, err = pipeline.Do(b.Context(), b.Pipeline, session.Bridge{From: ids[0], Session: ids[1], Key: "carried"})
	if err != nil {
		b.Errorf("bridge: %v", err)
	}
	cell(ids[1], "bridged", "import json; print(json.dumps(carried)[:3_000_000]); [print(c) for c in carried if isinstance(c, str)]; "+
		"open('carried', 'w').write(repr(carried)); carried")
	cell(ids[0], "cell", "class Shy:\n  def __init__(self, e): self.e = e\n  def __repr__(self): raise ValueError(self.e)\nshy = "+
		"Shy(some(1)[0]); bad = {shy: shy}")
	_, _, err = pipeline.Do(b.Context(), b.Pipeline, session.Bridge{From: ids[0], Session: ids[1], Key: "bad"})
	b.outcome.append(name, "bridge error", fmt.Sprint(err))
}
