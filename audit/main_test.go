package audit

import (
	"bufio"
	"database/sql"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/audit/schema"
	"github.com/sandboxmcp/sandboxmcp/audit/statefile"
)

// children are the roles of the test binary when it runs as another process that shares a log with the test.
var children = map[string]func(path string, args []string) error{
	"write":  childWrite,  // a number of rows from a number of goroutines
	"runs":   childRuns,   // like a number of runs on the command line
	"hold":   childHold,   // a lock
	"open":   childOpen,   // once, and prints that it begins
	"sign":   childSign,   // appends and signs until it is killed, printing each acknowledged row
	"rotate": childRotate, // appends and rotates until it is killed
	"once":   childOnce,   // appends a row and signs it
}

const childVar = "AUDIT_TEST_CHILD"

func TestMain(m *testing.M) {
	if child, ok := children[os.Getenv(childVar)]; ok {
		if err := child(os.Args[1], os.Args[2:]); err != nil {
			fmt.Println("error:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func command(t testing.TB, name, path string, args ...any) *exec.Cmd {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), exe, path)
	for _, a := range args {
		cmd.Args = append(cmd.Args, fmt.Sprint(a))
	}
	cmd.Env = append(os.Environ(), childVar+"="+name)
	cmd.Stderr = os.Stderr
	return cmd
}

// holdLock makes another process execute statements on the database at path and then hold its locks. release ends
// that process.
func holdLock(t testing.TB, path string, statements ...any) (release func()) {
	t.Helper()
	cmd := command(t, "hold", path, statements...)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "held\n" {
		t.Fatalf("the process that should hold a lock said %q, %v", line, err)
	}
	return func() {
		in.Close()
		cmd.Wait()
	}
}

func childHold(path string, statements []string) error {
	db, err := sql.Open("sqlite", statefile.DataSource(path, schema.LockWait))
	if err != nil {
		return err
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	for _, s := range statements {
		if _, err := db.Exec(s); err != nil {
			return err
		}
	}
	fmt.Println("held")
	os.Stdin.Read(make([]byte, 1))
	return nil
}

// number returns the i-th argument of a child.
func number(args []string, i int) int {
	n, err := strconv.Atoi(args[i])
	if err != nil {
		panic(err)
	}
	return n
}

func logPath(t testing.TB) string {
	return filepath.Join(t.TempDir(), "audit.db")
}

func openLog(t testing.TB, path string) *Log {
	t.Helper()
	l, err := Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// fill appends n rows, run r1 to rn.
func fill(t testing.TB, l *Log, n int) []Row {
	t.Helper()
	var rows []Row
	for i := range n {
		got, err := l.Append(t.Context(), Entry{
			Kind: "execution.completed", Run: fmt.Sprint("r", i+1), Namespace: "default", Data: map[string]int{"n": i + 1},
		})
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, got...)
	}
	return rows
}

func collect(t testing.TB, l *Log, f Filter) []Row {
	t.Helper()
	var rows []Row
	for r, err := range l.Rows(t.Context(), f) {
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, r)
	}
	return rows
}

func wantSound(t testing.TB, l *Log, rows int64) {
	t.Helper()
	r, err := l.Verify(t.Context(), VerifyOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if r.Bad != nil || r.Rows != rows {
		t.Fatalf("Verify: %d rows, bad %+v; want %d good rows", r.Rows, r.Bad, rows)
	}
}

func wantError(t testing.TB, err error, texts ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error; want one that says %q", texts)
	}
	for _, s := range texts {
		if !strings.Contains(err.Error(), s) {
			t.Errorf("error %q does not say %q", err, s)
		}
	}
}
