package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
)

// desk is a command on a terminal of its own, with a person who types.
type desk struct {
	t        *testing.T
	cmd      *exec.Cmd
	keyboard *os.File
	tty      *os.File

	mu   sync.Mutex
	seen []byte
}

// sit starts a command on a new terminal.
func sit(t *testing.T, cmd *exec.Cmd) *desk {
	t.Helper()
	keyboard, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		hosttest.Missing(t, "terminal", err.Error())
	}
	number, err := unix.IoctlGetInt(int(keyboard.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(keyboard.Fd()), unix.TIOCSPTLCK, 0)
	}
	var tty *os.File
	if err == nil {
		tty, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	}
	if err != nil {
		hosttest.Missing(t, "terminal", err.Error())
	}
	d := &desk{t: t, cmd: cmd, keyboard: keyboard, tty: tty}
	d.size(80, 24)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = tty, tty, tty
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go io.Copy(d, keyboard)
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
		keyboard.Close()
		tty.Close()
	})
	return d
}

// attach attaches to a session.
func attach(t *testing.T, home string, args ...string) *desk {
	t.Helper()
	return sit(t, command(t.Context(), t, home, append([]string{"session", "attach"}, args...)...))
}

// pasting removes the sequences that switch bracketed paste.
var pasting = strings.NewReplacer("\x1b[?2004h", "", "\x1b[?2004l", "")

func (d *desk) Write(b []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.seen = append(d.seen, b...)
	return len(b), nil
}

func (d *desk) size(columns, rows uint16) {
	if err := unix.IoctlSetWinsize(int(d.keyboard.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Col: columns, Row: rows}); err != nil {
		d.t.Fatal(err)
	}
}

// does types a text and waits for a text on the screen after it.
func (d *desk) does(typed, screen string) string {
	d.t.Helper()
	d.mu.Lock()
	from := len(d.seen)
	d.mu.Unlock()
	if _, err := io.WriteString(d.keyboard, typed); err != nil {
		d.t.Fatal(err)
	}
	return d.sees(from, screen)
}

func (d *desk) sees(from int, screen string) string {
	d.t.Helper()
	var text string
	hosttest.Until(d.t, fmt.Sprintf("the terminal shows %q", screen), func() bool {
		d.mu.Lock()
		defer d.mu.Unlock()
		text = pasting.Replace(string(d.seen[from:]))
		return strings.Contains(text, screen)
	})
	return text
}

// leaves checks that the command ends with a code and restores the terminal.
func (d *desk) leaves(code int) {
	d.t.Helper()
	d.cmd.Wait()
	if got := d.cmd.ProcessState.ExitCode(); got != code {
		d.t.Errorf("it ended with %d, want %d; the terminal shows %q", got, code, d.sees(0, ""))
	}
	mode, err := unix.IoctlGetTermios(int(d.tty.Fd()), unix.TCGETS)
	if err != nil || mode.Lflag&unix.ECHO == 0 || mode.Lflag&unix.ICANON == 0 {
		d.t.Errorf("the terminal is left in another mode: %v", err)
	}
}

