package seccomp

import (
	"errors"
	"slices"

	netbpf "golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// Return values of the filter.
const (
	allowed  = uint32(unix.SECCOMP_RET_ALLOW)
	eperm    = uint32(unix.SECCOMP_RET_ERRNO) | uint32(unix.EPERM)
	einval   = uint32(unix.SECCOMP_RET_ERRNO) | uint32(unix.EINVAL)
	enosys   = uint32(unix.SECCOMP_RET_ERRNO) | uint32(unix.ENOSYS)
	enotty   = uint32(unix.SECCOMP_RET_ERRNO) | uint32(unix.ENOTTY)
	noXattrs = uint32(unix.SECCOMP_RET_ERRNO) | uint32(unix.EOPNOTSUPP)
	noFamily = uint32(unix.SECCOMP_RET_ERRNO) | uint32(unix.EAFNOSUPPORT)
	noOption = uint32(unix.SECCOMP_RET_ERRNO) | uint32(unix.ENOPROTOOPT)
	noMemory = uint32(unix.SECCOMP_RET_ERRNO) | uint32(unix.ENOMEM)
	// pretended skips a call, which then seems to succeed.
	pretended = uint32(unix.SECCOMP_RET_ERRNO)
	// undecided passes a call to its next decision.
	undecided = uint32(0xffffffff)
)

// decision is a rule for one call whose arguments matter.
type decision struct {
	name      string
	when      []conditions // any of these
	match     uint32       // return value if one of them is met
	otherwise uint32       // return value if none is
}

// conditions must all be met.
type conditions []condition

// condition is met if the bits of an argument in mask equal those of value, or if its low 32 bits equal an element
// of any.
type condition struct {
	arg         uint32
	mask, value uint64
	any         []uint32
}

// equal is met if all 64 bits equal v.
func equal(arg uint32, v uint64) condition { return masked(arg, ^uint64(0), v) }

// masked is met if the bits in mask equal those of v.
func masked(arg uint32, mask, v uint64) condition { return condition{arg: arg, mask: mask, value: v} }

// low32 is met if the low 32 bits equal one of values: the kernel ignores the others of some arguments.
func low32(arg uint32, values ...uint32) condition { return condition{arg: arg, any: values} }

// noBits is met if none of the bits is set.
func noBits(arg uint32, bits uint64) condition { return masked(arg, bits, 0) }

// allBits is met if all of the bits are set.
func allBits(arg uint32, bits uint64) condition { return masked(arg, bits, bits) }

// assemble returns the instructions that follow if the call's number, in the accumulator, matches.
func (d decision) assemble() (list []netbpf.Instruction) {
	for _, all := range d.when {
		list = append(list, all.assemble(d.match)...)
	}
	if d.otherwise == undecided {
		return append(list, netbpf.LoadAbsolute{Off: 0, Size: 4}) // seccomp_data.nr
	}
	return append(list, netbpf.RetConstant{Val: d.otherwise})
}

// assemble returns match if all conditions are met, and otherwise continues after itself.
func (all conditions) assemble(match uint32) []netbpf.Instruction {
	list := []netbpf.Instruction{netbpf.RetConstant{Val: match}}
	for _, c := range slices.Backward(all) {
		list = append(c.isAny(len(list)), list...)
		for half := range uint32(2) { // of seccomp_data.args, the low one first
			mask, value := uint32(c.mask>>(32*half)), uint32(c.value>>(32*half))
			if mask == 0 {
				continue
			}
			test := []netbpf.Instruction{
				netbpf.LoadAbsolute{Off: 16 + 8*c.arg + 4*half, Size: 4},
				netbpf.ALUOpConstant{Op: netbpf.ALUOpAnd, Val: mask},
				netbpf.JumpIf{Cond: netbpf.JumpEqual, Val: value, SkipFalse: uint8(len(list))},
			}
			if mask == ^uint32(0) {
				test = slices.Delete(test, 1, 2)
			}
			list = append(test, list...)
		}
	}
	return list
}

// isAny compares the low half of an argument with each element of any, and skips the following rest instructions if
// none is equal.
func (c condition) isAny(rest int) (list []netbpf.Instruction) {
	for i, value := range slices.Backward(c.any) {
		test := netbpf.JumpIf{Cond: netbpf.JumpEqual, Val: value, SkipTrue: uint8(len(list))}
		if i == len(c.any)-1 {
			test.SkipFalse = uint8(rest)
		}
		list = append([]netbpf.Instruction{test}, list...)
	}
	if len(list) > 0 {
		list = append([]netbpf.Instruction{netbpf.LoadAbsolute{Off: 16 + 8*c.arg, Size: 4}}, list...)
	}
	return list
}

// numberRange is a range of call numbers, up to last inclusive, that are all allowed or all denied.
type numberRange struct {
	last    uint32
	allowed bool
}

// ranges converts sorted numbers to ranges that cover all numbers.
func ranges(numbers []int) []numberRange {
	var list []numberRange
	next := 0
	for i, n := range numbers {
		if n > next {
			list = append(list, numberRange{uint32(n - 1), false})
		}
		if next = n + 1; i+1 == len(numbers) || numbers[i+1] > next {
			list = append(list, numberRange{uint32(n), true})
		}
	}
	return append(list, numberRange{^uint32(0), false})
}

// search returns a binary search for the range of the number in the accumulator. A call that is not allowed
// continues after it.
func search(list []numberRange) ([]netbpf.Instruction, error) {
	found, err := halve(list)
	for i, in := range found {
		if _, is := in.(netbpf.Jump); is {
			found[i] = netbpf.Jump{Skip: uint32(len(found) - i - 1)}
		}
	}
	return found, err
}

// halve is search with unresolved jumps.
func halve(list []numberRange) ([]netbpf.Instruction, error) {
	if len(list) == 1 {
		if list[0].allowed {
			return []netbpf.Instruction{netbpf.RetConstant{Val: allowed}}, nil
		}
		return []netbpf.Instruction{netbpf.Jump{}}, nil
	}
	half := len(list) / 2
	low, lowErr := halve(list[:half])
	high, highErr := halve(list[half:])
	if err := errors.Join(lowErr, highErr); err != nil {
		return nil, err
	}
	if len(low) > 255 {
		return nil, errors.New("a jump is too far: this is a bug")
	}
	jump := netbpf.JumpIf{Cond: netbpf.JumpGreaterThan, Val: list[half-1].last, SkipTrue: uint8(len(low))}
	return slices.Concat([]netbpf.Instruction{jump}, low, high), nil
}
