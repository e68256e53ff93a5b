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

// terminalUser is a command on a terminal of its own, with a person who types.
type terminalUser struct {
	t        *testing.T
	cmd      *exec.Cmd
	keyboard *os.File
	tty      *os.File

	mu   sync.Mutex
	seen []byte
}

// startOnTerminal starts a command on a new terminal.
func startOnTerminal(t *testing.T, cmd *exec.Cmd) *terminalUser {
	t.Helper()
	keyboard, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		hosttest.SkipMissing(t, "terminal", err.Error())
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
		hosttest.SkipMissing(t, "terminal", err.Error())
	}
	d := &terminalUser{t: t, cmd: cmd, keyboard: keyboard, tty: tty}
	d.setSize(80, 24)
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
func attach(t *testing.T, home string, args ...string) *terminalUser {
	t.Helper()
	return startOnTerminal(t, command(t.Context(), t, home, append([]string{"session", "attach"}, args...)...))
}

// pasteSequences removes the sequences that switch bracketed paste.
var pasteSequences = strings.NewReplacer("\x1b[?2004h", "", "\x1b[?2004l", "")

func (d *terminalUser) Write(b []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.seen = append(d.seen, b...)
	return len(b), nil
}

func (d *terminalUser) setSize(columns, rows uint16) {
	if err := unix.IoctlSetWinsize(int(d.keyboard.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Col: columns, Row: rows}); err != nil {
		d.t.Fatal(err)
	}
}

// typeAndWait types a text and waits for a text on the screen after it.
func (d *terminalUser) typeAndWait(typed, screen string) string {
	d.t.Helper()
	d.mu.Lock()
	from := len(d.seen)
	d.mu.Unlock()
	if _, err := io.WriteString(d.keyboard, typed); err != nil {
		d.t.Fatal(err)
	}
	return d.waitForText(from, screen)
}

func (d *terminalUser) waitForText(from int, screen string) string {
	d.t.Helper()
	var text string
	hosttest.Until(d.t, fmt.Sprintf("the terminal shows %q", screen), func() bool {
		d.mu.Lock()
		defer d.mu.Unlock()
		text = pasteSequences.Replace(string(d.seen[from:]))
		return strings.Contains(text, screen)
	})
	return text
}

// expectExit checks that the command ends with a code and restores the terminal.
func (d *terminalUser) expectExit(code int) {
	d.t.Helper()
	d.cmd.Wait()
	if got := d.cmd.ProcessState.ExitCode(); got != code {
		d.t.Errorf("it ended with %d, want %d; the terminal shows %q", got, code, d.waitForText(0, ""))
	}
	mode, err := unix.IoctlGetTermios(int(d.tty.Fd()), unix.TCGETS)
	if err != nil || mode.Lflag&unix.ECHO == 0 || mode.Lflag&unix.ICANON == 0 {
		d.t.Errorf("the terminal is left in another mode: %v", err)
	}
}

