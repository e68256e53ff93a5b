package process

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/elastic/go-seccomp-bpf/arch"
	netbpf "golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// filters caches the assembled filter of each kind.
type filters struct {
	mu   sync.Mutex
	made map[filterKind][]byte
}

func (s *sandbox) filterKind() filterKind {
	shared := s.landlockOnly || s.writesHost()
	return filterKind{namespaces: !s.landlockOnly, affinity: s.cpus == nil, shared: shared, notifies: s.notifies(), inContainer: s.inContainer}
}

// of returns a filter that has been prepared.
func (f *filters) of(k filterKind) []byte {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.made[k]
}

// prepare assembles the filter of a kind, once.
func (f *filters) prepare(k filterKind) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.made[k] != nil {
		return nil
	}
	code, err := assemble(k)
	if err != nil {
		return fmt.Errorf("seccomp filter: %w", err)
	}
	if f.made == nil {
		f.made = map[filterKind][]byte{}
	}
	f.made[k] = code
	return nil
}

// assemble compiles the filter: a denied call is EPERM, a call newer than the list is ENOSYS (so that libraries fall back),
// a call of another architecture kills the process.
//
// The calls whose arguments decide come first, a comparison each. Calls that are always allowed are found by binary search
// over ranges of numbers: the kernel runs the filter once for each call when it is loaded (seccomp_cache_prepare), and a
// list of 400 comparisons makes that 0.3 ms.
func assemble(k filterKind) ([]byte, error) {
	info, err := arch.GetInfo("")
	if err != nil {
		return nil, err
	}
	if binary.NativeEndian.Uint16([]byte{1, 0}) != 1 {
		return nil, errors.New("no filter is written for this processor's order of bytes")
	}
	always, decisions, err := mobysList(info)
	if err != nil {
		return nil, err
	}
	always = slices.DeleteFunc(always, func(n int) bool {
		return slices.Contains(k.withheld(), info.SyscallNumbers[n])
	})
	newest := slices.Max(slices.Collect(maps.Values(info.SyscallNames)))
	list := []netbpf.Instruction{
		netbpf.LoadAbsolute{Off: 4, Size: 4}, // seccomp_data.arch
		netbpf.JumpIf{Cond: netbpf.JumpEqual, Val: uint32(info.ID), SkipTrue: 1},
		netbpf.RetConstant{Val: uint32(unix.SECCOMP_RET_KILL_PROCESS)},
		netbpf.LoadAbsolute{Off: 0, Size: 4}, // seccomp_data.nr
		netbpf.JumpIf{Cond: netbpf.JumpLessThan, Val: uint32(arch.X32.SeccompMask), SkipTrue: 1},
		netbpf.RetConstant{Val: uint32(unix.SECCOMP_RET_KILL_PROCESS)},
		netbpf.JumpIf{Cond: netbpf.JumpLessOrEqual, Val: uint32(newest), SkipTrue: 1},
		netbpf.RetConstant{Val: enosys},
	}
	replies := k.replies()
	for _, name := range slices.Sorted(maps.Keys(replies)) {
		if number, known := info.SyscallNames[name]; known {
			list = append(list, netbpf.JumpIf{Cond: netbpf.JumpNotEqual, Val: uint32(number), SkipTrue: 1}, netbpf.RetConstant{Val: replies[name]})
		}
	}
	for _, d := range append(ours(k), decisions...) {
		if _, known := info.SyscallNames[d.name]; !known {
			continue // on this architecture
		}
		block := d.assemble()
		number := uint32(info.SyscallNames[d.name])
		list = append(list, netbpf.JumpIf{Cond: netbpf.JumpEqual, Val: number, SkipTrue: 1}, netbpf.Jump{Skip: uint32(len(block))})
		list = append(list, block...)
	}
	tail, err := search(runs(always))
	if err != nil {
		return nil, err
	}
	code, err := netbpf.Assemble(append(list, tail...))
	if err != nil {
		return nil, err
	}
	return raw(sockFilters(code)), nil
}

// filter has PID 1 load code, an array of struct sock_filter, which all programs of the sandbox inherit: each filter costs
// the host memory and a lock that all processes share. If notifies is true, it returns the descriptor of the notifications.
func filter(p *plan, code []byte, notifies bool) (listener []arg) {
	prog := value(p, [2]uint64{uint64(len(code) / 8), 0})
	p.point(prog.v+8, p.bytes(code).v)
	if notifies {
		listener = []arg{p.get("seccomp", unix.SYS_SECCOMP, val(unix.SECCOMP_SET_MODE_FILTER), val(unix.SECCOMP_FILTER_FLAG_NEW_LISTENER), prog)}
	} else {
		p.want(0, "seccomp", unix.SYS_SECCOMP, val(unix.SECCOMP_SET_MODE_FILTER), val(0), prog)
	}
	return listener
}

// filtered tests that a program's process has inherited the filter, and that the filter works.
func filtered(p *plan) {
	p.want(2, "seccomp self-test", unix.SYS_PRCTL, val(unix.PR_GET_SECCOMP), val(0), val(0), val(0), val(0))
	p.refused(unix.EPERM, "seccomp self-test", unix.SYS_UNSHARE, val(unix.CLONE_NEWUSER))
}
