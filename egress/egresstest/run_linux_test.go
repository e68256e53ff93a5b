package egresstest

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
)

// result is what sandboxmcp run --json prints, as far as it counts here.
type result struct {
	Ended   string
	Limit   string
	Code    int `json:"exit_code"`
	Stdout  string
	Stderr  string
	Egress  []decision
	Refused *struct{ Reason, Remedy string }
}

type decision struct {
	Name     string
	Port     int
	Allowed  bool
	Reason   string
	Count    int64
	Sent     int64
	Received int64
}

// run runs a script of testdata in a sandbox.
func (w *world) run(who, script string, flags ...string) result {
	w.Helper()
	file, err := filepath.Abs(filepath.Join("testdata", script))
	if err != nil {
		w.Fatal(err)
	}
	code := w.copyOf(file)
	args := append([]string{w.program, "run", "--json", "--processes", "100", "--ram", "1500", "--timeout", "300", code}, flags...)
	out, errs, err := w.runAndLog(w.onHost(who, args...))
	if err != nil && out == "" {
		w.Fatalf("%s: %v: %s", script, err, errs)
	}
	return parse(w.T, out)
}

// parse reads what --json prints.
func parse(t *testing.T, out string) (r result) {
	t.Helper()
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return r
}

// decided finds what was said about a name and port: that it was allowed, or that it was not. Both can
// be, where the name is allowed and what it leads to is not.
func (r result) decided(name string, port int, allowed bool) *decision {
	for i, d := range r.Egress {
		if d.Name == name && d.Port == port && d.Allowed == allowed {
			return &r.Egress[i]
		}
	}
	return nil
}

// copyOf puts a script where everyone may read it.
func (w *world) copyOf(file string) string {
	w.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		w.Fatal(err)
	}
	return w.write(filepath.Base(file), string(text))
}
