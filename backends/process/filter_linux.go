package process

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	bpf "github.com/elastic/go-seccomp-bpf"
	"github.com/elastic/go-seccomp-bpf/arch"
	netbpf "golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// assemble makes the filter: what is not allowed is EPERM, a call newer than we know is ENOSYS
// (so that libraries fall back), another architecture's way to make calls is death.
//
// The calls whose arguments decide come first, a comparison each. Those that are always allowed
// are found by halving ranges of numbers: the kernel runs the filter once for each call when it
// is loaded (seccomp_cache_prepare), and a list of 400 comparisons makes that 0.3 ms.
func assemble(k filterKind) ([]byte, error) {
	info, err := arch.GetInfo("")
	if err != nil {
		return nil, err
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
		netbpf.RetConstant{Val: uint32(bpf.ActionKillProcess)},
		netbpf.LoadAbsolute{Off: 0, Size: 4}, // seccomp_data.nr
		netbpf.JumpIf{Cond: netbpf.JumpLessThan, Val: uint32(arch.X32.SeccompMask), SkipTrue: 1},
		netbpf.RetConstant{Val: uint32(bpf.ActionKillProcess)},
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
		block, err := d.assemble()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", d.name, err)
		}
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

// What the filter can answer.
const (
	allowed  = uint32(bpf.ActionAllow)
	eperm    = uint32(bpf.ActionErrno) | uint32(unix.EPERM)
	enosys   = uint32(bpf.ActionErrno) | uint32(unix.ENOSYS)
	noFamily = uint32(bpf.ActionErrno) | uint32(unix.EAFNOSUPPORT)
	// undecided leaves a call to the next decision about it.
	undecided = uint32(0xffffffff)
	// pretended says that a call has succeeded, and does not make it: an error without a number, for which the library has no
	// name. This one is used for nothing else.
	pretended = bpf.ActionTrace
)

// decision is about one call whose arguments matter.
type decision struct {
	name      string
	when      []bpf.ArgumentConditions // any of these, of which each must hold as a whole,
	match     bpf.Action               // gets this,
	otherwise uint32                   // and all else that.
}

// assemble makes a filter of its own for one call: once the library's code has loaded an argument
// it does not load the call's number again, and would compare the argument with the numbers of
// calls in the rules that follow.
func (d decision) assemble() ([]netbpf.Instruction, error) {
	group := bpf.SyscallGroup{Action: d.match}
	for _, c := range d.when {
		group.NamesWithCondtions = append(group.NamesWithCondtions, bpf.NameWithConditions{Name: d.name, Conditions: c})
	}
	policy := bpf.Policy{DefaultAction: bpf.ActionErrno, Syscalls: []bpf.SyscallGroup{group}}
	list, err := policy.Assemble()
	if err != nil {
		return nil, err
	}
	last := len(list) - 1
	if list[last] != (netbpf.RetConstant{Val: eperm}) {
		return nil, errors.New("the assembler's list does not end in the default: this is a bug")
	}
	list[last] = netbpf.RetConstant{Val: d.otherwise} // the library's default knows only EPERM
	if d.otherwise == undecided {
		list[last] = netbpf.LoadAbsolute{Off: 0, Size: 4} // seccomp_data.nr
	}
	for i := range list {
		if list[i] == (netbpf.RetConstant{Val: uint32(pretended)}) {
			list[i] = netbpf.RetConstant{Val: uint32(bpf.ActionErrno)}
		}
	}
	return list, nil
}

// run is a row of calls by number, last included, that are all allowed or all not.
type run struct {
	last    uint32
	allowed bool
}

// runs turns sorted numbers into rows that cover all numbers.
func runs(numbers []int) []run {
	var list []run
	next := 0
	for i, n := range numbers {
		if n > next {
			list = append(list, run{uint32(n - 1), false})
		}
		if next = n + 1; i+1 == len(numbers) || numbers[i+1] > next {
			list = append(list, run{uint32(n), true})
		}
	}
	return append(list, run{^uint32(0), false})
}

// search finds the row that the number in the accumulator is in.
func search(list []run) ([]netbpf.Instruction, error) {
	if len(list) == 1 {
		action := eperm
		if list[0].allowed {
			action = allowed
		}
		return []netbpf.Instruction{netbpf.RetConstant{Val: action}}, nil
	}
	half := len(list) / 2
	low, lowErr := search(list[:half])
	high, highErr := search(list[half:])
	if err := errors.Join(lowErr, highErr); err != nil {
		return nil, err
	}
	if len(low) > 255 {
		return nil, errors.New("a jump is too far: this is a bug")
	}
	jump := netbpf.JumpIf{Cond: netbpf.JumpGreaterThan, Val: list[half-1].last, SkipTrue: uint8(len(low))}
	return slices.Concat([]netbpf.Instruction{jump}, low, high), nil
}
