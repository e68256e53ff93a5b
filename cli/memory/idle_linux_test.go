package memory

import (
	"bufio"
	"bytes"
	"context"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
)

func TestUnchanged(t *testing.T) {
	part := func(head, anonymous, swap string) string {
		return head + "\nSize: 8 kB\nAnonymous:             " + anonymous + " kB\nAnonHugePages: 0 kB\nSwap:                  " + swap +
			" kB\nSwapPss: 0 kB\nVmFlags: rd mr\n"
	}
	for name, c := range map[string]struct {
		smaps string
		want  []mapping
	}{
		"code": {part("00402000-00404000 r-xp 00002000 fe:00 77                           /bin/x", "0", "0"),
			[]mapping{{0x402000, 0x404000}}},
		"constants": {part("00402000-00404000 r--p 00002000 fe:00 77                           /bin/x", "0", "0"),
			[]mapping{{0x402000, 0x404000}}},
		"data":      {part("00402000-00404000 rw-p 00002000 fe:00 77                           /bin/x", "0", "0"), nil},
		"relocated": {part("00402000-00404000 r--p 00002000 fe:00 77                           /bin/x", "4", "0"), nil},
		"swapped":   {part("00402000-00404000 r--p 00002000 fe:00 77                           /bin/x", "0", "4"), nil},
		"another's": {part("00402000-00404000 r-xp 00002000 fe:00 77                           /lib/x", "0", "0"), nil},
		"no file":   {part("7f0000000000-7f0000002000 r--p 00000000 00:00 0 ", "0", "0"), nil},
		"one of several": {part("1000-2000 rw-p 0 0:0 7 /bin/x", "0", "0") + part("2000-3000 r-xp 0 0:0 7 /bin/x", "0", "0") +
			part("3000-4000 r--p 0 0:0 7 /etc/x", "0", "0"), []mapping{{0x2000, 0x3000}}},
	} {
		if got := unmodifiedMappings(bufio.NewScanner(strings.NewReader(c.smaps)), "/bin/x"); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %x, want %x", name, got, c.want)
		}
	}
}

// TestDropProgram drops this test's own code and constants: it must continue undisturbed, and modified memory must keep
// its content.
func TestDropProgram(t *testing.T) {
	page := bytes.Repeat([]byte("x"), os.Getpagesize())
	changed, err := unix.Mmap(ownFile(t), 0, len(page), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(changed)
	copy(changed, page)
	if err := unix.Mprotect(changed, unix.PROT_READ); err != nil {
		t.Fatal(err)
	}
	untouched, err := unix.Mmap(ownFile(t), 0, len(page), unix.PROT_READ, unix.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(untouched)
	if untouched[0] != 0x7f { // of ELF; the page is present now
		t.Fatal("this is not a program")
	}
	if !isResident(t, untouched) {
		t.Fatal("a page that was read is not in memory")
	}
	dropProgram()
	if !bytes.Equal(changed, page) {
		t.Error("what was written to memory is lost")
	}
	if isResident(t, untouched) {
		t.Error("an unchanged page of the program's file is still there")
	}
}

func ownFile(t *testing.T) int {
	f, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return int(f.Fd())
}

// isResident reports whether the first page of b is in this process's memory. mincore would report on the page cache.
func isResident(t *testing.T, b []byte) bool {
	f, err := os.Open("/proc/self/pagemap")
	if err != nil {
		hosttest.SkipMissing(t, "pagemap", err.Error())
	}
	defer f.Close()
	var entry [8]byte
	at := int64(uintptr(unsafe.Pointer(&b[0]))) / int64(os.Getpagesize())
	if _, err := f.ReadAt(entry[:], at*8); err != nil {
		t.Fatal(err)
	}
	return entry[7]&0x80 != 0 // bit 63: present
}

// TestWatchIdle checks that an idle server releases memory soon after its start, and only once.
func TestWatchIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		released := 0
		go watchIdle(ctx, func() { released++ })
		time.Sleep(time.Minute)
		synctest.Wait()
		if released != 1 {
			t.Errorf("gave memory back %d times, want 1", released)
		}
		cancel()
		synctest.Wait()
	})
}
