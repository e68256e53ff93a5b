package container

import (
	"encoding/json"
	"flag"
	"maps"
	"os"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	moby "github.com/moby/profiles/seccomp"
	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
)

var update = flag.Bool("update", false, "write seccomp.json")

// forbidden are calls that moby allows a container without capabilities, and that our programs don't need. Partly
// allowed ones are added again below.
var forbidden = []string{
	"ptrace", "process_vm_readv", "process_vm_writev", "kcmp", "pidfd_getfd", "process_madvise",
	"io_uring_setup", "io_uring_enter", "io_uring_register",
	"add_key", "keyctl", "request_key", "userfaultfd", "perf_event_open", "bpf",
	"open_by_handle_at", "name_to_handle_at", "unshare", "setns", "mount", "umount", "umount2", "pivot_root",
	"open_tree", "move_mount", "fsopen", "fsconfig", "fsmount", "fspick", "mount_setattr", "chroot",
	"fanotify_init", "fanotify_mark", "quotactl", "quotactl_fd", "syslog", "acct", "reboot", "swapon", "swapoff",
	"kexec_load", "kexec_file_load", "init_module", "finit_module", "delete_module",
	"vhangup", "socket", "socketpair", "memfd_secret", "socketcall", "ipc", "clone", "clone3", "ioctl", "ioprio_set", "modify_ldt",
	"prlimit64", "setpriority", "sched_setscheduler", "sched_setparam", "sched_setattr",
}

// arches are the machines for which there is an init, without the 32-bit programs that they can run.
var arches = []string{"amd64", "arm64"}

// makeProfile derives the profile from moby's.
func makeProfile() *moby.Seccomp {
	base := moby.DefaultProfile()
	p := &moby.Seccomp{LinuxSeccomp: specs.LinuxSeccomp{DefaultAction: base.DefaultAction, DefaultErrnoRet: base.DefaultErrnoRet}}
	p.ArchMap = []moby.Architecture{{Arch: specs.ArchX86_64}, {Arch: specs.ArchAARCH64}}
	for _, rule := range base.Syscalls {
		if rule.Action != specs.ActAllow {
			continue
		}
		if f := rule.Includes; f != nil {
			if len(f.Caps) > 0 {
				continue
			}
			f.Arches = slices.DeleteFunc(f.Arches, func(a string) bool { return !slices.Contains(arches, a) })
			if len(f.Arches) == 0 && f.MinKernel == nil {
				continue
			}
		}
		rule.Names = slices.DeleteFunc(rule.Names, func(name string) bool { return slices.Contains(forbidden, name) })
		if len(rule.Names) > 0 {
			p.Syscalls = append(p.Syscalls, rule)
		}
	}
	return add(p)
}

// add adds the permitted uses of partly allowed calls.
func add(p *moby.Seccomp) *moby.Seccomp {
	allow := func(name string, args ...specs.LinuxSeccompArg) {
		p.Syscalls = append(p.Syscalls, &moby.Syscall{LinuxSyscall: specs.LinuxSyscall{Names: []string{name}, Action: specs.ActAllow,
			Args: args}})
	}
	equal := func(index uint, v uint64) specs.LinuxSeccompArg {
		return specs.LinuxSeccompArg{Index: index, Value: v, Op: specs.OpEqualTo}
	}
	masked := func(index uint, mask, v uint64) specs.LinuxSeccompArg {
		return specs.LinuxSeccompArg{Index: index, Value: mask, ValueTwo: v, Op: specs.OpMaskedEqual}
	}
	const newNamespaces = unix.CLONE_NEWNS | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC | unix.CLONE_NEWUSER |
		unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWCGROUP | unix.CLONE_NEWTIME
	allow("clone", masked(0, newNamespaces, 0))
	enosys := uint(unix.ENOSYS) // a filter can't read its flags; programs fall back to clone
	p.Syscalls = append(p.Syscalls, &moby.Syscall{LinuxSyscall: specs.LinuxSyscall{Names: []string{"clone3"}, Action: specs.ActErrno,
		ErrnoRet: &enosys}})

	allow("socket", equal(0, unix.AF_UNIX))
	allow("socket", equal(0, unix.AF_NETLINK), equal(2, unix.NETLINK_ROUTE))
	for _, family := range []uint64{unix.AF_INET, unix.AF_INET6} {
		for _, kind := range []struct{ kind, protocol uint64 }{{unix.SOCK_STREAM, unix.IPPROTO_TCP}, {unix.SOCK_DGRAM, unix.IPPROTO_UDP}} {
			for _, protocol := range []uint64{0, kind.protocol} {
				allow("socket", equal(0, family), masked(1, 15, kind.kind), equal(2, protocol))
			}
		}
	}
	allow("socketpair", equal(0, unix.AF_UNIX))
	allow("personality", equal(0, 0x40000)) // ADDR_NO_RANDOMIZE
	// All but TIOCSTI (0x5412) and TIOCLINUX (0x541c), of which the kernel reads the low 32 bits: allowed is a
	// value that differs in any of the upper 28 of these, or else in the last digit. One rule can compare one
	// argument once.
	for bit := 4; bit < 32; bit++ {
		allow("ioctl", masked(1, 1<<bit, ^uint64(unix.TIOCSTI)&(1<<bit)))
	}
	for _, last := range []struct{ mask, v uint64 }{{0b0001, 0b0001}, {0b1100, 0b1000}, {0b1100, 0b0100}, {0b1110, 0b0000}, {0b1110, 0b1110}} {
		allow("ioctl", masked(1, last.mask, last.v))
	}

	// Programs run as PID 1's user, and could lower the limits and priority of each of its threads, so that it
	// would no longer notice what they do. So they may change only themselves (PID 0).
	allow("prlimit64", equal(0, 0))
	allow("prlimit64", equal(2, 0)) // only reads
	allow("setpriority", equal(0, unix.PRIO_PROCESS), equal(1, 0))
	for _, name := range []string{"sched_setscheduler", "sched_setparam", "sched_setattr"} {
		allow(name, equal(0, 0))
	}
	return p
}

