package wiring

import (
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/cli/config"
)

// Each input that affects how something is run, including each setting, changes the fingerprint; others do not.
func TestAlike(t *testing.T) {
	cfg, err := config.Load(config.Options{Env: os.Environ()})
	if err != nil {
		t.Fatal(err)
	}
	own := fingerprint(t.Context(), cfg)
	if own == "" || own != fingerprint(t.Context(), cfg) {
		t.Fatalf("twice the same: got %q and another", own)
	}
	settings := 0
	eachLeaf(reflect.ValueOf(&cfg).Elem(), "", func(name string) {
		if settings++; fingerprint(t.Context(), cfg) == own {
			t.Errorf("another %s: the same", name)
		}
	})
	if settings < 50 {
		t.Errorf("only %d settings were changed", settings)
	}
	for _, tt := range []struct {
		name   string
		change func(*testing.T)
		same   bool
	}{
		{name: "nothing", change: func(*testing.T) {}, same: true},
		{name: "a variable of the terminal's", change: func(t *testing.T) { t.Setenv("COLUMNS", "77") }, same: true},
		{name: "a secret", change: func(t *testing.T) { t.Setenv("SANDBOXMCP_SECRET_A_B", "c") }},
		{name: "another home", change: func(t *testing.T) { t.Setenv("HOME", t.TempDir()) }},
		{name: "another bash", change: func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "bash"), []byte("#!/bin/sh\n"), 0o755); err != nil {
				t.Fatal(err)
			}
			t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
		}},
		{name: "another mask", change: func(t *testing.T) {
			old := syscall.Umask(0o027)
			t.Cleanup(func() { syscall.Umask(old) })
		}},
		{name: "another limit", change: func(t *testing.T) {
			var old syscall.Rlimit
			if err := syscall.Getrlimit(syscall.RLIMIT_CORE, &old); err != nil {
				t.Fatal(err)
			}
			changed := syscall.Rlimit{Cur: 4096, Max: old.Max}
			if old.Cur == 4096 {
				changed.Cur = 0
			}
			if err := syscall.Setrlimit(syscall.RLIMIT_CORE, &changed); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { syscall.Setrlimit(syscall.RLIMIT_CORE, &old) })
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.change(t)
			if got := fingerprint(t.Context(), cfg); (got == own) != tt.same {
				t.Errorf("the same: %v, want %v", got == own, tt.same)
			}
		})
	}
}

// eachLeaf calls f once for each value in v, changed one at a time.
func eachLeaf(v reflect.Value, name string, f func(name string)) {
	old := reflect.New(v.Type()).Elem()
	old.Set(v)
	defer v.Set(old)
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if field := v.Type().Field(i); field.IsExported() {
				eachLeaf(v.Field(i), name+"."+field.Name, f)
			}
		}
		return
	case reflect.String:
		v.SetString(v.String() + "x")
	case reflect.Bool:
		v.SetBool(!v.Bool())
	case reflect.Int, reflect.Int64:
		v.SetInt(v.Int() + 1)
	case reflect.Float64:
		v.SetFloat(v.Float() + 1)
	case reflect.Slice:
		v.Set(reflect.Append(v, reflect.Zero(v.Type().Elem())))
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
	}
	f(name)
}

// Each environment variable that the parts of a run read by name affects runs.
func TestCounts(t *testing.T) {
	asks, found := regexp.MustCompile(`(?i:getenv)\("([A-Za-z_]+)"\)`), 0
	for _, dir := range []string{"backends/process", "vault", "signer", "audit", "egress", "pipeline", "backends"} {
		err := filepath.WalkDir(filepath.Join("..", "..", dir), func(path string, d fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case d.IsDir() && (dir == "backends" && path != "../../backends" || // containers are not handed over
				strings.HasSuffix(path, "test") || // tests
				path == "../../pipeline/packages" || path == "../../egress/web"): // not used by runs
				return fs.SkipDir
			case !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
				return nil
			}
			text, err := os.ReadFile(path)
			for _, m := range asks.FindAllStringSubmatch(string(text), -1) {
				found++
				if name := m[1]; !affectsRuns(name+"=x") && name != "PATH" { // finds interpreters, which are in the fingerprint themselves
					t.Errorf("%s asks for %s", path, name)
				}
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if found < 4 {
		t.Errorf("only %d were found", found)
	}
}
