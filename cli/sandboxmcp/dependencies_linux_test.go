package main

import (
	"bytes"
	"cmp"
	"debug/elf"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// maxSize bounds the code and data of this test binary, in bytes. It contains the program, and 1.4 MB of testscript,
// go-cmp and tests.
const maxSize = 52_500_000

// contributing has the table of required modules and their costs.
const contributing = "../../.github/CONTRIBUTING.md"

func TestSize(t *testing.T) {
	info, _ := debug.ReadBuildInfo()
	raced := slices.ContainsFunc(info.Settings, func(s debug.BuildSetting) bool { return s.Key == "-race" && s.Value == "true" })
	if raced || testing.CoverMode() != "" || runtime.GOARCH != "amd64" {
		t.Skip("the size is known of a build for amd64 that is not instrumented")
	}
	if size, _, _ := measure(t, os.Args[0]); size > maxSize {
		t.Errorf("the program and this test have %d bytes, want at most %d: go test ./cli/sandboxmcp -run TestDependencies -update shows "+
			"which library grew; "+
			"a generic function or type that has many instances is another reason", size, maxSize)
	}
}

// TestDependencies compares the table with the modules that go.mod requires.
func TestDependencies(t *testing.T) {
	mod, err := os.ReadFile("../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(contributing)
	if err != nil {
		t.Fatal(err)
	}
	// A row has a module, its costs, which -update rewrites, and its purpose.
	row := regexp.MustCompile("(?m)^\\| `([^`]+)` \\| ([^|]*) \\| ([^|]*) \\| (.*) \\|$")
	rows := map[string]string{}
	for _, m := range row.FindAllStringSubmatch(string(page), -1) {
		rows[m[1]] = m[4]
	}
	required := regexp.MustCompile(`(?m)^\t(\S+) v\S+$`) // not indirect
	for _, m := range required.FindAllStringSubmatch(string(mod), -1) {
		if _, known := rows[m[1]]; !known {
			t.Errorf("%s has no row for %s: what is it for, and what does it cost?", contributing, m[1])
		}
		delete(rows, m[1])
	}
	for path := range rows {
		t.Errorf("%s has a row for %s, which go.mod does not require", contributing, path)
	}
	if !*updateFlag || t.Failed() {
		return
	}
	costs := costsOf(t)
	page = row.ReplaceAllFunc(page, func(line []byte) []byte {
		m := row.FindSubmatch(line)
		c := costs[string(m[1])]
		return fmt.Appendf(nil, "| `%s` | %.2f | %d | %s |", m[1], float64(c.size)/1e6, c.init>>10, m[4])
	})
	if err := os.WriteFile(contributing, page, 0o644); err != nil {
		t.Fatal(err)
	}
}

// measure returns the bytes of a program without its symbols, the cost of a byte of code with its line numbers, and the
// symbols.
func measure(t *testing.T, file string) (size uint64, code float64, symbols map[string]elf.Symbol) {
	t.Helper()
	f, err := elf.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, s := range f.Sections {
		if s.Flags&elf.SHF_ALLOC != 0 && s.Type != elf.SHT_NOBITS {
			size += s.FileSize
		}
	}
	code = 1 + float64(f.Section(".gopclntab").Size)/float64(f.Section(".text").Size)
	all, _ := f.Symbols()
	symbols = map[string]elf.Symbol{}
	for _, s := range all {
		if int(s.Section) < len(f.Sections) && f.Sections[s.Section].Type != elf.SHT_NOBITS {
			symbols[s.Name] = s
		}
	}
	return size, code, symbols
}

// cost is the size of a module and its exclusive dependencies in the program.
type cost struct{ size, init int }

// imported is a package of the program in the output of go list.
type imported struct {
	ImportPath string
	Imports    []string
	Module     struct{ Path string }
}

// costsOf builds the program and returns the costs of each module: of the packages that would be gone without it.
func costsOf(t *testing.T) map[string]cost {
	program := filepath.Join(t.TempDir(), "sandboxmcp")
	run(t, "go", "build", "-trimpath", "-o", program, ".")
	packages := map[string]imported{}
	for d := json.NewDecoder(bytes.NewReader(run(t, "go", "list", "-deps", "-json=ImportPath,Imports,Module", "."))); ; {
		var p imported
		if err := d.Decode(&p); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		packages[p.ImportPath] = p
	}
	each := costsOfPackages(t, program)
	costs := map[string]cost{}
	for _, p := range packages {
		module := p.Module.Path
		if _, done := costs[module]; done {
			continue
		}
		left := map[string]bool{}
		collectReachable(packages, "github.com/sandboxmcp/sandboxmcp/cli/sandboxmcp", module, left)
		var c cost
		for path := range packages {
			if !left[path] {
				c.size, c.init = c.size+each[path].size, c.init+each[path].init
			}
		}
		costs[module] = c
	}
	return costs
}

// collectReachable adds the packages that a package needs, without those of a module, to left.
func collectReachable(packages map[string]imported, path, without string, left map[string]bool) {
	p, known := packages[path]
	if !known || left[path] || p.Module.Path == without {
		return
	}
	left[path] = true
	for _, i := range p.Imports {
		collectReachable(packages, i, without, left)
	}
}

func costsOfPackages(t *testing.T, program string) map[string]cost {
	_, code, symbols := measure(t, program)
	each := map[string]cost{}
	for name, s := range symbols {
		size := float64(s.Size)
		if elf.ST_TYPE(s.Info) == elf.STT_FUNC {
			size *= code
		}
		path := packageOf(name)
		c := each[path]
		c.size += int(size)
		each[path] = c
	}
	cmd := exec.Command(program, "version")
	cmd.Env = append(os.Environ(), "GODEBUG=inittrace=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for l := range strings.Lines(string(out)) {
		words := strings.Fields(l) // init PATH @1.2 ms, 0.1 ms clock, 1024 bytes, 7 allocs
		if len(words) < 11 || words[0] != "init" {
			continue
		}
		c := each[words[1]]
		c.init, _ = strconv.Atoi(words[7])
		each[words[1]] = c
	}
	return each
}

// packageOf returns the package of a symbol: "example.com/a.(*T).M" is of example.com/a.
func packageOf(symbol string) string {
	symbol, _, _ = strings.Cut(symbol, "[")
	symbol = strings.TrimLeft(strings.TrimPrefix(symbol, "type:.eq."), "*")
	slash := strings.LastIndexByte(symbol, '/') + 1
	name, _, _ := strings.Cut(symbol[slash:], ".")
	return strings.ReplaceAll(symbol[:slash]+name, "%2e", ".")
}

func run(t *testing.T, name string, args ...string) []byte {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	var out, failed bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &failed
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s: %v: %s", cmp.Or(strings.Join(args, " "), name), err, &failed)
	}
	return out.Bytes()
}
