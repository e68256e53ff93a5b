package main

import (
	"strings"
	"syscall"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
)

// TestTTY types into a shell in a sandbox, as a person would.
func TestTTY(t *testing.T) {
	need(t, "sandbox", "bash")
	d := sit(t, command(t.Context(), t, t.TempDir(), "run", "--tty", "--env", "PS1=?", "--", "bash", "--norc"))
	d.sees(0, "?")
	// Input before the prompt, or while a program starts, can be lost, inside and outside of a sandbox.
	d.does("tty; stty size\r", "/dev/pts/0\r\n24 80\r\n?")
	d.size(132, 50)
	d.does("until [ \"$(stty size)\" = '50 132' ]; do :; done; echo as ''wide\r", "as wide\r\n?")
	d.does("cat <(echo as ''ready) -\r", "as ready\r\n")
	d.does("\x03", "^C\r\n?")
	screen := d.does(`printf '\e]0;title\a\e]52;c;aGk=\a\e[21t\e[31m%s\n' here`+"\r", "\x1b[31mhere\r\n?")
	if strings.Contains(screen, "\x1b]") || strings.Contains(screen, "\x1b[21t") {
		t.Errorf("the terminal got %q", screen)
	}
	d.does(`printf '\e[?1049h\e[?25l'`+"\r", "\x1b[?25l?")
	d.does("exit 7\r", "\x1b[?1049l\x1b[?25h") // bash did not restore it
	d.leaves(7)
}

// TestTTYKilled checks that a run that is ended from outside leaves a usable terminal.
func TestTTYKilled(t *testing.T) {
	need(t, "sandbox", "bash")
	d := sit(t, command(t.Context(), t, t.TempDir(), "run", "--tty", "--timeout", "1", "--", "bash", "-c", `stty raw -echo; printf '\e[?1049hwaits'; sleep 1000`))
	d.sees(0, "\x1b[?1049hwaits\x1b[?1049l")
	d.leaves(124)
}

// TestTTYStopped checks the same for an impatient person.
func TestTTYStopped(t *testing.T) {
	need(t, "sandbox", "bash")
	d := sit(t, command(t.Context(), t, t.TempDir(), "run", "--tty", "--grace", "1000", "--", "bash", "-c", `trap '' TERM; echo waits; while :; do sleep 1; done`))
	d.sees(0, "waits")
	over := make(chan struct{})
	go func() {
		d.cmd.Wait()
		close(over)
	}()
	hosttest.Until(t, "signals have ended it", func() bool { return d.cmd.Process.Signal(syscall.SIGTERM) != nil })
	<-over
	d.leaves(128 + int(syscall.SIGTERM))
}

// TestTTYCode checks that typed code leaves the keyboard to the program.
func TestTTYCode(t *testing.T) {
	need(t, "sandbox", "bash")
	d := sit(t, command(t.Context(), t, t.TempDir(), "run", "--tty", "--language", "shell", "-"))
	d.does("read -p 'name? ' x; echo \"hello $x\"; exit 5\n\x04", "\nname? ")
	d.does("Jo\r", "hello Jo\r\n")
	d.leaves(5)
}
