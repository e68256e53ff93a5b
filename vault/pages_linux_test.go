package vault

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
)

// flagsAt returns the kernel's record of the mapping that contains an address: its VmFlags, and the line about its
// locked memory.
func flagsAt(t *testing.T, at uintptr) (flags, locked string) {
	t.Helper()
	smaps, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		t.Fatal(err)
	}
	head, inside := regexp.MustCompile(`^([0-9a-f]+)-([0-9a-f]+) `), false
	for line := range strings.Lines(string(smaps)) {
		if head.MatchString(line) {
			var from, to uintptr
			fmt.Sscanf(line, "%x-%x", &from, &to)
			inside = from <= at && at < to
		}
		switch {
		case !inside:
		case strings.HasPrefix(line, "VmFlags:"):
			flags = line
		case strings.HasPrefix(line, "Locked:"):
			locked = line
		}
	}
	return flags, locked
}

func addressOf(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }

// TestLeasedMemory: a leased value is in memory that is locked and not dumped; so is its matcher.
func TestLeasedMemory(t *testing.T) {
	if !mayLock() {
		hosttest.SkipMissing(t, "RLIMIT_MEMLOCK", "less than 1 MB may be locked")
	}
	if os.Getenv("SANDBOXMCP_TEST_ALONE") == "" { // other tests hold leases, and an ordinary user may lock 8 MB
		cmd := exec.Command(os.Args[0], "-test.run=^TestLeasedMemory$")
		cmd.Env = append(os.Environ(), "SANDBOXMCP_TEST_ALONE=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
		return
	}
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_CORE, &limit); err != nil {
		t.Fatal(err)
	}
	limit.Cur = limit.Max
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &limit); err != nil {
		t.Fatal(err)
	}
	s := sealKeys(t, "KEY")
	l, err := New(s).Lease(t.Context(), "default", []string{"KEY"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	value := l.inner().secrets[0].value
	if !bytes.Equal(value, valueOf("KEY")) {
		t.Fatalf("got %q", value)
	}
	flags, locked := flagsAt(t, addressOf(value))
	if !strings.Contains(flags, " lo") || !strings.Contains(flags, " dd") || strings.Contains(locked, " 0 kB") {
		t.Errorf("the kernel says %s, %s", flags, locked)
	}
	if err := unix.Getrlimit(unix.RLIMIT_CORE, &limit); err != nil || limit.Cur != 0 {
		t.Errorf("core dumps may have %d bytes, %v", limit.Cur, err)
	}
	if _, rest := flagsAt(t, addressOf(bytes.Clone(value))); !strings.Contains(rest, " 0 kB") {
		t.Errorf("all memory is locked, so that this test says nothing: %s", rest)
	}
}

func mayLock() bool {
	var limit unix.Rlimit
	return unix.Getrlimit(unix.RLIMIT_MEMLOCK, &limit) == nil && limit.Cur >= 1<<20
}

// TestNothingMayBeLocked: a process that may not lock memory leases nevertheless, and its values are still not
// dumped.
func TestNothingMayBeLocked(t *testing.T) {
	if os.Getenv("VAULT_TEST_MEMLOCK") == "" {
		program, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command("sh", "-c", `ulimit -l 0 && exec "$0" -test.run '^TestNothingMayBeLocked$' -test.v`, program)
		if os.Geteuid() == 0 { // root may lock memory whatever the limit
			cmd = exec.Command("setpriv", append([]string{"--bounding-set=-ipc_lock", "--inh-caps=-all", "--reuid=65534", "--regid=65534",
				"--clear-groups"}, cmd.Args...)...)
			dir, err := os.MkdirTemp("", "vault") // the test binary's own directory is root's
			if err != nil {
				t.Fatal(err)
			}
			defer os.RemoveAll(dir)
			copied, readErr := os.ReadFile(program)
			if err := os.WriteFile(dir+"/test", copied, 0o755); err != nil || readErr != nil || os.Chmod(dir, 0o755) != nil {
				t.Fatal(err, readErr)
			}
			cmd.Args[len(cmd.Args)-1], cmd.Dir = dir+"/test", dir
		}
		cmd.Env = append(os.Environ(), "VAULT_TEST_MEMLOCK=0", "TMPDIR=/tmp")
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), "--- PASS: TestNothingMayBeLocked") {
			t.Errorf("%v: %s", err, out)
		}
		return
	}
	m := NewMemory()
	if err := m.Set("default", "KEY", valueOf("KEY")); err != nil {
		t.Fatal(err)
	}
	l, err := New(m).Lease(t.Context(), "default", []string{"KEY"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if got := l.Redact("x " + string(valueOf("KEY"))); got != "x "+Mark {
		t.Errorf("got %q", got)
	}
	flags, _ := flagsAt(t, addressOf(l.inner().secrets[0].value))
	if !strings.Contains(flags, " dd") || strings.Contains(flags, " lo") {
		t.Errorf("the kernel says %s", flags)
	}
}

// TestLeasesGiveMemoryBack: closed leases leave no memory mapped and none locked.
func TestLeasesGiveMemoryBack(t *testing.T) {
	m := NewMemory()
	var keys []string
	for i := range 200 {
		keys = append(keys, fmt.Sprint("KEY", i))
		if err := m.Set("default", keys[i], valueOf(keys[i])); err != nil {
			t.Fatal(err)
		}
	}
	v := New(m)
	var leases Leases
	for range 50 {
		l, err := v.Lease(t.Context(), "default", keys)
		if err != nil {
			t.Fatal(err)
		}
		leases = append(leases, l)
	}
	during := v.pages().mapped.Load()
	leases.Close()
	leases.Close() // a second Close does nothing
	if after := v.pages().mapped.Load(); during < 50*int64(os.Getpagesize()) || after != 0 {
		t.Errorf("%d bytes were mapped, and %d are after all are closed", during, after)
	}
}

// TestCoreDump: a core dump does not contain the contents of a lease's pages. gdb writes one like the kernel,
// whatever RLIMIT_CORE is.
func TestCoreDump(t *testing.T) {
	hosttest.Program(t, "gcore")
	if hosttest.Rounds(0, 1) == 0 {
		t.Skip("gdb takes ten seconds, and TestLeasedMemory asks the kernel for the same: SANDBOXMCP_TEST_LONG=1")
	}
	if os.Getenv("VAULT_TEST_CORE") != "" {
		mapped, full := &pages{}, &pages{}
		full.mapped.Store(maxMapped)
		for i, p := range []*pages{mapped, full} { // in pages, and in ordinary memory
			s := p.allocate(4000)
			s.move(unlike(uint32(1 + i)))
			defer s.release()
		}
		fmt.Println("ready")
		os.Stdin.Read(make([]byte, 1))
		return
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "-test.run", "^TestCoreDump$")
	cmd.Env = append(os.Environ(), "VAULT_TEST_CORE=1")
	in, _ := cmd.StdinPipe()
	out, _ := cmd.StdoutPipe()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { in.Close(); cmd.Wait() }()
	if _, err := out.Read(make([]byte, 100)); err != nil {
		t.Fatal(err)
	}
	core := t.TempDir() + "/core"
	if text, err := exec.Command("gcore", "-o", core, fmt.Sprint(cmd.Process.Pid)).CombinedOutput(); err != nil {
		hosttest.SkipMissing(t, "gcore", fmt.Sprintf("%v: %s", err, text))
	}
	dump, err := os.ReadFile(fmt.Sprintf("%s.%d", core, cmd.Process.Pid))
	if err != nil || len(dump) < 1<<20 {
		t.Fatalf("%d bytes, %v", len(dump), err)
	}
	// Some of the ends may still be in registers, which are dumped, too.
	if !bytes.Contains(dump, unlike(2)[1000:3000]) {
		t.Error("what is in ordinary memory is not there either: that tests nothing")
	}
	if bytes.Contains(dump, unlike(1)[1000:1100]) {
		t.Error("the dump holds the value")
	}
}

// unlike returns bytes that no other seed and no program produces; ordinary memory contains them only during their
// generation.
func unlike(seed uint32) []byte {
	b := make([]byte, 4000)
	for i := range b {
		seed = seed*1664525 + 1013904223
		b[i] = byte(seed >> 24)
	}
	return b
}
