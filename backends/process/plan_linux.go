package process

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/sandboxmcp/sandboxmcp/backends/process/launch"
)

// plan is a list of system calls under construction, with the memory that their arguments point to.
type plan struct {
	steps  []launch.Step
	names  []byte // of the steps, each zero-terminated, for errors
	data   []byte
	fixups []launch.Fixup
	files  []*os.File // sent with the plan; they fill the slots from launch.SlotFiles on
	free   uint64     // the next slot for a result of the plan
	master *os.File   // of the terminal that the plan makes, once received
}

// newPlan returns a plan with room for about this number of steps.
func newPlan(steps int) *plan {
	return &plan{free: launch.SlotFree, steps: make([]launch.Step, 0, steps), names: make([]byte, 0, 32*steps),
		data: make([]byte, 0, 72*steps), fixups: make([]launch.Fixup, 0, steps/2), files: make([]*os.File, 0, 8)}
}

// arg is one argument of a step.
type arg struct {
	kind uint32
	v    uint64
}

// val returns an argument with a fixed value.
func val[T ~int | ~uint | ~uint32 | ~uint64 | ~uintptr | ~int64](v T) arg {
	return arg{launch.Value, uint64(v)}
}

// slot returns an argument that reads slot n when the step is executed.
func slot(n uint64) arg { return arg{launch.Slot, n} }

// cwd is AT_FDCWD, as an argument.
var cwd = val(unix.AT_FDCWD)

// bytes puts b into the plan's memory, aligned for any type.
func (p *plan) bytes(b []byte) arg {
	at := p.zeros(len(b))
	copy(p.data[at.v:], b)
	return at
}

// zeros reserves n zero bytes in the plan's memory.
func (p *plan) zeros(n int) arg {
	at := (len(p.data) + 7) &^ 7
	p.data = slices.Grow(p.data, at+n-len(p.data))[:at+n]
	return arg{launch.Address, uint64(at)}
}

// str puts the concatenated parts of a string into the plan's memory, with a terminating zero.
func (p *plan) str(parts ...string) arg {
	at := p.zeros(0)
	for _, s := range parts {
		p.data = append(p.data, s...)
	}
	p.data = append(p.data, 0)
	return at
}

// value puts a Go value, which must contain no pointers, into the plan's memory.
func value[T any](p *plan, v T) arg {
	return p.bytes(unsafe.Slice((*byte)(unsafe.Pointer(&v)), unsafe.Sizeof(v)))
}

// strs makes a null-terminated array of pointers to strings, in execve's format.
func (p *plan) strs(list []string) arg {
	at := make([]uint64, len(list))
	for i, s := range list {
		at[i] = p.str(s).v
	}
	array := p.zeros(8 * (len(list) + 1))
	for i, to := range at {
		p.addFixup(array.v+8*uint64(i), to)
	}
	return array
}

// addFixup makes the eight bytes at offset at contain the address of offset to.
func (p *plan) addFixup(at, to uint64) {
	p.fixups = append(p.fixups, launch.Fixup{At: uint32(at), To: uint32(to)})
}

// file sends f along and returns its slot in the plan.
func (p *plan) file(f *os.File) arg {
	p.files = append(p.files, f)
	return slot(launch.SlotFiles + uint64(len(p.files)) - 1)
}

// add appends a step that calls nr; s has the expected result and its slot. name is for errors.
func (p *plan) add(name string, s launch.Step, nr uintptr, args []arg) {
	s.NR = uint32(nr)
	for i, a := range args {
		s.Kinds |= a.kind << (4 * i)
		s.Args[i] = a.v
	}
	p.steps = append(p.steps, s)
	p.names = append(append(p.names, name...), 0)
}

// name returns the name of step i.
func (p *plan) name(i int) string { return strings.Split(string(p.names), "\x00")[i] }

// do adds a call that must succeed.
func (p *plan) do(name string, nr uintptr, args ...arg) {
	p.add(name, launch.Step{Store: -1, Want: launch.AnyResult}, nr, args)
}