func TestAttach(t *testing.T) {
	requireFeatures(t, "sandbox", "python")
	home := t.TempDir()
	a := startServer(t, home)
	id := a.call("create_session", map[string]any{"language": "python"})["session_id"].(string)
	d := attach(t, home, id[:24])
	d.waitForText(0, ">>> ")
	d.typeAndWait("x = 20\r", ">>> ")
	d.typeAndWait("x + 1\r", "\n21\r\n>>> ")
	d.typeAndWait("def f(a):\r", "... ")
	d.typeAndWait("\treturn a * 2\r", "... ")
	d.typeAndWait("\r", ">>> ")
	d.typeAndWait("f(21)\r", "\n42\r\n>>> ")
	d.typeAndWait("prnt('ok')\x1b[D\x1b[D\x1b[D\x1b[D\x1b[D\x1b[D\x1b[D\x1b[D", "prnt") // to the place before the n
	d.typeAndWait("i\r", "\nok\r\n>>> ")
	d.typeAndWait("\x1b[A\r", "\nok\r\n>>> ")
	d.typeAndWait("forgotten\x03", ">>> ")
	d.typeAndWait(`exec("print('be' + 'gun', flush=True)\nwhile True: pass")`+"\r", "begun\r\n")
	if text := d.typeAndWait("\x03", "interrupted\r\n>>> "); !strings.Contains(text, "KeyboardInterrupt") {
		t.Errorf("an interrupted cell shows %q", text)
	}
	d.typeAndWait("print('é日本', '\\x1b[2J\\x07')\r", `é日本 \x1b[2J\x07`+"\r\n>>> ")
	d.setSize(40, 10)
	d.typeAndWait(strings.Repeat("1+", 60)+"1\r", "\n61\r\n>>> ")
	d.typeAndWait("\x1b[200~if x:\r  y = 1\r\r  z = 2\r\x1b[201~", "... ") // pasted, with an empty line
	d.typeAndWait("\r", ">>> ")
	d.typeAndWait("y + z\r", "\n3\r\n>>> ")
	d.typeAndWait(" hidden = 1\r", ">>> ")
	if text := d.typeAndWait("%state\r", "VARIABLE"); !strings.Contains(text, id) {
		t.Errorf("%%state shows %q", text)
	}

	other := attach(t, home, "--id", id)
	other.waitForText(0, ">>> ")
	other.typeAndWait("x\r", "\n20\r\n>>> ")
	other.typeAndWait("import time; x = 99; print('be' + 'gun', flush=True); time.sleep(0.5)\r", "begun\r\n")
	d.typeAndWait("x\r", "\n99\r\n>>> ")

	d.typeAndWait("\x04", "keeps running")
	d.expectExit(0)
	third := attach(t, home, id)
	third.waitForText(0, ">>> ")
	third.typeAndWait("exit()\r", "keeps running")
	third.expectExit(0)
	other.typeAndWait("x\r", "\n99\r\n>>> ")
	// Code that ignores interruption loses its interpreter, and the session continues without its variables.
	other.typeAndWait("while True:\r", "... ")
	other.typeAndWait("  try: print('be' + 'gun', flush=True); time.sleep(1)\r", "... ")
	other.typeAndWait("  except: pass\r", "... ")
	other.typeAndWait("\r", "begun\r\n")
	other.typeAndWait("\x03", "variables are lost")
	other.typeAndWait("'x' in globals()\r", "\nFalse\r\n>>> ")
	other.typeAndWait("%kill\r", "has ended")
	other.expectExit(0)

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
	requireFeatures(t, "sandbox", "bash")
	home := t.TempDir()
	a := startServer(t, home)
	create := func() string {
		return a.call("create_session", map[string]any{"language": "shell"})["session_id"].(string)
	}
	first, second, third := create(), create(), create()
	thinking := attach(t, home, first)
	thinking.waitForText(0, "$ ")
	busy := attach(t, home, second)
	busy.waitForText(0, "$ ")
	busy.typeAndWait("echo begun; sleep 1000\r", "begun\r\n")
	a.call("terminate_session", map[string]any{"session_id": first})
	if text := thinking.waitForText(0, "it was closed"); !strings.Contains(text, "has ended: it was closed") ||
		strings.Contains(text, "has ended: the session") {
		t.Errorf("who thinks is told %q", text)
	}
	thinking.expectExit(1)
	a.call("terminate_session", map[string]any{"session_id": second})
	busy.waitForText(0, "has ended")
	busy.expectExit(1)
	waits := attach(t, home, third)
	waits.waitForText(0, "$ ")
	works := attach(t, home, create())
	works.waitForText(0, "$ ")
	works.typeAndWait("echo begun; sleep 1000\r", "begun\r\n")
	a.cmd.Process.Kill()
	a.cmd.Wait()
	waits.waitForText(0, "the server has ended")
	waits.expectExit(1)
	works.waitForText(0, "the server has ended")
	works.expectExit(1)
}

// A person who types serve is told that it waits for a client, and how to leave.
func TestServeAtATerminal(t *testing.T) {
	requireFeatures(t, "sandbox")
	d := startOnTerminal(t, command(t.Context(), t, t.TempDir(), "serve"))
	d.waitForText(0, "Ctrl-D ends it")
	d.typeAndWait("\x04", "")
	d.expectExit(0)
}
