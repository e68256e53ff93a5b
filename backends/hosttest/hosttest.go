// Package hosttest reports which features this machine has, and waits for conditions.
//
// Tests of every stage import it; it imports no other package of this module.
package hosttest

import (
	"bytes"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// Buffer is a writer that may be read while it is written to.
type Buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *Buffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *Buffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// SkipMissing skips a test that needs thing, or fails it if SANDBOXMCP_TEST_REQUIRE (comma-separated names)
// contains thing or "all". why describes the attempt and its result.
func SkipMissing(t testing.TB, thing, why string) {
	t.Helper()
	if IsRequired(thing) {
		t.Fatalf("%s is required by SANDBOXMCP_TEST_REQUIRE: %s", thing, why)
	}
	t.Skipf("%s: %s", thing, why)
}

// IsRequired reports whether SANDBOXMCP_TEST_REQUIRE contains thing or "all".
func IsRequired(thing string) bool {
	required := strings.Split(os.Getenv("SANDBOXMCP_TEST_REQUIRE"), ",")
	return slices.Contains(required, thing) || slices.Contains(required, "all")
}

// Program returns the path of a program that the test needs. If it is missing, see SkipMissing.
func Program(t testing.TB, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		SkipMissing(t, name, err.Error())
	}
	return path
}

// Rounds returns small, or large if SANDBOXMCP_TEST_LONG is set: the number of rounds of a test that finds more
// mistakes the longer it runs. The small number must find the same kind of mistake.
func Rounds(small, large int) int {
	if os.Getenv("SANDBOXMCP_TEST_LONG") != "" {
		return large
	}
	return small
}

// reserve is the part of the test's time that Until leaves for the cleanup.
const reserve = 10 * time.Second

// Until polls until ok returns true. Otherwise it fails the test shortly before the deadline of the test binary (go
// test -timeout, ten minutes by default): a slow machine is not a failure. what names the missing condition: "the
// second run is queued".
func Until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	end := time.Now().Add(10 * time.Minute)
	if d, is := t.(interface{ Deadline() (time.Time, bool) }); is {
		if deadline, is := d.Deadline(); is {
			end = deadline.Add(-reserve)
		}
	}
	start := time.Now()
	for pause := time.Millisecond; !ok(); pause = min(2*pause, 50*time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("after %v it is still not so that %s", time.Since(start).Round(time.Second), what)
		}
		time.Sleep(pause)
	}
}
