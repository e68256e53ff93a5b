package cli

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sandboxmcp/sandboxmcp/audit"
	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
	"github.com/sandboxmcp/sandboxmcp/cli/ptytest"
)

// TestAuditOnTerminal runs each command that prints rows on a terminal and checks that no line is wider than it.
func TestAuditOnTerminal(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("XDG_STATE_HOME", dir)
	t.Setenv("XDG_CONFIG_HOME", dir)
	db := filepath.Join(dir, "audit.db")
	log, err := audit.Open(t.Context(), db)
	if err != nil {
		t.Fatal(err)
	}
	evil := "a\x1b]0;owned\x07\u202e\u009b31m" + strings.Repeat("x", 300)
	data := map[string]any{"name": evil, "language": evil}
	_, err = log.Append(t.Context(), audit.Entry{Kind: "execution.started", Run: "RUN", Namespace: evil, Data: data},
		audit.Entry{Kind: "execution.started", Run: "RUN", Namespace: "short", Data: data}) // the namespace must not be cut off a line
	if err != nil {
		t.Fatal(err)
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		"audit", "audit tail", "audit --format json", "audit --format csv", "audit show 1", "audit show 1 --json", "audit verify",
		"audit verify --json",
		"audit export --format jsonl", "audit export --format csv", "audit export --format html", "audit report",
		"audit checkpoint",
	} {
		screen := onTerminal(t, append([]string{"sandboxmcp", "--db", db}, strings.Fields(line)...))
		if strings.ContainsAny(screen, "\x1b\x07\u202e\u009b") {
			t.Errorf("%s: the terminal gets %q", line, screen)
		}
		if !strings.Contains(screen, "\n") {
			t.Errorf("%s: the terminal gets %q", line, screen)
		}
		if line == "audit" || line == "audit tail" {
			for text := range strings.Lines(screen) {
				if len([]rune(strings.TrimRight(text, "\r\n"))) > 80 {
					t.Errorf("%s: wider than the terminal: %q", line, text)
				}
			}
		}
	}
}

// onTerminal runs a command line whose standard output is a terminal of 80 columns.
func onTerminal(t *testing.T, args []string) string {
	t.Helper()
	screen, tty := ptytest.Open(t)
	if err := unix.IoctlSetWinsize(int(tty.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 80}); err != nil {
		t.Fatal(err)
	}
	var seen hosttest.Buffer
	ended := make(chan bool)
	go func() {
		defer close(ended)
		io.Copy(&seen, screen)
	}()
	var stderr hosttest.Buffer
	if code := Main(args, os.Stdin, tty, &stderr); code != 0 {
		t.Errorf("%v: exit code %d: %s", args, code, stderr.String())
	}
	tty.Close()
	<-ended
	return seen.String()
}
