package main

import (
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
	d := startOnTerminal(t, command(t.Context(), t, t.TempDir(), "run", "--tty", "--timeout", "1", "--", "bash", "-c", `stty raw -echo; printf '\e[?1049hwaits'; sleep 1000`))
	d.waitForText(0, "\x1b[?1049hwaits\x1b[?1049l")
	d.expectExit(124)
}

// TestTTYStopped checks the same for an impatient person.
func TestTTYStopped(t *testing.T) {
	requireFeatures(t, "sandbox", "bash")
	d := startOnTerminal(t, command(t.Context(), t, t.TempDir(), "run", "--tty", "--grace", "1000", "--", "bash", "-c", `trap '' TERM; echo waits; while :; do sleep 1; done`))
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
