package backends

import (
	"strings"
	"testing"
	"time"
)

// TestVisibleTextsAreEquallyLong: a text can overwrite another while programs read.
func TestVisibleTextsAreEquallyLong(t *testing.T) {
	for _, ram := range []int64{16 << 20, 512 << 20, 3 << 40} {
		want := len(MemInfo(ram, 0))
		for _, used := range []int64{-1, 1, ram / 2, ram, 2 * ram} {
			if got := len(MemInfo(ram, used)); got != want {
				t.Errorf("/proc/meminfo of %d with %d in use has %d bytes, want %d", ram, used, got, want)
			}
		}
	}
	want := len(ProcStat("btime 1\n", 2, 0, 0))
	if got := len(ProcStat("btime 1\n", 2, 90*time.Hour, 100*time.Hour)); got != want {
		t.Errorf("/proc/stat after hours has %d bytes, want %d", got, want)
	}
}

func TestProcStat(t *testing.T) {
	got := strings.Fields(ProcStat("cpu  9 9 9 9\nbtime 1795830209\nctxt 5\n", 2, 3*time.Second, 10*time.Second))
	text := strings.Join(got, " ")
	for _, want := range []string{"cpu 300 0 0 1700 ", " cpu0 150 0 0 850 ", " cpu1 150 0 0 850 ", " btime 1795830209 "} {
		if !strings.Contains(text+" ", want) {
			t.Errorf("%q is not in %q", want, text)
		}
	}
}

func TestCPUInfo(t *testing.T) {
	const one = "processor\t: 0\nmodel name\t: M\nsiblings\t: 64\n\n"
	for name, c := range map[string]struct {
		host       string
		processors int
		want       string
	}{
		"one of two": {one + strings.Replace(one, ": 0", ": 1", 1), 1, "processor\t: 0\nmodel name\t: M\nsiblings\t: 1\n\n"},
		"no more":    {one, 4, ""},
		"another":    {"vendor_id: IBM\n# processors: 2\n\n", 1, ""},
		"nothing":    {"", 1, ""},
	} {
		if got := CPUInfo(c.host, c.processors); got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}

func TestCores(t *testing.T) {
	for _, c := range []struct {
		limit       float64
		there, want int
	}{{0.1, 8, 1}, {1, 8, 1}, {1.0001, 8, 1}, {1.5, 8, 2}, {2, 8, 2}, {16, 8, 8}, {0, 8, 1}} {
		if got := Cores(c.limit, c.there); got != c.want {
			t.Errorf("%v of %d: got %d, want %d", c.limit, c.there, got, c.want)
		}
	}
}
