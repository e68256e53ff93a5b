package host

import (
	"bytes"
	"debug/elf"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
)

// TestKinds has every program of this machine's system that is a script or no ELF, and every one that calls what starts programs,
// against an operator who has allowed it with any words. What is known by its options alone is tried elsewhere.
func TestKinds(t *testing.T) {
	p := &Policy{}
	starts := []string{"execl", "execlp", "execle", "execv", "execve", "execvp", "execvpe", "posix_spawn", "posix_spawnp", "system", "popen", "dlopen", "JLI_Launch", "g_spawn_sync"}
	scripts, programs, quiet := 0, 0, 0
	for _, dir := range []string{"/usr/bin", "/usr/sbin"} {
		entries, err := os.ReadDir(dir)
		must(t, err)
		for _, e := range entries {
			prog, err := p.Find(filepath.Join(dir, e.Name()))
			if err != nil || !system(prog.Path) {
				continue
			}
			if _, ok := limitOf(prog.Names); ok {
				continue
			}
			head := make([]byte, 4)
			f, err := os.Open(prog.Path)
			if err != nil {
				continue // of root alone
			}
			_, _ = f.Read(head)
			f.Close()
			_, err = p.Decide(Command{Words{prog.Path, "x"}, "/"}, []Pattern{Exactly(Words{prog.Path, "x"})})
			if !bytes.Equal(head, []byte(elf.ELFMAG)) {
				scripts++
				if err == nil {
					t.Errorf("the script %s can be allowed", prog.Path)
				}
				continue
			}
			own, _ := elf.Open(prog.Path)
			symbols, _ := own.ImportedSymbols()
			own.Close()
			if slices.ContainsFunc(symbols, func(s elf.ImportedSymbol) bool { return slices.Contains(starts, s.Name) }) {
				if programs++; err == nil {
					t.Errorf("%s, which starts programs, can be allowed", prog.Path)
				}
			} else if err == nil {
				quiet++
			}
		}
	}
	t.Logf("%d scripts, %d programs that start others, %d that can be allowed", scripts, programs, quiet)
	if scripts == 0 || programs == 0 {
		hosttest.Missing(t, "scripts in /usr/bin", "this system has none")
	}
	if quiet < 20 {
		t.Errorf("only %d programs can be allowed", quiet)
	}
}

// TestKind has what is refused, and what is not, by a file alone, wherever it is.
func TestKind(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"script": "#!/bin/sh\n", "text": "echo x\n", "empty": "", "half": elf.ELFMAG} {
		must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755))
		if kind(filepath.Join(dir, name)) == "" {
			t.Errorf("%s is harmless", name)
		}
	}
	own, err := os.Executable()
	must(t, err)
	for _, path := range []string{own, "/usr/bin/env", "/usr/bin/timeout"} { // the first is Go's, which calls the kernel by itself
		if _, err := os.Stat(path); err == nil && kind(path) == "" {
			t.Errorf("%s is harmless", path)
		}
	}
	for _, command := range []string{"cat x", "head x", "wc x", "sleep 1", "ls -la", "stat x", "nproc", "ps aux", "diff -ru x y", "which x", "git status"} {
		words, err := Parse(command)
		must(t, err)
		if _, err := (&Policy{}).Find(words[0]); err != nil {
			continue
		}
		if _, err := (&Policy{}).Decide(Command{words, "/"}, []Pattern{Exactly(words)}); err != nil {
			t.Errorf("%s: %v", command, err)
		}
	}
	for _, command := range []string{"ps eww", "diff -l x y", "which --x"} {
		words, err := Parse(command)
		must(t, err)
		if _, err := (&Policy{}).Decide(Command{words, "/"}, []Pattern{Exactly(words)}); err == nil {
			t.Errorf("%s can be allowed", command)
		}
	}
}
