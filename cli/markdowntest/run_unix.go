//go:build unix

package markdowntest

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	"github.com/sandboxmcp/sandboxmcp/cli/lazy"
)

// Machine is the environment in which the blocks of a file run.
type Machine struct {
	Dir    string // parent of the directories work and home, which Run creates
	Env    []string
	With   string                             // txtar archive of the files in work, with a shell prelude as its comment; optional
	Need   func(t testing.TB, needs []string) // skips a block that this machine can't run
	Update bool                               // replaces outdated output in the file
}

// Run runs the console blocks of the Markdown file path, in order and in one bash. A command without documented output
// must succeed; otherwise the output is compared, except for values that vary and lines of three dots. A comment before
// a block, <!-- needs: chromium, internet -->, lists requirements that not every machine meets.
func Run(t *testing.T, path string, m Machine) {
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(text), "\n")
	found := blocks(lines)
	if len(found) == 0 {
		return
	}
	sh := newShell(t, m)
	differs := false
	for _, b := range found {
		t.Run(fmt.Sprintf("line%d", b.line), func(t *testing.T) {
			m.Need(t, b.needs)
			differs = sh.runBlock(t, b, m.Update) || differs
		})
	}
	if !m.Update || !differs {
		return
	}
	var out []string
	at := 0
	for _, b := range found {
		for _, c := range b.commands {
			out = append(append(out, lines[at:c.from]...), c.printed...)
			at = c.to
		}
	}
	whole := strings.Join(append(out, lines[at:]...), "\n")
	for example, printed := range sh.names { // also in commands and in the text
		whole = strings.ReplaceAll(whole, example, printed)
	}
	if err := os.WriteFile(path, []byte(whole), 0o644); err != nil {
		t.Fatal(err)
	}
}

// shell is a bash that runs all blocks of a file.
type shell struct {
	in     io.Writer
	out    *bufio.Reader
	code   string            // exit code of the last command
	names  map[string]string // values of this run, such as ids, by those in the file
	places *strings.Replacer // replaces directories of this run by the documented ones
}

const endMark = "\x01ended\x01"

func newShell(t *testing.T, m Machine) *shell {
	work, home := filepath.Join(m.Dir, "work"), filepath.Join(m.Dir, "home")
	for _, dir := range []string{work, home} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	prelude := ""
	if a, err := txtar.ParseFile(m.With); err == nil {
		prelude = string(a.Comment)
		for _, f := range a.Files {
			if err := os.WriteFile(filepath.Join(work, f.Name), f.Data, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("bash", "--norc", "--noprofile")
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = work, append(m.Env, "HOME="+home), w, w
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // to kill background processes, too
	in, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	w.Close()
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM)
		in.Close()
		_ = cmd.Wait()
		_, _ = io.Copy(io.Discard, r) // until servers have ended, too: they write to the directory
		r.Close()
	})
	s := &shell{in: in, out: bufio.NewReader(r), code: "0", names: map[string]string{}, places: strings.NewReplacer(work, "/home/ann/work",
		home, "/home/ann", m.Dir, "/run")}
	if lines, code := s.run(t, prelude); code != "0" {
		t.Fatalf("the prelude in %s: %s, %q", m.With, code, lines)
	}
	return s
}

// run executes text and returns its output and exit code.
func (s *shell) run(t *testing.T, text string) (lines []string, code string) {
	fmt.Fprintf(s.in, "{ (exit %s)\n%s\n} </dev/null\nprintf '\\n%s %%s\\n' $?\n", s.code, text, strings.ReplaceAll(endMark, "\x01", `\001`))
	for {
		l, err := s.out.ReadString('\n')
		if err != nil {
			t.Fatalf("the shell ended in %q: %v, after %q", text, err, lines)
		}
		l = strings.TrimSuffix(l, "\n")
		if rest, ended := strings.CutPrefix(l, endMark); ended {
			if n := len(lines); n > 0 && lines[n-1] == "" { // the line end before the mark
				lines = lines[:n-1]
			}
			s.code = strings.TrimSpace(rest)
			return lines, s.code
		}
		lines = append(lines, s.places.Replace(l))
	}
}

// runBlock reports whether the output differs from the documented one, which is an error unless update is set.
func (s *shell) runBlock(t *testing.T, b block, update bool) (differs bool) {
	for _, c := range b.commands {
		got, code := s.run(t, s.substituteValues(c.text))
		if len(c.output) == 0 {
			if code != "0" {
				t.Errorf("%s\nended with exit code %s:\n%s", c.text, code, strings.Join(got, "\n"))
			}
			continue
		}
		s.recordValues(c.output, got)
		want := canonical(c.output)
		differ := !slices.Equal(want, alignDots(want, canonical(got)))
		differs = differs || differ
		if differ && !update {
			t.Errorf("%s\nprints:\n%s\nand the file shows:\n%s", c.text, strings.Join(got, "\n"), strings.Join(c.output, "\n"))
		}
		if differ || !slices.Contains(want, "...") {
			c.printed = nil
			for _, l := range got {
				c.printed = append(c.printed, b.indent+l)
			}
		}
	}
	return differs
}

// recordValues maps documented values to the values of this run.
func (s *shell) recordValues(expected, printed []string) {
	a, b := variableValue().FindAllString(strings.Join(expected, "\n"), -1), variableValue().FindAllString(strings.Join(printed, "\n"), -1)
	for i := range min(len(a), len(b)) {
		if _, known := s.names[a[i]]; !known {
			s.names[a[i]] = b[i]
		}
	}
}

// typedValue matches a value in a command, possibly abbreviated.
var typedValue = lazy.Regexp(`\b01[0-9A-HJKMNP-TV-Z]{2,24}\b|\b[0-9a-f]{64}\b`)

// substituteValues replaces documented values in a command by those of this run.
func (s *shell) substituteValues(text string) string {
	return typedValue().ReplaceAllStringFunc(text, func(short string) string {
		for example, printed := range s.names {
			if strings.HasPrefix(example, short) {
				return printed
			}
		}
		return short
	})
}