// TestProfileIsMobys derives the profile again and compares it.
func TestProfileIsMobys(t *testing.T) {
	text, err := json.MarshalIndent(makeProfile(), "", "\t")
	if err != nil {
		t.Fatal(err)
	}
	text = append(text, '\n')
	if *update {
		if err := os.WriteFile("seccomp.json", text, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if d := cmp.Diff(string(text), profile); d != "" {
		t.Errorf("seccomp.json is not what is made of moby's list (-update writes it):\n%s", d)
	}
}

// TestProfile evaluates the profile for single calls, like engines do.
func TestProfile(t *testing.T) {
	spec := &specs.Spec{Process: &specs.Process{Capabilities: &specs.LinuxCapabilities{}}}
	p, err := moby.LoadProfile(profile, spec)
	if err != nil {
		t.Fatal(err)
	}
	if p.DefaultAction != specs.ActErrno || len(p.Architectures) != 1 {
		t.Errorf("default %v, architectures %v", p.DefaultAction, p.Architectures)
	}
	tests := []struct {
		call string
		args [6]uint64
		want bool
	}{
		{"read", [6]uint64{}, true},
		{"landlock_restrict_self", [6]uint64{}, true},
		{"landlock_create_ruleset", [6]uint64{}, true},
		{"landlock_add_rule", [6]uint64{}, true},
		{"seccomp", [6]uint64{}, true},
		{"prctl", [6]uint64{}, true},
		{"pidfd_open", [6]uint64{}, true},
		{"pidfd_send_signal", [6]uint64{}, true},
		{"memfd_create", [6]uint64{}, true},
		{"sendmsg", [6]uint64{}, true},
		{"execve", [6]uint64{}, true},
		{"clone", [6]uint64{unix.CLONE_VM | unix.CLONE_THREAD | unix.CLONE_SIGHAND}, true},
		{"clone", [6]uint64{uint64(unix.SIGCHLD)}, true},
		{"clone", [6]uint64{unix.CLONE_NEWUSER | uint64(unix.SIGCHLD)}, false},
		{"clone", [6]uint64{unix.CLONE_NEWTIME}, false},
		{"clone3", [6]uint64{}, false},
		{"unshare", [6]uint64{}, false},
		{"setns", [6]uint64{}, false},
		{"mount", [6]uint64{}, false},
		{"ptrace", [6]uint64{}, false},
		{"bpf", [6]uint64{}, false},
		{"perf_event_open", [6]uint64{}, false},
		{"io_uring_setup", [6]uint64{}, false},
		{"keyctl", [6]uint64{}, false},
		{"userfaultfd", [6]uint64{}, false},
		{"open_by_handle_at", [6]uint64{}, false},
		{"kexec_load", [6]uint64{}, false},
		{"socketcall", [6]uint64{}, false},
		{"a_call_of_next_year", [6]uint64{}, false},
		{"socket", [6]uint64{unix.AF_UNIX, unix.SOCK_SEQPACKET | unix.SOCK_CLOEXEC}, true},
		{"socket", [6]uint64{unix.AF_INET, unix.SOCK_STREAM | unix.SOCK_CLOEXEC | unix.SOCK_NONBLOCK, unix.IPPROTO_TCP}, true},
		{"socket", [6]uint64{unix.AF_INET6, unix.SOCK_DGRAM}, true},
		{"socket", [6]uint64{unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP}, false},
		{"socket", [6]uint64{unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_SCTP}, false},
		{"socket", [6]uint64{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_ROUTE}, true},
		{"socket", [6]uint64{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_AUDIT}, false},
		{"socket", [6]uint64{unix.AF_PACKET, unix.SOCK_RAW}, false},
		{"socket", [6]uint64{unix.AF_VSOCK, unix.SOCK_STREAM}, false},
		{"socket", [6]uint64{unix.AF_ALG, unix.SOCK_SEQPACKET}, false},
		{"socketpair", [6]uint64{unix.AF_UNIX, unix.SOCK_STREAM}, true},
		{"socketpair", [6]uint64{unix.AF_TIPC, unix.SOCK_STREAM}, false},
		{"memfd_secret", [6]uint64{}, false},
		{"personality", [6]uint64{0x40000}, true},
		{"personality", [6]uint64{0x400000}, false},
		{"ioctl", [6]uint64{0, unix.TCGETS}, true},
		{"ioctl", [6]uint64{0, unix.TIOCGWINSZ}, true},
		{"ioctl", [6]uint64{0, 0x5411}, true},
		{"ioctl", [6]uint64{0, 0x541d}, true},
		{"ioctl", [6]uint64{0, 0x541e}, true},
		{"ioctl", [6]uint64{0, 0x5410}, true},
		{"ioctl", [6]uint64{0, unix.TIOCSTI}, false},
		{"ioctl", [6]uint64{0, unix.TIOCSTI | 1<<32}, false},
		{"ioctl", [6]uint64{0, unix.TIOCLINUX}, false},
		{"prlimit64", [6]uint64{0, unix.RLIMIT_NOFILE, 0x1000}, true},
		{"prlimit64", [6]uint64{1, unix.RLIMIT_NOFILE, 0, 0x1000}, true},
		{"prlimit64", [6]uint64{1, unix.RLIMIT_NOFILE, 0x1000}, false},
		{"prlimit64", [6]uint64{8, unix.RLIMIT_NOFILE, 0x1000}, false},
		{"prlimit64", [6]uint64{8 | 1<<32, unix.RLIMIT_NOFILE, 0x1000}, false},
		{"setpriority", [6]uint64{unix.PRIO_PROCESS, 0, 19}, true},
		{"setpriority", [6]uint64{unix.PRIO_PROCESS, 8, 19}, false},
		{"setpriority", [6]uint64{unix.PRIO_USER, 0, 19}, false},
		{"sched_setscheduler", [6]uint64{0, unix.SCHED_BATCH}, true},
		{"sched_setscheduler", [6]uint64{8, unix.SCHED_IDLE}, false},
		{"sched_setparam", [6]uint64{8}, false},
		{"sched_setattr", [6]uint64{8}, false},
	}
	for _, tt := range tests {
		if got := permits(p, tt.call, tt.args); got != tt.want {
			t.Errorf("%s%#x: allowed %v, want %v", tt.call, tt.args, got, tt.want)
		}
	}
}

// TestProfileForbids checks that no forbidden call is allowed with any arguments.
func TestProfileForbids(t *testing.T) {
	inPart := map[string]bool{"socket": true, "socketpair": true, "clone": true, "ioctl": true, "prlimit64": true, "setpriority": true,
		"sched_setscheduler": true, "sched_setparam": true, "sched_setattr": true}
	seen := map[string]bool{}
	for _, rule := range makeProfile().Syscalls {
		for _, name := range rule.Names {
			seen[name] = true
			if rule.Action == specs.ActAllow && slices.Contains(forbidden, name) && (!inPart[name] || len(rule.Args) == 0) {
				t.Errorf("%s is allowed", name)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(inPart)) {
		if !seen[name] {
			t.Errorf("nothing allows any %s", name)
		}
	}
}

// permits evaluates the rules: one that allows suffices.
func permits(p *specs.LinuxSeccomp, call string, args [6]uint64) bool {
	for _, rule := range p.Syscalls {
		if rule.Action == specs.ActAllow && slices.Contains(rule.Names, call) &&
			!slices.ContainsFunc(rule.Args, func(a specs.LinuxSeccompArg) bool { return !argMatches(a, args[a.Index]) }) {
			return true
		}
	}
	return false
}

func argMatches(a specs.LinuxSeccompArg, v uint64) bool {
	switch a.Op {
	case specs.OpEqualTo:
		return v == a.Value
	case specs.OpMaskedEqual:
		return v&a.Value == a.ValueTwo
	}
	return false
}
