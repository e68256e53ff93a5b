package seccomp

import (
	"fmt"
	"maps"
	"slices"

	"github.com/elastic/go-seccomp-bpf/arch"
	moby "github.com/moby/profiles/seccomp"
	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
)

// forbidden are calls that moby's list permits to a container without capabilities, and that a sandbox does not
// need: each has been, or leads to, a large attack surface of the kernel.
var forbidden = []string{
	"ptrace", "process_vm_readv", "process_vm_writev", "kcmp", "pidfd_getfd", "process_madvise",
	"io_uring_setup", "io_uring_enter", "io_uring_register",
	"add_key", "keyctl", "request_key", "userfaultfd", "perf_event_open", "bpf",
	"open_by_handle_at", "name_to_handle_at", "unshare", "setns", "mount", "umount2", "pivot_root",
	"open_tree", "move_mount", "fsopen", "fsconfig", "fsmount", "fspick", "mount_setattr", "chroot",
	"fanotify_init", "fanotify_mark", "quotactl", "syslog", "acct", "reboot", "swapon", "swapoff",
	"vhangup", "socket", "socketpair", "clone", "clone3", "ioctl", "ioprio_set", "modify_ldt",
}

// newNamespaces are the flags with which clone makes a namespace.
const newNamespaces = unix.CLONE_NEWNS | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC | unix.CLONE_NEWUSER |
	unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWCGROUP | unix.CLONE_NEWTIME

// deniedCalls returns the calls that this kind denies. Without an IPC namespace, objects of msgget and semget would
// outlive the sandbox.
func (k Kind) deniedCalls() []string {
	var list []string
	if !k.Affinity {
		list = append(list, "sched_setaffinity", "msgget", "semget") // they hold memory that belongs to no process
	}
	if !k.Namespaces { // nor may it use objects of other processes, which have numbers or names
		list = append(list, "shmget", "shmat", "shmdt", "shmctl", "msgget", "msgsnd", "msgrcv", "msgctl", "semget", "semop", "semtimedop",
			"semctl",
			"mq_open", "mq_unlink", "mq_timedsend", "mq_timedreceive", "mq_notify", "mq_getsetattr")
	}
	if k.Notifies {
		list = append(list, "chown", "lchown", "fchown", "fchownat", "utime", "utimes", "futimesat")
		// A watch of a directory reveals the names in it, and the user's few instances are shared by all its
		// processes.
		list = append(list, "inotify_init", "inotify_init1", "inotify_add_watch")
	}
	return list
}

// fixedReplies returns the replies to calls whose arguments a filter can't use for a decision: Landlock does not
// cover these rights, and extended attributes of all the user's files could be read, too. To programs, the file
// system seems not to support them.
func (k Kind) fixedReplies() map[string]uint32 {
	replies := map[string]uint32{}
	for _, name := range k.absentCalls() {
		replies[name] = enosys
	}
	if !k.WritesHost { // no file of a sandbox is on a disk; and the calls write back the changes of the whole host, or wait for that
		replies["sync"], replies["syncfs"] = pretended, pretended
	}
	if !k.Notifies {
		return replies
	}
	for _, name := range []string{"chmod", "fchmod", "fchmodat", "utimensat"} {
		replies[name] = unix.SECCOMP_RET_USER_NOTIF
	}
	for _, name := range []string{
		"setxattr", "lsetxattr", "fsetxattr", "getxattr", "lgetxattr", "listxattr", "llistxattr", "removexattr", "lremovexattr", "fremovexattr",
	} {
		replies[name] = noXattrs
	}
	return replies
}

// absentCalls returns the calls that the filter reports as missing (ENOSYS), because it can't see their arguments:
// programs then fall back to others.
func (k Kind) absentCalls() []string {
	list := append([]string{"clone3", "seccomp"}, rare...)
	if k.WritesHost {
		list = append(list, "openat2", "fchmodat2")
	}
	return list
}

// rare are calls for which every program has a fallback: the older asynchronous I/O, whose contexts count for the
// whole host (fs.aio-max-nr), memory that permanently splits the kernel's own map, the cached pages of others'
// files, and two recent ones.
var rare = []string{
	"io_setup", "io_submit", "io_getevents", "io_pgetevents", "io_cancel", "io_destroy", "memfd_secret", "cachestat",
	"vmsplice", "futex_waitv",
}

