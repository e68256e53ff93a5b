package cli

import (
	"io"
	"os"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
	"github.com/sandboxmcp/sandboxmcp/cli/exit"
	"github.com/sandboxmcp/sandboxmcp/cli/ptytest"
)

func hasEcho(t *testing.T, tty *os.File) bool {
	t.Helper()
	mode, err := unix.IoctlGetTermios(int(tty.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	return mode.Lflag&unix.ECHO != 0
}

// TestAskValue types a value, and interrupts the question: the terminal shows it neither time, and echoes again
// afterwards.
func TestAskValue(t *testing.T) {
	const value = "correct" + "-horse"
	for name, c := range map[string]struct {
		answer func(keyboard io.Writer)
		code   int
		says   string
	}{
		"typed":       {func(w io.Writer) { io.WriteString(w, value+"\n") }, 0, "added KEY"},
		"empty":       {func(w io.Writer) { io.WriteString(w, "\n") }, exit.BadUsage, "the value is empty"},
		"too long":    {func(w io.Writer) { io.WriteString(w, strings.Repeat("x", 5000)+"\n") }, exit.BadUsage, "the terminal may have cut it"},
		"quit":        {func(io.Writer) { syscall.Kill(os.Getpid(), syscall.SIGQUIT) }, exit.Failed, "interrupted: nothing was added"},
		"interrupted": {func(io.Writer) { syscall.Kill(os.Getpid(), syscall.SIGINT) }, exit.Failed, "interrupted: nothing was added"},
	} {
		t.Run(name, func(t *testing.T) {
			home := t.TempDir()
			t.Setenv("HOME", home)
			t.Setenv("XDG_STATE_HOME", home)
			t.Setenv("XDG_CONFIG_HOME", home)
			keyboard, tty := ptytest.Open(t)
			var stderr hosttest.Buffer
			code := make(chan int, 1)
			go func() { code <- Main([]string{"sandboxmcp", "vault", "add", "KEY"}, tty, &stderr, &stderr) }()
			hosttest.Until(t, "it asks, and does not show what is typed", func() bool { return !hasEcho(t, tty) })
			c.answer(keyboard)
			if got := <-code; got != c.code || !strings.Contains(stderr.String(), c.says) {
				t.Errorf("exit code %d, want %d: %s", got, c.code, stderr.String())
			}
			if !hasEcho(t, tty) {
				t.Error("the terminal does not show any more what is typed")
			}
			tty.Write([]byte("end"))
			screen := make([]byte, 1000)
			n, err := keyboard.Read(screen)
			if err != nil || strings.Contains(string(screen[:n]), value) || strings.Contains(stderr.String(), value) {
				t.Errorf("shown: %q, %v", screen[:n], err)
			}
		})
	}
}
