package egresstest

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
)

// result is the output of sandboxmcp run --json, as far as the tests need it.
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

// parse decodes the output of --json.
func parse(t *testing.T, out string) (r result) {
	t.Helper()
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return r
}

// decided finds the decision about a name and port, allowed or refused. There can be both, if the name is allowed
// and its address is not.
func (r result) decided(name string, port int, allowed bool) *decision {
	for i, d := range r.Egress {
		if d.Name == name && d.Port == port && d.Allowed == allowed {
			return &r.Egress[i]
		}
	}
	return nil
}

// copyOf copies a script to a path that everybody can read.
func (w *world) copyOf(file string) string {
	w.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		w.Fatal(err)
	}
	return w.write(filepath.Base(file), string(text))
}
