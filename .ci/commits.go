// Command commits checks that each commit of a landing compiles and passes vet, so that git bisect can stop at any of
// them.
//
//	go run .ci/commits.go [BASE]
//
// The commits are those of HEAD that BASE has not. The default of BASE is the commit where HEAD has left the remote's
// branch; in a clone of a landed branch that is HEAD itself, and nobody knows which commits are new: then they are
// those of the last week, 150 at most.
//
// Compiling all packages that import a changed one takes half a minute of a core, for each commit. So all packages with
// their tests are checked as the compiler's front end does, from source, in a second for each commit; packages that did
// not change, and import none that did, are checked only once. The changed packages are vetted, which compiles their
// imports, as long as there is time. HEAD itself is compiled and vetted as a whole by .ci/run.
package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// first is the oldest commit that is looked at: before it, commits were not checked as they landed, and some do not
// compile.
const first = "6e628ce50765fedcaf81bbb8a1cbbbcf71fe508b"

// Limits: of the commits that are checked, of the errors that are printed for each, and of the time of all runs of vet,
// which compiles the imports.
const (
	maxCommits = 150
	maxErrors  = 5
	vetTime    = 100 * time.Second
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	commits, err := landing()
	if err != nil {
		return err
	}
	copied, err := os.MkdirTemp("", "sandboxmcp-commits-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(copied)
	if err := shareObjects(copied); err != nil {
		return err
	}
	if err := os.Chdir(copied); err != nil {
		return err
	}
	os.Setenv("GOFLAGS", "-trimpath") // copies in other directories share the build cache
	os.Setenv("CGO_ENABLED", "0")
	c, failed := &checker{}, 0
	for _, commit := range commits {
		if err := c.check(commit); err != nil {
			failed++
			subject, _ := output("git", "log", "-1", "--format=%h %s", commit)
			fmt.Printf("%s does not compile:\n%v\n", strings.TrimSpace(subject), err)
		}
	}
	fmt.Printf("%d commits were checked, %d do not compile\n", len(commits), failed)
	if c.unvetted > 0 {
		fmt.Printf("the last %d were type-checked alone: vet took %v\n", c.unvetted, c.vetted.Round(time.Second))
	}
	if failed > 0 {
		return errors.New("each commit must compile and pass vet")
	}
	return nil
}

// shareObjects makes a repository in dir that has the objects of this one, also of one that is another user's, which
// git does not clone.
func shareObjects(dir string) error {
	objects, err := output("git", "rev-parse", "--git-path", "objects")
	if err == nil {
		objects, err = filepath.Abs(strings.TrimSpace(objects))
	}
	if err == nil {
		_, err = output("git", "init", "-q", dir)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, ".git/objects/info/alternates"), []byte(objects+"\n"), 0o644)
	}
	return err
}

// landing lists the commits to check, the oldest first.
func landing() ([]string, error) {
	args := []string{"rev-list", "--reverse", "--topo-order", fmt.Sprintf("--max-count=%d", maxCommits), "HEAD"}
	head, err := output("git", "rev-parse", "HEAD")
	if err != nil {
		return nil, err
	}
	base, _ := output("git", "merge-base", "HEAD", "origin/HEAD")
	if len(os.Args) > 1 {
		if base, err = output("git", "rev-parse", os.Args[1]+"^{commit}"); err != nil {
			return nil, err
		}
	}
	if base == "" || base == head {
		base = first
		args = append(args, "--since=7 days ago")
	}
	if _, err := output("git", "cat-file", "-e", strings.TrimSpace(base)+"^{commit}"); err == nil {
		args = append(args, "^"+strings.TrimSpace(base))
	}
	list, err := output("git", args...)
	return strings.Fields(list), err
}

// output runs a command and returns its standard output. Its error contains the command's message.
func output(name string, args ...string) (string, error) {
	if name == "git" { // CI's clone may be another user's
		args = append([]string{"-c", "safe.directory=*"}, args...)
	}
	var out, complaints bytes.Buffer
	cmd := exec.Command(name, args...)
	cmd.Stdout, cmd.Stderr = &out, &complaints
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("%s: %v\n%s", name, err, bytes.TrimSpace(complaints.Bytes()))
	}
	return out.String(), nil
}

