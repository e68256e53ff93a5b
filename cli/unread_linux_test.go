package cli

import (
	"os"
	"strings"
	"testing"
)

// TestUnreadOutput checks that commands whose reader has stopped end, by their time limit or the end of their input.
func TestUnreadOutput(t *testing.T) {
	home := t.TempDir()
	for name, value := range map[string]string{"HOME": home, "XDG_STATE_HOME": home + "/state", "XDG_CONFIG_HOME": home + "/config",
		"XDG_RUNTIME_DIR": ""} {
		t.Setenv(name, value)
	}
	for _, one := range []struct {
		words string
		code  int
	}{
		{"run --here --timeout 1 --grace 0 --language shell -c yes", 124},
		{"run --here --json --output 300000 --timeout 1 --grace 0 --language shell -c yes", 124},
		{"serve", 0},
	} {
		t.Run(strings.Fields(one.words)[0], func(t *testing.T) {
			stdin, end, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer stdin.Close()
			end.WriteString("garbage\n") // serve responds to it
			end.Close()
			reader, unread, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer unread.Close()
			defer reader.Close() // ends the blocked write
			unread.Fd()          // writes block from now on
			go unread.Write(make([]byte, 1<<20))
			if code := Main(strings.Fields("sandboxmcp "+one.words), stdin, unread, unread); code != one.code {
				t.Errorf("%s: exit code %d, want %d", one.words, code, one.code)
			}
		})
	}
}

// TestServeWithoutLog checks that a server whose log can't be opened ends at its start, instead of refusing each call.
func TestServeWithoutLog(t *testing.T) {
	home := t.TempDir()
	for name, value := range map[string]string{"HOME": home, "XDG_STATE_HOME": home + "/state", "XDG_CONFIG_HOME": home + "/config",
		"XDG_RUNTIME_DIR": ""} {
		t.Setenv(name, value)
	}
	db := home + "/log.db"
	if err := os.WriteFile(db, []byte(strings.Repeat("no log ", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	stdin, open, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	defer open.Close()
	var out, errs strings.Builder
	if code := Main([]string{"sandboxmcp", "--db", db, "serve"}, stdin, &out, &errs); code != 1 ||
		!strings.Contains(errs.String(), "move it") {
		t.Errorf("exit code %d: %s", code, &errs)
	}
}