// mobysList returns the calls that Docker permits to a container without capabilities on this kernel, without the
// forbidden ones. It leaves out names that this architecture does not have.
func mobysList(info *arch.Info) (always []int, decisions []decision, err error) {
	spec := &specs.Spec{Process: &specs.Process{Capabilities: &specs.LinuxCapabilities{}}}
	profile, err := moby.GetDefaultProfile(spec)
	if err != nil {
		return nil, nil, err
	}
	when := map[string][]conditions{}
	for _, rule := range profile.Syscalls {
		if rule.Action != specs.ActAllow {
			continue
		}
		for _, name := range rule.Names {
			number, known := info.SyscallNames[name]
			if !known || slices.Contains(forbidden, name) {
				continue
			}
			if len(rule.Args) == 0 {
				always = append(always, number)
				continue
			}
			all, err := conditionsOf(rule.Args)
			if err != nil {
				return nil, nil, fmt.Errorf("%s: %w", name, err)
			}
			when[name] = append(when[name], all)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(when)) {
		if slices.Contains(always, info.SyscallNames[name]) {
			continue
		}
		decisions = append(decisions, decision{name, when[name], allowed, eperm})
	}
	slices.Sort(always)
	return slices.Compact(always), decisions, nil
}

// conditionsOf converts the conditions of a rule of moby's list. Operators other than these two are an error.
func conditionsOf(args []specs.LinuxSeccompArg) (list conditions, err error) {
	for _, a := range args {
		switch a.Op {
		case specs.OpEqualTo:
			list = append(list, equal(uint32(a.Index), a.Value))
		case specs.OpMaskedEqual:
			list = append(list, masked(uint32(a.Index), a.Value, a.ValueTwo))
		default:
			return nil, fmt.Errorf("unknown condition %s", a.Op)
		}
	}
	return list, nil
}

// ownDecisions are the decisions in addition to moby's list. The kernel evaluates only the low 32 bits of some
// arguments, the filter 64: a rule that allows compares all of them (garbage above is refused), a rule that forbids
// only the low ones (CVE-2019-10063 was to forget that).
func ownDecisions(k Kind) []decision {
	clone := []conditions{{noBits(0, newNamespaces)}}
	if !k.Affinity {
		// The watcher finds memory files by the descriptors of processes: all threads must share one table.
		clone = []conditions{
			{noBits(0, newNamespaces|unix.CLONE_THREAD)},
			{noBits(0, newNamespaces), allBits(0, unix.CLONE_FILES)},
		}
	}
	// A line discipline is a kernel driver behind a terminal, and setting it loads its module: n_hdlc and n_gsm
	// have given programs root. A file system keeps keys for the whole host, and accepts them from any process that
	// has one of its files open for reading.
	refusedIoctls := low32(1, unix.TIOCSTI, unix.TIOCLINUX, unix.TIOCSETD, unix.FS_IOC_ADD_ENCRYPTION_KEY)
	ioctl := decision{"ioctl", []conditions{{refusedIoctls}}, eperm, allowed}
	if k.Notifies {
		ioctl = decision{"ioctl", []conditions{{low32(1, safeIoctls...)}}, allowed, enotty}
	}
	list := append(hugePages(),
		ioctl,
		decision{"fcntl", []conditions{{low32(1, leases...)}}, einval, allowed},
		// The timing of pages that are merged with equal ones of other processes reveals their contents.
		decision{"madvise", []conditions{{low32(2, unix.MADV_MERGEABLE)}}, einval, allowed},
		decision{"clone", clone, allowed, eperm},
		decision{"setsockopt", refusedOptions(), noOption, undecided},
		decision{"setsockopt", []conditions{{low32(1, unix.SOL_SOCKET), low32(2, buffers...)}}, pretended, allowed},
		// socketpair makes sockets of any family before it finds that they have no pairs.
		decision{"socketpair", []conditions{{equal(0, unix.AF_UNIX)}}, allowed, noFamily},
		// Sanitizers restart without address randomisation if their addresses are taken.
		decision{"personality", []conditions{{equal(0, addrNoRandomize)}}, allowed, undecided},
	)
	// A BPF program takes kernel memory that no cgroup counts, see socketFilters; and libseccomp takes EINVAL for a
	// kernel without seccomp. A core scheduling cookie keeps the sibling thread of a core idle, which takes CPU
	// time from others. Names of memory areas are uncounted kernel memory.
	refused := []conditions{{low32(0, unix.PR_SET_SECCOMP, unix.PR_SCHED_CORE, unix.PR_SET_VMA)}}
	if !k.Affinity {
		// The watcher must be able to read every process's memory use, which the value 1 permits.
		refused = append(refused, conditions{low32(0, unix.PR_SET_DUMPABLE), low32(1, 0)})
	}
	list = append(list, decision{"prctl", refused, einval, allowed})
	if k.WritesHost {
		list = append(list, noSetuid()...)
	}
	switch {
	case k.InContainer || !k.Namespaces:
		list = append(list, onlyItself()...)
		if k.Affinity {
			list = append(list, decision{"sched_setaffinity", itself, allowed, eperm})
		}
	case k.Namespaces:
		list = append(list, notInit(k)...)
	}
	if k.Namespaces {
		list = append(list, decision{"socket", k.sockets(), allowed, noFamily}) // the error of a kernel without them
	}
	return list
}

const addrNoRandomize = 0x40000 // linux/personality.h, not in x/sys

// hugePages refuse the host's pool of huge pages of any size, which the memory cgroup does not count: to programs,
// the pool is empty, and to memfd_create it does not exist.
func hugePages() []decision {
	const shmHugeTLB = 0o4000 // linux/shm.h, not in x/sys
	return []decision{
		{"mmap", []conditions{{allBits(3, unix.MAP_HUGETLB)}}, noMemory, allowed},
		// Chromium sets all flags at once to test for memfd_create, and aborts at any error other than EINVAL.
		{"memfd_create", []conditions{{allBits(1, unix.MFD_HUGETLB)}}, einval, allowed},
		{"shmget", []conditions{{allBits(2, shmHugeTLB)}}, noMemory, undecided},
	}
}

// leases are the fcntl commands by which a program delays others that open a file of its user (lease-break-time),
// including F_SETDELEG, or gets notified of events in a directory.
var leases = []uint32{unix.F_SETLEASE, unix.F_NOTIFY, 1040}

// safeIoctls are requests for terminals, pipes and descriptors. Others change attributes of files that are open for
// reading, or control a file system.
var safeIoctls = []uint32{
	unix.TCGETS, unix.TCSETS, unix.TCSETSW, unix.TCSETSF, unix.TCSBRK, unix.TCFLSH, unix.TIOCGPGRP, unix.TIOCSPGRP, unix.TIOCOUTQ,
	unix.TIOCGWINSZ, unix.TIOCSWINSZ, unix.TIOCSCTTY, unix.TIOCSPTLCK, unix.TIOCGPTPEER, unix.TIOCINQ, unix.TIOCGSID,
	0x5421, 0x5450, 0x5451, 0x5452, 0x5460, // FIONBIO, FIONCLEX, FIOCLEX, FIOASYNC, FIOQSIZE of asm-generic/ioctls.h, not in x/sys
}

// socketFilters are the options that attach a BPF program to a socket, or lock an attached one. Each is compiled
// into memory that the whole host shares (net.core.bpf_jit_limit): thousands, released at once, kept the work
// queues of a 6.18 kernel permanently busy, and no process of the host could load a filter any more.
var socketFilters = []uint32{unix.SO_ATTACH_FILTER, unix.SO_ATTACH_BPF, unix.SO_ATTACH_REUSEPORT_CBPF, unix.SO_ATTACH_REUSEPORT_EBPF,
	unix.SO_LOCK_FILTER}

// buffers are the options that enlarge a socket's buffer, directly or by its low-water mark. The call seems to
// succeed, like the kernel's for sizes above its maximum; getsockopt returns the real size.
var buffers = []uint32{unix.SO_SNDBUF, unix.SO_RCVBUF, unix.SO_RCVLOWAT}

// refusedOptions match the socket options that use a table or pool of the whole host, or that lead to a part of the
// kernel that programs without a network don't need. The error is that of a kernel without them.
func refusedOptions() []conditions {
	const tcpAO, flowLabel = 38, 32 // TCP_AO_ADD_KEY, IPV6_FLOWLABEL_MGR: not in x/sys
	return []conditions{
		// Reserved memory counts in the host's pool (tcp_mem) at once.
		{low32(1, unix.SOL_SOCKET), low32(2, append(slices.Clone(socketFilters), unix.SO_RESERVE_MEM, unix.SO_ZEROCOPY)...)},
		// The first leads to kTLS, the second to any module, and the others enable code of the whole kernel.
		{low32(1, unix.SOL_TCP), low32(2, unix.TCP_ULP, unix.TCP_CONGESTION, unix.TCP_MD5SIG, unix.TCP_MD5SIG_EXT, tcpAO)},
		{low32(1, unix.IPPROTO_UDP), low32(2, unix.UDP_ENCAP)}, // IPsec and L2TP
		// Joining a group takes kernel memory that no cgroup counts, and its lookup holds a lock of all networks
		// (RTNL).
		{low32(1, unix.IPPROTO_IP, unix.IPPROTO_IPV6), low32(2, unix.MCAST_JOIN_GROUP, unix.MCAST_JOIN_SOURCE_GROUP, unix.MCAST_MSFILTER)},
		{low32(1, unix.IPPROTO_IP), low32(2, unix.IP_ADD_MEMBERSHIP, unix.IP_ADD_SOURCE_MEMBERSHIP, unix.IP_MSFILTER)},
		// There are 4,096 flow labels for all networks of the host.
		{low32(1, unix.IPPROTO_IPV6), low32(2, unix.IPV6_JOIN_GROUP, unix.IPV6_JOIN_ANYCAST, flowLabel, unix.IPV6_ADDRFORM)},
	}
}

// itself matches calls that change only the caller, which is PID 0.
var itself = []conditions{{equal(0, 0)}}

// onlyItself is for sandboxes in which programs can reach other processes of their user: the user's own without a
// user namespace, and in a container the init and its children.
func onlyItself() []decision {
	return []decision{
		{"prlimit64", itself, allowed, eperm},
		// PRIO_PROCESS is 0. Otherwise, 0 means the caller's whole group or user.
		{"setpriority", []conditions{{equal(0, 0), equal(1, 0)}}, allowed, eperm},
		{"sched_setscheduler", itself, allowed, eperm},
		{"sched_setparam", itself, allowed, eperm},
		{"sched_setattr", itself, allowed, eperm},
	}
}

// notInit keeps programs from changing the limits and priority of PID 1, which has the same user.
func notInit(k Kind) []decision {
	init := func(arg uint32) []conditions { return []conditions{{low32(arg, 1)}} }
	list := []decision{
		{"prlimit64", init(0), eperm, allowed},
		{"sched_setscheduler", init(0), eperm, allowed},
		{"sched_setparam", init(0), eperm, allowed},
		{"sched_setattr", init(0), eperm, allowed},
		// PID 1 is a member of a group (1) or a user (2).
		{"setpriority", append(init(1), conditions{low32(0, unix.PRIO_PGRP)}, conditions{low32(0, unix.PRIO_USER)}), eperm, allowed},
	}
	if k.Affinity {
		list = append(list, decision{"sched_setaffinity", init(0), eperm, allowed})
	}
	return list
}

// noSetuid keeps a program from creating set-user-ID files on the host, in a directory that it may write: nosuid
// affects only the mounts inside.
func noSetuid() []decision {
	const bits = unix.S_ISUID | unix.S_ISGID
	// The mode counts only if a file is created: O_CREAT, and O_TMPFILE's own bit.
	const makes = unix.O_CREAT | unix.O_TMPFILE&^unix.O_DIRECTORY
	list := []decision{
		{"openat", []conditions{{noBits(2, makes)}, {noBits(3, bits)}}, allowed, eperm},
		{"open", []conditions{{noBits(1, makes)}, {noBits(2, bits)}}, allowed, eperm},
	}
	for name, arg := range map[string]uint32{
		"chmod": 1, "fchmod": 1, "fchmodat": 2, "creat": 1, "mknod": 1, "mknodat": 2, "mkdir": 1, "mkdirat": 2,
	} {
		list = append(list, decision{name, []conditions{{noBits(arg, bits)}}, allowed, eperm})
	}
	return list
}

// sockets are the useful kinds of sockets in an empty network namespace: Unix, TCP and UDP, and the one netlink
// family by which programs list interfaces.
func (k Kind) sockets() []conditions {
	list := []conditions{
		{equal(0, unix.AF_UNIX)},
		{equal(0, unix.AF_NETLINK), equal(2, unix.NETLINK_ROUTE)},
	}
	if k.NoInternet {
		return list
	}
	const kind = 15 // the low four bits are the type; flags such as SOCK_CLOEXEC are above
	for _, family := range []uint64{unix.AF_INET, unix.AF_INET6} {
		for _, protocol := range []uint64{0, unix.IPPROTO_TCP} {
			list = append(list, conditions{equal(0, family), equal(2, protocol), masked(1, kind, unix.SOCK_STREAM)})
		}
		for _, protocol := range []uint64{0, unix.IPPROTO_UDP} {
			list = append(list, conditions{equal(0, family), equal(2, protocol), masked(1, kind, unix.SOCK_DGRAM)})
		}
	}
	return list
}