// pkg is a package of ours, as go list has it.
type pkg struct {
	ImportPath, Dir                    string
	GoFiles, TestGoFiles, XTestGoFiles []string
	Imports, TestImports, XTestImports []string
}

// checker checks one commit after the other, and remembers the packages that it has checked.
type checker struct {
	modules  string            // go.mod and go.sum, as git names them
	exports  map[string]string // files with the types of packages of others
	foreign  types.Importer
	fset     *token.FileSet
	checked  map[string]checked // by what a package is made of
	packages map[string]*pkg    // of this commit, by import path
	blobs    map[string]string  // of this commit: what git calls the content of a file
	keys     map[string]string  // of this commit
	vetted   time.Duration      // that vet has taken
	unvetted int                // commits for which it had no time left
}

type checked struct {
	types *types.Package
	err   error
}

func (c *checker) check(commit string) error {
	if _, err := output("git", "checkout", "-q", "--detach", commit); err != nil {
		return err
	}
	if err := c.list(commit); err != nil {
		return err
	}
	var errs []error
	for _, p := range c.packages {
		_, err := c.load(p.ImportPath, "")
		errs = append(errs, err)
		if len(p.TestGoFiles) > 0 {
			_, err := c.load(p.ImportPath, p.ImportPath)
			errs = append(errs, err)
		}
		if len(p.XTestGoFiles) > 0 {
			_, err := c.load(p.ImportPath+"_test", p.ImportPath)
			errs = append(errs, err)
		}
	}
	if errs = slices.DeleteFunc(errs, func(err error) bool { return err == nil }); len(errs) > 0 {
		return errors.Join(errs[:min(len(errs), maxErrors)]...)
	}
	return c.vet(commit)
}

// list reads which packages a commit has, and of which files.
func (c *checker) list(commit string) error {
	tree, err := output("git", "ls-tree", "-r", "-z", commit)
	if err != nil {
		return err
	}
	c.blobs = map[string]string{}
	for line := range strings.SplitSeq(tree, "\x00") {
		if info, name, found := strings.Cut(line, "\t"); found {
			c.blobs[name] = strings.Fields(info)[2]
		}
	}
	// EmbedFiles are not read: that one is missing is an error of go list.
	const fields = "ImportPath,Dir,GoFiles,TestGoFiles,XTestGoFiles,Imports,TestImports,XTestImports,EmbedFiles,TestEmbedFiles"
	text, err := output("go", "list", "-json="+fields, "./...")
	if err != nil {
		return err
	}
	c.packages, c.keys = map[string]*pkg{}, map[string]string{}
	outside := map[string]bool{}
	for d := json.NewDecoder(strings.NewReader(text)); ; {
		p := new(pkg)
		if err := d.Decode(p); err == io.EOF {
			break
		} else if err != nil {
			return err
		}
		c.packages[p.ImportPath] = p
		for _, i := range slices.Concat(p.Imports, p.TestImports, p.XTestImports) {
			outside[i] = true
		}
	}
	for i := range outside {
		if c.packages[i] != nil || i == "unsafe" || i == "C" {
			delete(outside, i)
		}
	}
	return c.findForeign(outside)
}

// findForeign has go compile the packages of others that ours import, once.
func (c *checker) findForeign(paths map[string]bool) error {
	if modules := c.blobs["go.mod"] + c.blobs["go.sum"]; modules != c.modules {
		c.modules, c.exports, c.checked, c.fset = modules, map[string]string{}, map[string]checked{}, token.NewFileSet()
		c.foreign = importer.ForCompiler(c.fset, "gc", func(path string) (io.ReadCloser, error) { return os.Open(c.exports[path]) })
	}
	args := []string{"list", "-export", "-f", "{{.ImportPath}}\t{{.Export}}"}
	for p := range paths {
		if c.exports[p] == "" {
			args = append(args, p)
		}
	}
	if len(args) == 4 {
		return nil
	}
	found, err := output("go", args...)
	for line := range strings.Lines(found) {
		p, file, _ := strings.Cut(strings.TrimSpace(line), "\t")
		c.exports[p] = file
	}
	return err
}