// try adds a call that may fail.
func (p *plan) try(name string, nr uintptr, args ...arg) {
	p.add(name, launch.Step{Store: -1, Want: launch.AnyResult, Errno: launch.AnyErrno}, nr, args)
}

// want adds a call that must return result.
func (p *plan) want(result int64, name string, nr uintptr, args ...arg) {
	p.add(name, launch.Step{Store: -1, Want: result}, nr, args)
}

// refused adds a call that must fail with errno.
func (p *plan) refused(errno unix.Errno, name string, nr uintptr, args ...arg) {
	p.add(name, launch.Step{Store: -1, Want: launch.AnyResult, Errno: int32(errno)}, nr, args)
}

// get adds a call that must succeed, and returns an argument with its result.
func (p *plan) get(name string, nr uintptr, args ...arg) arg {
	s := slot(p.free)
	p.free++
	p.set(s, name, nr, args...)
	return s
}

// set adds a call that must succeed, and stores its result in slot s.
func (p *plan) set(s arg, name string, nr uintptr, args ...arg) {
	p.add(name, launch.Step{Store: int32(s.v), Want: launch.AnyResult}, nr, args)
}

// poke stores the value of slot s as 32 bits at address at.
func (p *plan) poke(at arg, s arg) {
	at.kind = launch.Address
	p.add("poke", launch.Step{Store: -1, Want: launch.AnyResult}, launch.Poke, []arg{at, s})
}

// prctl adds a prctl(2) that must return 0.
func (p *plan) prctl(name string, option uintptr, args ...uintptr) {
	list := []arg{val(option), val(0), val(0), val(0), val(0)}
	for i, a := range args {
		list[i+1] = val(a)
	}
	p.want(0, "prctl("+name+")", unix.SYS_PRCTL, list...)
}

// write adds the calls that write a small file.
func (p *plan) write(path, content string, flags int, mode uint32) {
	fd := slot(p.free)
	p.set(fd, "open "+path, unix.SYS_OPENAT, cwd, p.str(path), val(flags|unix.O_WRONLY|unix.O_CLOEXEC), val(mode))
	if content != "" {
		p.want(int64(len(content)), "write "+path, unix.SYS_WRITE, fd, p.str(content), val(len(content)))
	}
	p.do("close "+path, unix.SYS_CLOSE, fd)
}

// memfd writes an encoded plan to an anonymous file.
func memfd(blob []byte) (*os.File, error) {
	fd, err := unix.MemfdCreate("plan", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("memfd_create: %w", err)
	}
	f := os.NewFile(uintptr(fd), "plan")
	if _, err := f.Write(blob); err != nil {
		f.Close()
		return nil, fmt.Errorf("write plan: %w", err)
	}
	return f, nil
}

// encode appends the plan to out in the format of package launch: header, steps, fixups, memory.
func (p *plan) encode(out []byte) ([]byte, error) {
	h := launch.Header{StepCount: uint32(len(p.steps)), FixupCount: uint32(len(p.fixups))}
	h.Steps = uint32(unsafe.Sizeof(h))
	h.Fixups = h.Steps + uint32(len(p.steps))*uint32(unsafe.Sizeof(launch.Step{}))
	data := h.Fixups + uint32(len(p.fixups))*uint32(unsafe.Sizeof(launch.Fixup{}))
	h.Size = data + uint32(len(p.data))
	if int(data)+len(p.data) > launch.MaxPlan {
		return nil, fmt.Errorf("arguments and environment are too large: %w", unix.E2BIG)
	}
	if p.free > launch.Slots || len(p.files)+1 > launch.MaxFiles {
		return nil, fmt.Errorf("a plan with %d slots and %d files: this is a bug", p.free, len(p.files))
	}
	out = slices.Grow(out, int(h.Size))
	out = append(out, raw([]launch.Header{h})...)
	for _, s := range p.steps {
		for j := range s.Args {
			if s.Kinds>>(4*j)&15 == launch.Address {
				s.Args[j] += uint64(data)
			}
		}
		out = append(out, raw([]launch.Step{s})...)
	}
	for _, f := range p.fixups {
		out = append(out, raw([]launch.Fixup{{At: f.At + data, To: f.To + data}})...)
	}
	return append(out, p.data...), nil
}

