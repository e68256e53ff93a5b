package seccomp

import (
	"encoding/binary"
	"runtime"
	"testing"

	"github.com/elastic/go-seccomp-bpf/arch"
	netbpf "golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

const killed = 0x80000000 // SECCOMP_RET_KILL_PROCESS

// TestFilter runs the filter on calls like the kernel, in a virtual machine.
func TestFilter(t *testing.T) {
	info, err := arch.GetInfo("")
	if err != nil {
		t.Fatal(err)
	}
	const garbage = 1 << 40 // above the bits that the kernel evaluates
	wide, landlockOnly, noInternet := Kind{Namespaces: true, Affinity: true}, Kind{},
		Kind{Namespaces: true, InContainer: true, NoInternet: true}
	asked := Kind{Affinity: true, WritesHost: true, Notifies: true} // "landlock" of an ordinary user
	const notified = uint32(unix.SECCOMP_RET_USER_NOTIF)
	container := Kind{Namespaces: true, Affinity: true, InContainer: true}
	shared := Kind{Namespaces: true, Affinity: true, WritesHost: true}
	for _, c := range []struct {
		name string
		kind Kind
		call string
		args [6]uint64
		want uint32
	}{
		{"read", wide, "read", [6]uint64{}, allowed},
		{"execve", wide, "execve", [6]uint64{}, allowed},
		{"openat2", wide, "openat2", [6]uint64{}, allowed},
		{"fork by clone", wide, "clone", [6]uint64{uint64(unix.SIGCHLD)}, allowed},
		{"clone of a user namespace", wide, "clone", [6]uint64{unix.CLONE_NEWUSER}, eperm},
		{"clone of a net namespace with garbage", wide, "clone", [6]uint64{unix.CLONE_NEWNET | garbage}, eperm},
		{"no cgroup: a thread", landlockOnly, "clone", [6]uint64{unix.CLONE_VM | unix.CLONE_SIGHAND | unix.CLONE_THREAD | unix.CLONE_FILES},
			allowed},
		{"no cgroup: a process", landlockOnly, "clone", [6]uint64{uint64(unix.SIGCHLD)}, allowed},
		{"no cgroup: a thread with descriptors of its own", landlockOnly, "clone",
			[6]uint64{unix.CLONE_VM | unix.CLONE_SIGHAND | unix.CLONE_THREAD}, eperm},
		{"no cgroup: a user namespace", landlockOnly, "clone", [6]uint64{unix.CLONE_NEWUSER | unix.CLONE_FILES}, eperm},
		{"clone3", wide, "clone3", [6]uint64{}, enosys},
		{"unshare", wide, "unshare", [6]uint64{unix.CLONE_FILES}, eperm},
		{"setns", wide, "setns", [6]uint64{}, eperm},
		{"ptrace", wide, "ptrace", [6]uint64{}, eperm},
		{"mount", wide, "mount", [6]uint64{}, eperm},
		{"open_tree", wide, "open_tree", [6]uint64{}, eperm},
		{"bpf", wide, "bpf", [6]uint64{}, eperm},
		{"io_uring_setup", wide, "io_uring_setup", [6]uint64{}, eperm},
		{"keyctl", wide, "keyctl", [6]uint64{}, eperm},
		{"userfaultfd", wide, "userfaultfd", [6]uint64{}, eperm},
		{"open_by_handle_at", wide, "open_by_handle_at", [6]uint64{}, eperm},
		{"TCGETS", wide, "ioctl", [6]uint64{0, unix.TCGETS}, allowed},
		{"TIOCSTI", wide, "ioctl", [6]uint64{0, unix.TIOCSTI}, eperm},
		{"TIOCSTI with garbage", wide, "ioctl", [6]uint64{0, unix.TIOCSTI | garbage}, eperm},
		{"TIOCLINUX", wide, "ioctl", [6]uint64{0, unix.TIOCLINUX | garbage}, eperm},
		{"TIOCSETD", wide, "ioctl", [6]uint64{0, unix.TIOCSETD | garbage}, eperm},
		{"unix stream", wide, "socket", [6]uint64{unix.AF_UNIX, unix.SOCK_STREAM | unix.SOCK_CLOEXEC}, allowed},
		{"tcp", wide, "socket", [6]uint64{unix.AF_INET, unix.SOCK_STREAM | unix.SOCK_NONBLOCK}, allowed},
		{"udp6", wide, "socket", [6]uint64{unix.AF_INET6, unix.SOCK_DGRAM, unix.IPPROTO_UDP}, allowed},
		{"mptcp", wide, "socket", [6]uint64{unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_MPTCP}, noFamily},
		{"sctp", wide, "socket", [6]uint64{unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_SCTP}, noFamily},
		{"raw", wide, "socket", [6]uint64{unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP}, noFamily},
		{"raw with flags", wide, "socket", [6]uint64{unix.AF_INET, unix.SOCK_RAW | unix.SOCK_CLOEXEC}, noFamily},
		{"packet", wide, "socket", [6]uint64{unix.AF_PACKET, unix.SOCK_DGRAM}, noFamily},
		{"vsock", wide, "socket", [6]uint64{unix.AF_VSOCK, unix.SOCK_STREAM}, noFamily},
		{"vsock with garbage", wide, "socket", [6]uint64{unix.AF_VSOCK | garbage, unix.SOCK_STREAM}, noFamily},
		{"alg", wide, "socket", [6]uint64{unix.AF_ALG, unix.SOCK_SEQPACKET}, noFamily},
		{"netlink route", wide, "socket", [6]uint64{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_ROUTE}, allowed},
		{"netlink audit", wide, "socket", [6]uint64{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_AUDIT}, noFamily},
		{"no internet: tcp", noInternet, "socket", [6]uint64{unix.AF_INET, unix.SOCK_STREAM}, noFamily},
		{"no internet: udp6", noInternet, "socket", [6]uint64{unix.AF_INET6, unix.SOCK_DGRAM, unix.IPPROTO_UDP}, noFamily},
		{"no internet: tcp with garbage", noInternet, "socket", [6]uint64{unix.AF_INET | garbage, unix.SOCK_STREAM}, noFamily},
		{"no internet: unix", noInternet, "socket", [6]uint64{unix.AF_UNIX, unix.SOCK_DGRAM}, allowed},
		{"affinity", wide, "sched_setaffinity", [6]uint64{}, allowed},
		{"landlock: affinity", landlockOnly, "sched_setaffinity", [6]uint64{}, eperm},
		{"landlock: tcp", landlockOnly, "socket", [6]uint64{unix.AF_INET, unix.SOCK_STREAM}, eperm},
		{"landlock: unix", landlockOnly, "socket", [6]uint64{unix.AF_UNIX, unix.SOCK_STREAM}, eperm},
		{"shmget", wide, "shmget", [6]uint64{}, allowed},
		{"landlock: shmget", landlockOnly, "shmget", [6]uint64{}, eperm},
		{"without a cgroup: semget", Kind{Namespaces: true}, "semget", [6]uint64{}, eperm},
		{"landlock: shmat", landlockOnly, "shmat", [6]uint64{}, eperm},
		{"landlock: shmctl", landlockOnly, "shmctl", [6]uint64{}, eperm},
		{"landlock: semctl", landlockOnly, "semctl", [6]uint64{}, eperm},
		{"landlock: semtimedop", landlockOnly, "semtimedop", [6]uint64{}, eperm},
		{"landlock: msgrcv", landlockOnly, "msgrcv", [6]uint64{}, eperm},
		{"landlock: mq_unlink", landlockOnly, "mq_unlink", [6]uint64{}, eperm},
		{"asked: chmod", asked, "chmod", [6]uint64{0, 0o644}, notified},
		{"asked: fchmod", asked, "fchmod", [6]uint64{3, 0o644}, notified},
		{"asked: fchmodat", asked, "fchmodat", [6]uint64{0, 0, 0o644}, notified},
		{"asked: fchmodat2", asked, "fchmodat2", [6]uint64{}, enosys},
		{"asked: utimensat", asked, "utimensat", [6]uint64{}, notified},
		{"asked: utimes", asked, "utimes", [6]uint64{}, eperm},
		{"asked: fchown", asked, "fchown", [6]uint64{}, eperm},
		{"asked: fchownat", asked, "fchownat", [6]uint64{}, eperm},
		{"asked: fsetxattr", asked, "fsetxattr", [6]uint64{}, noXattrs},
		{"asked: getxattr", asked, "getxattr", [6]uint64{}, noXattrs},
		{"asked: fgetxattr", asked, "fgetxattr", [6]uint64{}, allowed},
		{"asked: inotify", asked, "inotify_init1", [6]uint64{}, eperm},
		{"asked: FS_IOC_SETFLAGS", asked, "ioctl", [6]uint64{3, 0x40086602}, enotty},
		{"asked: TCGETS", asked, "ioctl", [6]uint64{3, unix.TCGETS}, allowed},
		{"asked: TIOCSTI", asked, "ioctl", [6]uint64{3, unix.TIOCSTI}, enotty},
		{"asked: a setuid directory", asked, "mkdirat", [6]uint64{0, 0, 0o4755}, eperm},
		{"asked: affinity of itself", asked, "sched_setaffinity", [6]uint64{}, allowed},
		{"asked: affinity of another", asked, "sched_setaffinity", [6]uint64{7}, eperm},
		{"not asked: chmod", wide, "chmod", [6]uint64{}, allowed},
		{"landlock: mq_open", landlockOnly, "mq_open", [6]uint64{}, eperm},
		{"chmod", shared, "chmod", [6]uint64{0, 0o755}, allowed},
		{"chmod setuid", shared, "chmod", [6]uint64{0, 0o4755}, eperm},
		{"chmod setuid where nothing is shared", wide, "chmod", [6]uint64{0, 0o4755}, allowed},
		{"fchmodat setgid", shared, "fchmodat", [6]uint64{0, 0, 0o2755}, eperm},
		{"openat for reading", shared, "openat", [6]uint64{0, 0, 0, 0o4755}, allowed},
		{"openat that makes a file", shared, "openat", [6]uint64{0, 0, unix.O_CREAT | unix.O_WRONLY, 0o644}, allowed},
		{"openat that makes a setuid file", shared, "openat", [6]uint64{0, 0, unix.O_CREAT | unix.O_WRONLY, 0o4755}, eperm},
		{"openat of a setuid O_TMPFILE", shared, "openat", [6]uint64{0, 0, unix.O_TMPFILE | unix.O_WRONLY, 0o4755}, eperm},
		{"openat of a directory", shared, "openat", [6]uint64{0, 0, unix.O_DIRECTORY, garbage}, allowed},
		{"openat2", shared, "openat2", [6]uint64{}, enosys},
		{"no cgroup: be seen by the watcher", landlockOnly, "prctl", [6]uint64{unix.PR_SET_DUMPABLE, 1}, allowed},
		{"no cgroup: hide from the watcher", landlockOnly, "prctl", [6]uint64{unix.PR_SET_DUMPABLE}, einval},
		{"no cgroup: hide from the watcher, with garbage above", landlockOnly, "prctl", [6]uint64{garbage | unix.PR_SET_DUMPABLE, garbage},
			einval},
		{"a filter of its own", wide, "seccomp", [6]uint64{unix.SECCOMP_SET_MODE_FILTER}, enosys},
		{"a filter of its own by prctl", wide, "prctl", [6]uint64{unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER}, einval},
		{"a filter of its own by prctl, with garbage", landlockOnly, "prctl", [6]uint64{unix.PR_SET_SECCOMP | garbage, unix.SECCOMP_MODE_FILTER},
			einval},
		{"a socket's filter", wide, "setsockopt", [6]uint64{3, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER}, noOption},
		{"a socket's filter, with garbage", landlockOnly, "setsockopt", [6]uint64{3, unix.SOL_SOCKET | garbage, unix.SO_ATTACH_FILTER | garbage},
			noOption},
		{"a socket's eBPF", container, "setsockopt", [6]uint64{3, unix.SOL_SOCKET, unix.SO_ATTACH_BPF}, noOption},
		{"a group's filter", wide, "setsockopt", [6]uint64{3, unix.SOL_SOCKET, unix.SO_ATTACH_REUSEPORT_CBPF}, noOption},
		{"a group's eBPF", wide, "setsockopt", [6]uint64{3, unix.SOL_SOCKET, unix.SO_ATTACH_REUSEPORT_EBPF}, noOption},
		{"the filter's lock", wide, "setsockopt", [6]uint64{3, unix.SOL_SOCKET, unix.SO_LOCK_FILTER}, noOption},
		{"another level's option of that number", wide, "setsockopt", [6]uint64{3, unix.IPPROTO_IPV6, unix.SO_ATTACH_FILTER}, allowed},
		{"a larger buffer", wide, "setsockopt", [6]uint64{3, unix.SOL_SOCKET, unix.SO_SNDBUF}, uint32(unix.SECCOMP_RET_ERRNO)},
		{"a larger buffer, with garbage", container, "setsockopt", [6]uint64{3, unix.SOL_SOCKET | garbage, unix.SO_RCVBUF | garbage},
			uint32(unix.SECCOMP_RET_ERRNO)},
		{"SO_RCVLOWAT", container, "setsockopt", [6]uint64{3, unix.SOL_SOCKET, unix.SO_RCVLOWAT}, uint32(unix.SECCOMP_RET_ERRNO)},
		{"SO_REUSEADDR", wide, "setsockopt", [6]uint64{3, unix.SOL_SOCKET, unix.SO_REUSEADDR}, allowed},
		{"memory reserved by a socket", wide, "setsockopt", [6]uint64{3, unix.SOL_SOCKET, unix.SO_RESERVE_MEM}, noOption},
		{"SO_ZEROCOPY", wide, "setsockopt", [6]uint64{3, unix.SOL_SOCKET, unix.SO_ZEROCOPY}, noOption},
		{"kTLS", wide, "setsockopt", [6]uint64{3, unix.SOL_TCP, unix.TCP_ULP}, noOption},
		{"kTLS, with garbage", container, "setsockopt", [6]uint64{3, unix.SOL_TCP | garbage, unix.TCP_ULP | garbage}, noOption},
		{"congestion control", wide, "setsockopt", [6]uint64{3, unix.SOL_TCP, unix.TCP_CONGESTION}, noOption},
		{"TCP_MD5SIG", wide, "setsockopt", [6]uint64{3, unix.SOL_TCP, unix.TCP_MD5SIG}, noOption},
		{"TCP_MD5SIG_EXT", wide, "setsockopt", [6]uint64{3, unix.SOL_TCP, unix.TCP_MD5SIG_EXT}, noOption},
		{"TCP_AO_ADD_KEY", wide, "setsockopt", [6]uint64{3, unix.SOL_TCP, 38}, noOption},
		{"TCP_NODELAY", wide, "setsockopt", [6]uint64{3, unix.SOL_TCP, unix.TCP_NODELAY}, allowed},
		{"TCP_KEEPIDLE", wide, "setsockopt", [6]uint64{3, unix.SOL_TCP, unix.TCP_KEEPIDLE}, allowed},
		{"UDP_ENCAP", wide, "setsockopt", [6]uint64{3, unix.IPPROTO_UDP, unix.UDP_ENCAP}, noOption},
		{"UDP_SEGMENT", wide, "setsockopt", [6]uint64{3, unix.IPPROTO_UDP, unix.UDP_SEGMENT}, allowed},
		{"a group of IPv4", wide, "setsockopt", [6]uint64{3, unix.IPPROTO_IP, unix.IP_ADD_MEMBERSHIP}, noOption},
		{"a group of IPv6", wide, "setsockopt", [6]uint64{3, unix.IPPROTO_IPV6, unix.IPV6_JOIN_GROUP}, noOption},
		{"a group of any protocol", container, "setsockopt", [6]uint64{3, unix.IPPROTO_IPV6, unix.MCAST_JOIN_GROUP}, noOption},
		{"a flow label", wide, "setsockopt", [6]uint64{3, unix.IPPROTO_IPV6, 32}, noOption},
		{"IPV6_V6ONLY", wide, "setsockopt", [6]uint64{3, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY}, allowed},
		{"mmap", wide, "mmap", [6]uint64{0, 4096, 3, unix.MAP_PRIVATE | unix.MAP_ANONYMOUS}, allowed},
		{"huge pages", wide, "mmap", [6]uint64{0, 4096, 3, unix.MAP_PRIVATE | unix.MAP_ANONYMOUS | unix.MAP_HUGETLB}, noMemory},
		{"huge pages of 1 GB", container, "mmap", [6]uint64{0, 4096, 3, unix.MAP_SHARED | unix.MAP_ANONYMOUS | unix.MAP_HUGETLB | 30<<26},
			noMemory},
		{"huge pages, with garbage", landlockOnly, "mmap", [6]uint64{0, 4096, 3, unix.MAP_ANONYMOUS | unix.MAP_HUGETLB | garbage}, noMemory},
		{"a memory file", wide, "memfd_create", [6]uint64{0, unix.MFD_CLOEXEC}, allowed},
		{"a memory file of huge pages", wide, "memfd_create", [6]uint64{0, unix.MFD_CLOEXEC | unix.MFD_HUGETLB | 21<<26}, einval},
		{"all flags of memory files, as Chromium asks", wide, "memfd_create", [6]uint64{0, 0xffffffff}, einval},
		{"a segment of huge pages", wide, "shmget", [6]uint64{0, 4096, 0o4600}, noMemory},
		{"memfd_secret", wide, "memfd_secret", [6]uint64{}, enosys},
		{"a lease", wide, "fcntl", [6]uint64{3, unix.F_SETLEASE | garbage}, einval},
		{"a watch by fcntl", landlockOnly, "fcntl", [6]uint64{3, unix.F_NOTIFY}, einval},
		{"a delegation", wide, "fcntl", [6]uint64{3, 1040}, einval},
		{"a lock", wide, "fcntl", [6]uint64{3, unix.F_SETLK}, allowed},
		{"merged pages", wide, "madvise", [6]uint64{0, 4096, unix.MADV_MERGEABLE}, einval},
		{"pages given back", wide, "madvise", [6]uint64{0, 4096, unix.MADV_DONTNEED}, allowed},
		{"core scheduling", wide, "prctl", [6]uint64{unix.PR_SCHED_CORE, 1}, einval},
		{"a name of memory", wide, "prctl", [6]uint64{unix.PR_SET_VMA}, einval},
		{"a key of a file system", wide, "ioctl", [6]uint64{3, unix.FS_IOC_ADD_ENCRYPTION_KEY | garbage}, eperm},
		{"a pair of Unix sockets", wide, "socketpair", [6]uint64{unix.AF_UNIX, unix.SOCK_STREAM}, allowed},
		{"a pair of TIPC", wide, "socketpair", [6]uint64{unix.AF_TIPC, unix.SOCK_STREAM}, noFamily},
		{"landlock: a pair of the internet", landlockOnly, "socketpair", [6]uint64{unix.AF_INET, unix.SOCK_STREAM}, noFamily},
		{"addresses that are not random", wide, "personality", [6]uint64{0x40000}, allowed},
		{"memory that is executable when it is read", wide, "personality", [6]uint64{0x400000}, eperm},
		{"sync", wide, "sync", [6]uint64{}, pretended},
		{"syncfs", wide, "syncfs", [6]uint64{3}, pretended},
		{"sync of the host's files", shared, "sync", [6]uint64{}, allowed},
		{"io_setup", wide, "io_setup", [6]uint64{}, enosys},
		{"vmsplice", wide, "vmsplice", [6]uint64{}, enosys},
		{"futex_waitv", wide, "futex_waitv", [6]uint64{}, enosys},
		{"no cgroup: name a thread", landlockOnly, "prctl", [6]uint64{unix.PR_SET_NAME}, allowed},
		{"prlimit of another", wide, "prlimit64", [6]uint64{7}, allowed},
		{"container: prlimit of itself", container, "prlimit64", [6]uint64{}, allowed},
		{"container: prlimit of another", container, "prlimit64", [6]uint64{7}, eperm},
		{"container: priority of another", container, "setpriority", [6]uint64{0, 7}, eperm},
		{"container: priority of itself", container, "setpriority", [6]uint64{unix.PRIO_PROCESS, 0, 5}, allowed},
		{"container: priority of its user", container, "setpriority", [6]uint64{unix.PRIO_USER, 0, 5}, eperm},
		{"landlock: priority of its user", landlockOnly, "setpriority", [6]uint64{unix.PRIO_USER, 0, 5}, eperm},
		{"container: affinity of itself", container, "sched_setaffinity", [6]uint64{}, allowed},
		{"container: affinity of another", container, "sched_setaffinity", [6]uint64{7}, eperm},
		{"container: tcp", container, "socket", [6]uint64{unix.AF_INET, unix.SOCK_STREAM}, allowed},
		{"prlimit of the first", wide, "prlimit64", [6]uint64{1 | garbage}, eperm},
		{"priority of itself", wide, "setpriority", [6]uint64{0, 0, 5}, allowed},
		{"priority of the first", wide, "setpriority", [6]uint64{0, 1, 5}, eperm},
		{"priority of its user", wide, "setpriority", [6]uint64{unix.PRIO_USER, 0, 5}, eperm},
		{"scheduler of the first", wide, "sched_setscheduler", [6]uint64{1}, eperm},
		{"affinity of the first", wide, "sched_setaffinity", [6]uint64{1}, eperm},
		{"landlock: prlimit of itself", landlockOnly, "prlimit64", [6]uint64{0, 7}, allowed},
		{"landlock: prlimit of another", landlockOnly, "prlimit64", [6]uint64{7}, eperm},
		{"landlock: priority of another", landlockOnly, "setpriority", [6]uint64{0, 7}, eperm},
		{"landlock: scheduler of another", landlockOnly, "sched_setscheduler", [6]uint64{7}, eperm},
		{"landlock: socketpair", landlockOnly, "socketpair", [6]uint64{unix.AF_UNIX, unix.SOCK_STREAM}, allowed},
	} {
		t.Run(c.name, func(t *testing.T) {
			number, ok := info.SyscallNames[c.call]
			if !ok {
				t.Skipf("%s does not exist on %s", c.call, runtime.GOARCH)
			}
			if got := runFilter(t, c.kind, uint32(info.ID), uint32(number), c.args); got != c.want {
				t.Errorf("got %#x, want %#x", got, c.want)
			}
		})
	}
	t.Run("foreign architecture", func(t *testing.T) {
		if got := runFilter(t, wide, uint32(arch.I386.ID), 1, [6]uint64{}); got != killed {
			t.Errorf("got %#x, want %#x", got, uint32(killed))
		}
	})
	t.Run("x32", func(t *testing.T) {
		if got := runFilter(t, wide, uint32(info.ID), 0x40000001, [6]uint64{}); got != killed {
			t.Errorf("got %#x, want %#x", got, uint32(killed))
		}
	})
	t.Run("call of the future", func(t *testing.T) {
		if got := runFilter(t, wide, uint32(info.ID), 9999, [6]uint64{}); got != enosys {
			t.Errorf("got %#x, want %#x", got, enosys)
		}
	})
}

// TestFilterKnowsEveryCall checks that the binary search decides like the list from which it was built.
func TestFilterKnowsEveryCall(t *testing.T) {
	info, err := arch.GetInfo("")
	if err != nil {
		t.Fatal(err)
	}
	always, decisions, err := mobysList(info)
	if err != nil {
		t.Fatal(err)
	}
	free := map[int]bool{}
	for _, n := range always {
		free[n] = true
	}
	depends := map[string]bool{"ioctl": true, "clone": true, "socket": true, "setsockopt": true, "prctl": true,
		"mmap": true, "memfd_create": true, "shmget": true, "fcntl": true, "madvise": true, "socketpair": true, "sync": true, "syncfs": true}
	for _, name := range (Kind{}).absentCalls() {
		depends[name] = true
	}
	for _, d := range decisions {
		depends[d.name] = true
	}
	for name, number := range info.SyscallNames {
		if depends[name] {
			continue
		}
		want := eperm
		if free[number] {
			want = allowed
		}
		if got := runFilter(t, Kind{Namespaces: true, Affinity: true}, uint32(info.ID), uint32(number), [6]uint64{}); got != want {
			t.Errorf("%s: got %#x, want %#x", name, got, want)
		}
	}
}

var machines = map[Kind]*netbpf.VM{}

// runFilter runs the filter. The virtual machine reads numbers in network byte order.
func runFilter(t *testing.T, k Kind, architecture, number uint32, args [6]uint64) uint32 {
	t.Helper()
	if machines[k] == nil {
		code, err := assemble(k)
		if err != nil {
			t.Fatal(err)
		}
		var list []netbpf.Instruction
		for _, c := range code {
			list = append(list, c.Disassemble())
		}
		if machines[k], err = netbpf.NewVM(list); err != nil {
			t.Fatal(err)
		}
	}
	data := binary.BigEndian.AppendUint32(nil, number)
	data = binary.BigEndian.AppendUint32(data, architecture)
	data = append(data, make([]byte, 8)...) // instruction pointer
	for _, a := range args {
		data = binary.BigEndian.AppendUint32(data, uint32(a)) // low half first, as on this machine
		data = binary.BigEndian.AppendUint32(data, uint32(a>>32))
	}
	got, err := machines[k].Run(data)
	if err != nil {
		t.Fatal(err)
	}
	return uint32(got)
}