// files returns the files and the imports of a package. tested is the package whose tests are checked: they are part of
// it then.
func (c *checker) files(p string, tested string) (of *pkg, files, imports []string) {
	if own, external := strings.CutSuffix(p, "_test"); external && c.packages[p] == nil {
		of = c.packages[own]
		return of, of.XTestGoFiles, of.XTestImports
	}
	if of = c.packages[p]; p == tested {
		return of, slices.Concat(of.GoFiles, of.TestGoFiles), slices.Concat(of.Imports, of.TestImports)
	}
	return of, of.GoFiles, of.Imports
}

// key names the content of a package, and of all our packages that it imports.
func (c *checker) key(p, tested string) string {
	if k, done := c.keys[p+" "+tested]; done {
		return k
	}
	of, files, imports := c.files(p, tested)
	h := sha256.New()
	fmt.Fprintln(h, p)
	for _, f := range files {
		fmt.Fprintln(h, f, c.blobs[path.Join(c.relative(of), f)])
	}
	for _, i := range slices.Compact(slices.Sorted(slices.Values(imports))) {
		if c.packages[i] != nil {
			fmt.Fprintln(h, i, c.key(i, tested))
		}
	}
	k := fmt.Sprintf("%x", h.Sum(nil))
	c.keys[p+" "+tested] = k
	return k
}

func (c *checker) relative(of *pkg) string {
	here, _ := os.Getwd()
	rel, _ := filepath.Rel(here, of.Dir)
	return filepath.ToSlash(rel)
}

// load checks a package, unless it was checked before.
func (c *checker) load(p, tested string) (*types.Package, error) {
	k := c.key(p, tested)
	if done, is := c.checked[k]; is {
		return done.types, done.err
	}
	of, names, _ := c.files(p, tested)
	var parsed []*ast.File
	var errs []error
	for _, name := range names {
		label := filepath.Join(c.relative(of), name)
		file, err := parser.ParseFile(c.fset, label, mustRead(filepath.Join(of.Dir, name)), parser.SkipObjectResolution)
		if err != nil {
			errs = append(errs, err)
		}
		parsed = append(parsed, file)
	}
	config := types.Config{
		Importer: importing(func(i string) (*types.Package, error) {
			if i == "unsafe" {
				return types.Unsafe, nil
			}
			if c.packages[i] != nil {
				q, _ := c.load(i, tested) // whose errors are its own
				return q, nil
			}
			return c.foreign.Import(i)
		}),
		Sizes: types.SizesFor("gc", "amd64"),
		Error: func(err error) { errs = append(errs, err) },
	}
	result, _ := config.Check(p, c.fset, parsed, nil) // errs has all
	c.checked[k] = checked{result, errors.Join(errs[:min(len(errs), maxErrors)]...)}
	return result, c.checked[k].err
}

func mustRead(file string) []byte {
	text, err := os.ReadFile(file)
	if err != nil {
		panic(err)
	}
	return text
}

type importing func(string) (*types.Package, error)

func (f importing) Import(p string) (*types.Package, error) { return f(p) }

// vet vets the packages that a commit changes.
func (c *checker) vet(commit string) error {
	names, err := output("git", "diff-tree", "-r", "-m", "--root", "--no-commit-id", "--name-only", "-z", commit)
	if err != nil {
		return err
	}
	args := []string{"vet"}
	for _, p := range c.packages {
		dir := c.relative(p) + "/"
		for name := range strings.SplitSeq(names, "\x00") {
			if rest, inside := strings.CutPrefix(name, dir); inside && strings.HasSuffix(rest, ".go") && !strings.Contains(rest, "/") {
				args = append(args, p.ImportPath)
				break
			}
		}
	}
	if len(args) == 1 {
		return nil
	}
	if c.vetted > vetTime {
		c.unvetted++
		return nil
	}
	began := time.Now()
	_, err = output("go", args...)
	c.vetted += time.Since(began)
	return err
}