func TestAttach(t *testing.T) {
	need(t, "sandbox", "python")
	home := t.TempDir()
	a := startServer(t, home)
	id := a.call("create_session", map[string]any{"language": "python"})["session_id"].(string)
	d := attach(t, home, id[:24])
	d.sees(0, ">>> ")
	d.does("x = 20\r", ">>> ")
	d.does("x + 1\r", "\n21\r\n>>> ")
	d.does("def f(a):\r", "... ")
	d.does("\treturn a * 2\r", "... ")
	d.does("\r", ">>> ")
	d.does("f(21)\r", "\n42\r\n>>> ")
	d.does("prnt('ok')\x1b[D\x1b[D\x1b[D\x1b[D\x1b[D\x1b[D\x1b[D\x1b[D", "prnt") // to the place before the n
	d.does("i\r", "\nok\r\n>>> ")
	d.does("\x1b[A\r", "\nok\r\n>>> ")
	d.does("forgotten\x03", ">>> ")
	d.does(`exec("print('be' + 'gun', flush=True)\nwhile True: pass")`+"\r", "begun\r\n")
	if text := d.does("\x03", "interrupted\r\n>>> "); !strings.Contains(text, "KeyboardInterrupt") {
		t.Errorf("an interrupted cell shows %q", text)
	}
	d.does("print('é日本', '\\x1b[2J\\x07')\r", `é日本 \x1b[2J\x07`+"\r\n>>> ")
	d.size(40, 10)
	d.does(strings.Repeat("1+", 60)+"1\r", "\n61\r\n>>> ")
	d.does("\x1b[200~if x:\r  y = 1\r\r  z = 2\r\x1b[201~", "... ") // pasted, with an empty line
	d.does("\r", ">>> ")
	d.does("y + z\r", "\n3\r\n>>> ")
	d.does(" hidden = 1\r", ">>> ")
	if text := d.does("%state\r", "VARIABLE"); !strings.Contains(text, id) {
		t.Errorf("%%state shows %q", text)
	}

	other := attach(t, home, "--id", id)
	other.sees(0, ">>> ")
	other.does("x\r", "\n20\r\n>>> ")
	other.does("import time; x = 99; print('be' + 'gun', flush=True); time.sleep(0.5)\r", "begun\r\n")
	d.does("x\r", "\n99\r\n>>> ")

	d.does("\x04", "goes on")
	d.leaves(0)
	third := attach(t, home, id)
	third.sees(0, ">>> ")
	third.does("exit()\r", "goes on")
	third.leaves(0)
	other.does("x\r", "\n99\r\n>>> ")
	// Code that ignores interruption loses its interpreter, and the session continues without its variables.
	other.does("while True:\r", "... ")
	other.does("  try: print('be' + 'gun', flush=True); time.sleep(1)\r", "... ")
	other.does("  except: pass\r", "... ")
	other.does("\r", "begun\r\n")
	other.does("\x03", "variables are lost")
	other.does("'x' in globals()\r", "\nFalse\r\n>>> ")
	other.does("%kill\r", "has ended")
	other.leaves(0)

	past := filepath.Join(home, "state/sandboxmcp/history/python")
	text, err := os.ReadFile(past)
	if info, statErr := os.Stat(past); err != nil || statErr != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the history: %v, %v", err, info)
	}
	if !strings.Contains(string(text), "x + 1\n") || strings.Contains(string(text), "hidden") || strings.Contains(string(text), "forgotten") {
		t.Errorf("the history is %q", text)
	}
}

// An attached person is told when the session or its server ends, and the command exits.
func TestAttachedWhenItEnds(t *testing.T) {
	need(t, "sandbox", "bash")
	home := t.TempDir()
	a := startServer(t, home)
	create := func() string {
		return a.call("create_session", map[string]any{"language": "shell"})["session_id"].(string)
	}
	first, second, third := create(), create(), create()
	thinking := attach(t, home, first)
	thinking.sees(0, "$ ")
	busy := attach(t, home, second)
	busy.sees(0, "$ ")
	busy.does("echo begun; sleep 1000\r", "begun\r\n")
	a.call("terminate_session", map[string]any{"session_id": first})
	if text := thinking.sees(0, "it was closed"); !strings.Contains(text, "has ended: it was closed") || strings.Contains(text, "has ended: the session") {
		t.Errorf("who thinks is told %q", text)
	}
	thinking.leaves(1)
	a.call("terminate_session", map[string]any{"session_id": second})
	busy.sees(0, "has ended")
	busy.leaves(1)
	waits := attach(t, home, third)
	waits.sees(0, "$ ")
	works := attach(t, home, create())
	works.sees(0, "$ ")
	works.does("echo begun; sleep 1000\r", "begun\r\n")
	a.cmd.Process.Kill()
	a.cmd.Wait()
	waits.sees(0, "the server has ended")
	waits.leaves(1)
	works.sees(0, "the server has ended")
	works.leaves(1)
}

// A person who types serve is told that it waits for a client, and how to leave.
func TestServeAtATerminal(t *testing.T) {
	need(t, "sandbox")
	d := sit(t, command(t.Context(), t, t.TempDir(), "serve"))
	d.sees(0, "Ctrl-D ends it")
	d.does("\x04", "")
	d.leaves(0)
}
