package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
)

// TestTTY types into a shell in a sandbox, as a person would.
func TestTTY(t *testing.T) {
	requireFeatures(t, "sandbox", "bash")
	d := startOnTerminal(t, command(t.Context(), t, t.TempDir(), "run", "--tty", "--env", "PS1=?", "--", "bash", "--norc"))
	d.waitForText(0, "?")
	// Input before the prompt, or while a program starts, can be lost, inside and outside of a sandbox.
	d.typeAndWait("tty; stty size\r", "/dev/pts/0\r\n24 80\r\n?")
	d.setSize(132, 50)
	d.typeAndWait("until [ \"$(stty size)\" = '50 132' ]; do :; done; echo as ''wide\r", "as wide\r\n?")
	d.typeAndWait("cat <(echo as ''ready) -\r", "as ready\r\n")
	d.typeAndWait("\x03", "^C\r\n?")
	screen := d.typeAndWait(`printf '\e]0;title\a\e]52;c;aGk=\a\e[21t\e[31m%s\n' here`+"\r", "\x1b[31mhere\r\n?")
	if strings.Contains(screen, "\x1b]") || strings.Contains(screen, "\x1b[21t") {
		t.Errorf("the terminal got %q", screen)
	}
	d.typeAndWait(`printf '\e[?1049h\e[?25l'`+"\r", "\x1b[?25l?")
	d.typeAndWait("exit 7\r", "\x1b[?1049l\x1b[?25h") // bash did not restore it
	d.expectExit(7)
}

// TestTTYKilled checks that a run that is ended from outside leaves a usable terminal.
func TestTTYKilled(t *testing.T) {
	requireFeatures(t, "sandbox", "bash")
	d := startOnTerminal(t, command(t.Context(), t, t.TempDir(), "run", "--tty", "--timeout", "1", "--", "bash", "-c",
		`stty raw -echo; printf '\e[?1049hwaits'; sleep 1000`))
	d.waitForText(0, "\x1b[?1049hwaits\x1b[?1049l")
	d.expectExit(124)
}

// TestTTYStopped checks the same for an impatient person.
func TestTTYStopped(t *testing.T) {
	requireFeatures(t, "sandbox", "bash")
	d := startOnTerminal(t, command(t.Context(), t, t.TempDir(), "run", "--tty", "--grace", "1000", "--", "bash", "-c",
		`trap '' TERM; echo waits; while :; do sleep 1; done`))
	d.waitForText(0, "waits")
	over := make(chan struct{})
	go func() {
		d.cmd.Wait()
		close(over)
	}()
	hosttest.Until(t, "signals have ended it", func() bool { return d.cmd.Process.Signal(syscall.SIGTERM) != nil })
	<-over
	d.expectExit(128 + int(syscall.SIGTERM))
}

// TestTTYCode checks that typed code leaves the keyboard to the program.
func TestTTYCode(t *testing.T) {
	requireFeatures(t, "sandbox", "bash")
	d := startOnTerminal(t, command(t.Context(), t, t.TempDir(), "run", "--tty", "--language", "shell", "-"))
	d.typeAndWait("read -p 'name? ' x; echo \"hello $x\"; exit 5\n\x04", "\nname? ")
	d.typeAndWait("Jo\r", "hello Jo\r\n")
	d.expectExit(5)
}

// TestTTYChanges checks that a person at a terminal decides about a program's changes.
func TestTTYChanges(t *testing.T) {
	requireFeatures(t, "sandbox", "bash")
	dir := t.TempDir()
	file := filepath.Join(dir, "a.txt")
	const prompt = "[apply, show, drop, keep] "
	ask := func() *terminalUser {
		t.Helper()
		if err := os.WriteFile(file, []byte("one\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		d := startOnTerminal(t, command(t.Context(), t, dir, "run", "--workspace", dir, "--changes", "--", "bash", "-c", "echo two >>a.txt"))
		d.waitForText(0, prompt)
		d.typeAndWait("what\r", prompt) // which is early, or no choice: it is asked again
		return d
	}
	content := func(want string) {
		t.Helper()
		if b, err := os.ReadFile(file); err != nil || string(b) != want {
			t.Errorf("a.txt has %q, %v; want %q", b, err, want)
		}
	}
	d := ask()
	d.typeAndWait("show\r", "+two")
	content("one\n")
	d.typeAndWait("a\r", "applied 1 path")
	d.expectExit(0)
	content("one\ntwo\n")
	d = ask()
	d.typeAndWait("\r", "")
	d.expectExit(0)
	content("one\n")
	d = ask()
	d.typeAndWait("drop\r", "dropped")
	d.expectExit(0)
	content("one\n")
}