// raw returns the memory of a slice of structs without pointers.
func raw[T any](s []T) []byte {
	if len(s) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(&s[0])), len(s)*int(unsafe.Sizeof(s[0])))
}

// explain converts a failed step's message into an error.
func (p *plan) explain(m launch.Message) error {
	name := "fork"
	if i := int(m.Index); i >= 0 && i < len(p.steps) {
		name = p.name(i)
	}
	if m.Errno == 0 {
		return fmt.Errorf("%s: unexpected result", name)
	}
	return &stepError{name, unix.Errno(m.Errno)}
}

// stepError is a failed system call of a plan.
type stepError struct {
	step  string
	errno unix.Errno
}

func (e *stepError) Error() string { return e.step + ": " + e.errno.Error() }
func (e *stepError) Unwrap() error { return e.errno }

// minHighFD exceeds the numbers to which a plan duplicates descriptors; maxStartFD is the highest number for which
// a program's descriptor table has room at its start.
const minHighFD, maxStartFD = 100, 255

// whereabouts returns the plan's step that a process is executing, by proc_pid_syscall(5), for the error of a plan
// that did not finish in time.
func (p *plan) whereabouts(pid int) string {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/syscall")
	number, _, _ := strings.Cut(string(text), " ")
	nr, failed := strconv.ParseUint(strings.TrimSpace(number), 10, 32)
	if err != nil || failed != nil {
		return "an unknown step"
	}
	for i, s := range p.steps {
		if uint64(s.NR) == nr {
			return p.name(i)
		}
	}
	return "system call " + number
}

// sysctl sets a variable that must exist.
func (p *plan) sysctl(at, name, value string) { p.write(at+"/proc/sys/"+name, value, 0, 0) }

// trySysctl sets a variable if it exists.
func (p *plan) trySysctl(at, name, value string) {
	fd := p.tryOpen(at+"/proc/sys/"+name, unix.O_WRONLY)
	p.try("write "+name, unix.SYS_WRITE, fd, p.str(value), val(len(value)))
	p.try("close "+name, unix.SYS_CLOSE, fd)
}

// tryOpen opens a file that may be missing. The next call that stores a result reuses the slot of its descriptor.
func (p *plan) tryOpen(path string, flags int) arg {
	fd := slot(p.free)
	p.add("open "+path, launch.Step{Store: int32(fd.v), Want: launch.AnyResult, Errno: launch.AnyErrno},
		unix.SYS_OPENAT, []arg{cwd, p.str(path), val(flags | unix.O_CLOEXEC), val(0)})
	return fd
}

// mountTmpfs mounts a new tmpfs at a path; tmpfs(5) lists the options.
func (p *plan) mountTmpfs(at, options string, flags uintptr) {
	p.do("mount tmpfs "+at, unix.SYS_MOUNT, p.str("sandbox"), p.str(at), p.str("tmpfs"), val(flags), p.str(options))
}

// setMountAttr sets attributes of the mount at path; AT_RECURSIVE includes the mounts below it.
func (p *plan) setMountAttr(at string, flags int, set uint64) {
	a := unix.MountAttr{Attr_set: set}
	p.do("mount_setattr "+at, unix.SYS_MOUNT_SETATTR, cwd, p.str(at), val(flags), value(p, a), val(unsafe.Sizeof(a)))
}

// configure changes a network interface: netdevice(7).
func configure[T any](p *plan, what, name string, request int, data T) {
	ifreq := p.zeros(unix.IFNAMSIZ + 24)
	copy(p.data[ifreq.v:], name)
	copy(p.data[ifreq.v+unix.IFNAMSIZ:], raw([]T{data}))
	fd := p.get("socket("+what+")", unix.SYS_SOCKET, val(unix.AF_INET), val(unix.SOCK_DGRAM|unix.SOCK_CLOEXEC), val(0))
	p.do(what, unix.SYS_IOCTL, fd, val(request), ifreq)
	p.do("close "+what, unix.SYS_CLOSE, fd)
}
