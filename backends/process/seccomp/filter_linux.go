package seccomp

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

// Filters caches the assembled filter of each kind. Its zero value is ready, and its methods may be called
// concurrently.
type Filters struct {
	mu   sync.Mutex
	made map[Kind][]byte
}

// ForKind returns the filter of a kind, as an array of struct sock_filter.
func (f *Filters) ForKind(k Kind) ([]byte, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.made[k] != nil {
		return f.made[k], nil
	}
	code, err := assemble(k)
	if err != nil {
		return nil, fmt.Errorf("seccomp filter: %w", err)
	}
	if f.made == nil {
		f.made = map[Kind][]byte{}
	}
	f.made[k] = encode(code)
	return f.made[k], nil
}

// assemble compiles the filter: a denied call returns EPERM, a call newer than the list ENOSYS (so that libraries
// fall back), and a call of another architecture kills the process.
//
// Calls that are always allowed are found first, by binary search over ranges of numbers: the kernel runs the
// filter once for each call when it is loaded (seccomp_cache_prepare), and the comparisons after it would take 0.1
// ms more. The calls whose arguments decide follow, with one comparison each, the frequent ones first.
func assemble(k Kind) ([]netbpf.RawInstruction, error) {
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
		return slices.Contains(k.deniedCalls(), info.SyscallNumbers[n])
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
	replies, decisions := k.fixedReplies(), append(ownDecisions(k), decisions...)
	decisions = slices.DeleteFunc(decisions, func(d decision) bool { return replies[d.name] != 0 })
	left := map[uint32]uint32{} // decisions' results for calls that they leave undecided
	for _, d := range decisions {
		if number, known := info.SyscallNames[d.name]; known {
			left[uint32(number)] = d.otherwise
		}
	}
	free := slices.DeleteFunc(slices.Clone(always), func(n int) bool {
		_, decided := left[uint32(n)]
		return decided || replies[info.SyscallNumbers[n]] != 0
	})
	first, err := search(ranges(free))
	if err != nil {
		return nil, err
	}
	list = append(list, first...)
	for _, d := range decisions {
		if number, known := info.SyscallNames[d.name]; known { // on this architecture
			block := d.assemble()
			list = append(list, netbpf.JumpIf{Cond: netbpf.JumpEqual, Val: uint32(number), SkipTrue: 1}, netbpf.Jump{Skip: uint32(len(block))})
			list = append(list, block...)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(replies)) {
		if number, known := info.SyscallNames[name]; known {
			list = append(list, netbpf.JumpIf{Cond: netbpf.JumpNotEqual, Val: uint32(number), SkipTrue: 1}, netbpf.RetConstant{Val: replies[name]})
		}
	}
	for _, n := range always {
		if left[uint32(n)] == undecided {
			list = append(list, netbpf.JumpIf{Cond: netbpf.JumpNotEqual, Val: uint32(n), SkipTrue: 1}, netbpf.RetConstant{Val: allowed})
		}
	}
	return netbpf.Assemble(append(list, netbpf.RetConstant{Val: eperm}))
}

// encode returns instructions as an array of struct sock_filter.
func encode(code []netbpf.RawInstruction) (array []byte) {
	for _, c := range code {
		array = binary.NativeEndian.AppendUint16(array, c.Op)
		array = append(array, c.Jt, c.Jf)
		array = binary.NativeEndian.AppendUint32(array, c.K)
	}
	return array
}
