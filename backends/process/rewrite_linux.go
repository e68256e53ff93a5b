package process

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// An interpreter that stands ready was executed with room for arguments and variables behind its own:
// this many more variables, of this many bytes together.
const (
	spareVariables = 64
	spareBytes     = 32 << 10
)

// spare returns the variables that make the room. None is left when the program begins.
func spare() []string {
	list := []string{"_0=" + strings.Repeat(" ", spareBytes)}
	for i := 1; i < spareVariables; i++ {
		list = append(list, "_"+strconv.Itoa(i)+"=")
	}
	return list
}

// errRoom refuses arguments and variables that exceed spareBytes or spareVariables.
var errRoom = errors.New("arguments and environment are too large")

// mm locates a process's code, data, arguments and environment: struct prctl_mm_map of linux/prctl.h.
type mm struct {
	startCode, endCode, startData, endData, startBrk, brk, startStack uint64
	argStart, argEnd, envStart, envEnd                                uint64
	_                                                                 uint64 // auxv, which stays,
	_                                                                 uint32 // and its size
	exe                                                               uint32
}

// mmOf reads proc_pid_stat(5), whose fields count from one.
func mmOf(pid int) (m mm, err error) {
	stat, err := readProc(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return m, err
	}
	fields := statFields(stat)
	for field, to := range map[int]*uint64{
		26: &m.startCode, 27: &m.endCode, 28: &m.startStack, 45: &m.startData, 46: &m.endData, 47: &m.startBrk,
		48: &m.argStart, 49: &m.argEnd, 50: &m.envStart, 51: &m.envEnd,
	} {
		if field-3 >= len(fields) {
			return m, errors.New("the kernel does not tell where its arguments are")
		}
		if *to, err = strconv.ParseUint(fields[field-3], 10, 64); err != nil || *to == 0 {
			return m, errors.New("the kernel does not tell where its arguments are")
		}
	}
	m.exe = ^uint32(0) // stays
	return m, nil
}

// set changes the layout in the kernel's records. The structure is written to address at for the length of the call, and
// then replaced by what, which must be as long.
func (t *tracee) set(memory *os.File, m mm, at uint64, what []byte) error {
	if _, err := memory.WriteAt(raw([]mm{m}), int64(at)); err != nil {
		return fmt.Errorf("write its arguments: %w", err)
	}
	if _, err := t.call(unix.SYS_PRCTL, unix.PR_SET_MM, unix.PR_SET_MM_MAP, at, uint64(unsafe.Sizeof(m))); err != nil {
		return fmt.Errorf("prctl(PR_SET_MM_MAP): %w", err)
	}
	if _, err := memory.WriteAt(what, int64(at)); err != nil {
		return fmt.Errorf("write its arguments: %w", err)
	}
	return nil
}

// memory opens the process's memory and returns its layout. Only the stopped process itself can ask for its brk(2).
func (t *tracee) memory() (*os.File, mm, error) {
	m, err := mmOf(t.pid)
	if err != nil {
		return nil, m, err
	}
	if m.brk, err = t.call(unix.SYS_BRK, 0); err != nil {
		return nil, m, fmt.Errorf("brk: %w", err)
	}
	f, err := os.OpenFile(fmt.Sprintf("/proc/%d/mem", t.pid), os.O_RDWR, 0)
	return f, m, err
}

// try sets the present layout, to test that the process permits it.
func (t *tracee) try() error {
	memory, m, err := t.memory()
	if err != nil {
		return err
	}
	defer memory.Close()
	at, old := (m.envStart+7)&^7, make([]byte, unsafe.Sizeof(m))
	if _, err := memory.ReadAt(old, int64(at)); err != nil {
		return fmt.Errorf("read its arguments: %w", err)
	}
	return t.set(memory, m, at, old)
}

// rewrite gives a stopped process the arguments and the environment that it would have had from the beginning: on its
// stack, in libc's environ, and in the kernel's records, so that its cmdline and environ in /proc agree. The first
// arguments must be those that it was executed with.
func (t *tracee) rewrite(args, env []string) error {
	memory, m, err := t.memory()
	if err != nil {
		return err
	}
	defer memory.Close()
	old := make([]byte, m.envEnd-m.argStart)
	if _, err := memory.ReadAt(old, int64(m.argStart)); err != nil {
		return fmt.Errorf("read its arguments: %w", err)
	}
	had := bytes.Count(old[m.envStart-m.argStart:], []byte{0})
	argc := bytes.Count(old[:m.argEnd-m.argStart], []byte{0})
	all := make([]byte, len(old))
	n, end := 0, 0
	var pointers []byte
	for i, s := range append(args[:len(args):len(args)], env...) {
		if n+len(s)+1 > len(all)-int(unsafe.Sizeof(m))-8 {
			return errRoom
		}
		if i >= len(args) {
			pointers = binary.NativeEndian.AppendUint64(pointers, m.argStart+uint64(n))
		}
		copy(all[n:], s)
		if n += len(s) + 1; i < len(args) {
			end = n
		}
	}
	if len(env) > had {
		return errRoom
	}
	pointers = append(pointers, make([]byte, 8*(had-len(env)))...)
	m.argEnd, m.envStart, m.envEnd = m.argStart+uint64(end), m.argStart+uint64(end), m.argStart+uint64(n)
	if _, err := memory.WriteAt(all, int64(m.argStart)); err != nil {
		return fmt.Errorf("write its arguments: %w", err)
	}
	if _, err := memory.WriteAt(pointers, int64(m.startStack)+8*int64(1+argc+1)); err != nil {
		return fmt.Errorf("write its environment: %w", err)
	}
	return t.set(memory, m, (m.envEnd+7)&^7, make([]byte, unsafe.Sizeof(m)))
}

// errNoRewrite refuses an idle interpreter on architectures without a tracee.
var errNoRewrite = errors.New("an interpreter that waits can't be given its arguments on this processor architecture")
