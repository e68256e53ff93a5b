package process

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	netbpf "golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/cgroup"
	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
)

// TestMain gives the test binary other roles: a server that a test kills, or the only process of a host that
// forbids user namespaces.
func TestMain(m *testing.M) {
	switch os.Getenv("SANDBOXMCP_TEST_ROLE") {
	case "server":
		serve()
	case "start":
		start()
	case "propose":
		propose()
	default:
		os.Exit(m.Run())
	}
}

// serve starts four sandboxes with a program whose child has left its session, reports that, and waits to be
// killed.
func serve() {
	b := New(Config{StateDir: os.Getenv("SANDBOXMCP_TEST_STATE")})
	for range 4 {
		s, err := b.Start(context.Background(), backends.Spec{ID: "test", Language: "shell", Profile: os.Getenv("SANDBOXMCP_TEST_PROFILE")})
		if err != nil {
			panic(err)
		}
		ready := make(chan struct{})
		go s.Exec(context.Background(), backends.Command{Args: []string{"bash", "-c", "setsid sleep 987654 & echo ready; wait"}},
			backends.Streams{Stdout: writerFunc(func(p []byte) { close(ready) })})
		<-ready
	}
	fmt.Println("ready")
	select {}
}

type writerFunc func([]byte)

func (f writerFunc) Write(p []byte) (int, error) { f(p); return len(p), nil }

// refuse makes the kernel answer a system call with an error from now on, in this process and its children. prctl
// is refused for one option only.
func refuse(call, option uint32, errno unix.Errno) {
	list := []netbpf.Instruction{
		netbpf.LoadAbsolute{Off: 0, Size: 4}, // seccomp_data.nr
		netbpf.JumpIf{Cond: netbpf.JumpNotEqual, Val: call, SkipTrue: 3},
		netbpf.LoadAbsolute{Off: 16, Size: 4}, // the first argument
		netbpf.JumpIf{Cond: netbpf.JumpNotEqual, Val: option, SkipTrue: 1},
		netbpf.RetConstant{Val: uint32(unix.SECCOMP_RET_ERRNO) | uint32(errno)},
		netbpf.RetConstant{Val: uint32(unix.SECCOMP_RET_ALLOW)},
	}
	if call != unix.SYS_PRCTL {
		list[2], list[3] = list[4], list[4]
	}
	code, err := netbpf.Assemble(list)
	if err != nil {
		panic(err)
	}
	var filters []unix.SockFilter
	for _, c := range code {
		filters = append(filters, unix.SockFilter{Code: c.Op, Jt: c.Jt, Jf: c.Jf, K: c.K})
	}
	program := unix.SockFprog{Len: uint16(len(filters)), Filter: &filters[0]}
	runtime.LockOSThread()
	if os.Geteuid() != 0 {
		unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
	}
	if _, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC,
		uintptr(unsafe.Pointer(&program))); errno != 0 {
		panic(errno)
	}
	runtime.UnlockOSThread()
}

// start runs one program and prints its result.
func start() {
	if n, err := strconv.ParseUint(os.Getenv("SANDBOXMCP_TEST_FILES"), 10, 32); err == nil {
		syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: n, Max: n})
	}
	var call, option uint32
	var errno unix.Errno
	if n, _ := fmt.Sscan(os.Getenv("SANDBOXMCP_TEST_REFUSE"), &call, &option, &errno); n == 3 {
		refuse(call, option, errno)
	}
	b := New(Config{StateDir: os.Getenv("SANDBOXMCP_TEST_STATE")})
	s, err := b.Start(context.Background(), backends.Spec{ID: "test", Language: "shell", Profile: os.Getenv("SANDBOXMCP_TEST_PROFILE"),
		Require: strings.Fields(os.Getenv("SANDBOXMCP_TEST_LAYERS"))})
	if err != nil {
		fmt.Println("refused:", err)
		b.Close()
		return
	}
	r, err := s.Exec(context.Background(), backends.Command{Args: []string{"bash", "-c", "echo inside"}}, backends.Streams{Stdout: os.Stdout})
	fmt.Println(r.Ended, r.Contained.InForce(), err)
	s.Close()
	b.Close()
}

// TestServerKilled kills a server with SIGKILL while programs run in its sandboxes: they end at once, and the next
// server removes the leftover directories.
func TestServerKilled(t *testing.T) {
	for _, profile := range []string{"hardened", "landlock"} {
		t.Run(profile, func(t *testing.T) {
			needProfile(t, profile)
			cmd := hosttest.Role(t, "server")
			cmd.Env = append(cmd.Env, "SANDBOXMCP_TEST_PROFILE="+profile)
			hosttest.StartServer(t, cmd)
			descendants := hosttest.Descendants(cmd.Process.Pid)
			if len(descendants) < 9 { // a launcher, and PID 1, bash and sleep in each sandbox
				t.Fatalf("the server has only %d processes below it", len(descendants))
			}
			name := cgroup.Identity(cmd.Process.Pid)
			hosttest.KillServer(t, cmd, descendants)
			b := newBackend(t, Config{})
			s, err := b.Start(t.Context(), backends.Spec{ID: "next", Language: "shell"})
			if err != nil {
				t.Fatal(err)
			}
			s.Close()
			b.Close() // waits for the removal of leftovers
			for _, dir := range b.cgroups.ParentDirs() {
				if left, _ := filepath.Glob(filepath.Join(dir, name+"*")); len(left) > 0 {
					t.Errorf("the killed server's %s is still there", left)
				}
			}
		})
	}
}

// TestDescendants finds a process whose first thread has ended, which the kernel reports as a zombie, and its
// descendants.
func TestDescendants(t *testing.T) {
	python := hosttest.Program(t, "python3")
	cmd := exec.Command(python, "-c", `import ctypes, os, threading, time
threading.Thread(target=lambda: [os.posix_spawn("/bin/sleep", ["sleep", "1000"], {}), time.sleep(1000)]).start()
ctypes.CDLL(None).syscall(60 if os.uname().machine == "x86_64" else 93, 0)`)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	id := func(pid int) string { return fmt.Sprint(pid) }
	s := &Sandbox{profile: profile{landlockOnly: true}}
	hosttest.Until(t, "its first thread has ended", func() bool {
		state, _ := os.ReadFile("/proc/" + id(cmd.Process.Pid) + "/stat")
		return strings.Contains(string(state), ") Z ")
	})
	hosttest.Until(t, "it and its child are found", func() bool {
		return slices.Contains(s.descendants(os.Getpid()), id(cmd.Process.Pid)) && len(s.descendants(cmd.Process.Pid)) == 1
	})
	s.killTree(cmd.Process.Pid)
}

// TestUserNamespacesForbidden simulates a host that forbids user namespaces, inside a user namespace whose own
// limit is zero. A hardened sandbox is refused with the remedy; the weaker profile, chosen by name, runs and claims
// no more than it has.
func TestUserNamespacesForbidden(t *testing.T) {
	forbid := []string{"unshare", "--kill-child", "--user", "--map-root-user", "--mount", "--pid", "--fork", "--mount-proc",
		"sh", "-c", `echo 0 >/proc/sys/user/max_user_namespaces && exec "$@"`, "sh"}
	if out, err := exec.Command(forbid[0], append(forbid[1:], "true")...).CombinedOutput(); err != nil {
		t.Skipf("can't make such a host: %v %s", err, out)
	}
	t.Run("hardened", func(t *testing.T) {
		out, err := hosttest.Role(t, "start", forbid...).CombinedOutput()
		if err != nil || !strings.HasPrefix(string(out), "refused: ") || !strings.Contains(string(out), "max_user_namespaces") {
			t.Errorf("got %s%v, want a refusal that names max_user_namespaces", out, err)
		}
	})
	t.Run("landlock", func(t *testing.T) {
		needProfile(t, "landlock")
		cmd := hosttest.Role(t, "start", forbid...)
		cmd.Env = append(cmd.Env, "SANDBOXMCP_TEST_PROFILE=landlock")
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.HasPrefix(string(out), "inside\nok [landlock seccomp caps nnp ") {
			t.Errorf("got %q %v, want just four layers of containment", out, err)
		}
	})
	t.Run("landlock does not satisfy", func(t *testing.T) {
		cmd := hosttest.Role(t, "start", forbid...)
		cmd.Env = append(cmd.Env, "SANDBOXMCP_TEST_PROFILE=landlock", "SANDBOXMCP_TEST_LAYERS=net")
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.HasPrefix(string(out), "refused: layer net is required") {
			t.Errorf("got %s%v, want a refusal", out, err)
		}
	})
}

// TestFilteredHost starts the backend under seccomp filters like those of containers and services: the refusal
// names the call and a command to type; if that selects the weaker profile, it runs.
func TestFilteredHost(t *testing.T) {
	for _, c := range []struct {
		name         string
		call, option uint32
		errno        unix.Errno
		says         string
		weaker       bool
	}{
		{"clone3", unix.SYS_CLONE3, 0, unix.ENOSYS, "layer user is required", true},
		{"clone3", unix.SYS_CLONE3, 0, unix.EINVAL, "CONFIG_TIME_NS", true},
		{"pivot_root", unix.SYS_PIVOT_ROOT, 0, unix.EPERM, "layer mount is required", true},
		{"capset", unix.SYS_CAPSET, 0, unix.EPERM, "layer caps is required", false},
		{"prctl(PR_SET_SECUREBITS)", unix.SYS_PRCTL, unix.PR_SET_SECUREBITS, unix.EPERM, "layer caps is required", false},
		{"prctl(PR_SET_PDEATHSIG)", unix.SYS_PRCTL, unix.PR_SET_PDEATHSIG, unix.EPERM, "", false},
		{"prctl(PR_CAPBSET_DROP)", unix.SYS_PRCTL, unix.PR_CAPBSET_DROP, unix.EPERM, "layer caps is required", false},
		{"landlock_restrict_self", unix.SYS_LANDLOCK_RESTRICT_SELF, 0, unix.EPERM, "layer landlock is required", false},
		{"seccomp", unix.SYS_SECCOMP, 0, unix.EPERM, "layer seccomp is required", false},
	} {
		t.Run(fmt.Sprint(c.name, " ", c.errno), func(t *testing.T) {
			t.Parallel()
			info, _ := debug.ReadBuildInfo()
			if c.errno == unix.EINVAL && info != nil && slices.Contains(info.Settings, debug.BuildSetting{Key: "CGO_ENABLED", Value: "1"}) {
				t.Skip("built with cgo, whose C library makes no thread without that call")
			}
			run := func(profile string) string {
				cmd := hosttest.Role(t, "start")
				cmd.Env = append(cmd.Env, "SANDBOXMCP_TEST_PROFILE="+profile, fmt.Sprint("SANDBOXMCP_TEST_REFUSE=", c.call, " ", c.option, " ",
					uint32(c.errno)),
					"SANDBOXMCP_TEST_LAYERS="+strings.Join(promises(profile), " "))
				out, err := cmd.CombinedOutput()
				if err != nil {
					t.Errorf("%v", err)
				}
				return string(out)
			}
			out := run("hardened")
			remedy := "--security-opt seccomp=unconfined"
			if c.errno == unix.EINVAL {
				remedy = "use a kernel"
			}
			for _, want := range []string{c.name, c.says, remedy} {
				if strings.HasPrefix(out, "inside") || !strings.Contains(out, want) {
					t.Errorf("got %s, want a refusal with %q", out, want)
				}
			}
			if got := strings.Contains(out, "--profile landlock"); got != c.weaker {
				t.Errorf("the weaker profile is offered: %v, want %v: %s", got, c.weaker, out)
			}
			if c.weaker && c.errno != unix.EINVAL { // a filter's errno; the kernel's own EINVAL would be about the flags
				needProfile(t, "landlock")
				if out := run("landlock"); !strings.HasPrefix(out, "inside\nok ") {
					t.Errorf("the weaker profile: %s", out)
				}
			}
		})
	}
}

// TestFewFiles starts the backend with a low limit of open files: the error names that, whichever step fails.
func TestFewFiles(t *testing.T) {
	for files := 10; files < 60; files += 2 {
		t.Run(fmt.Sprint(files), func(t *testing.T) {
			t.Parallel()
			cmd := hosttest.Role(t, "start")
			cmd.Env = append(cmd.Env, fmt.Sprint("SANDBOXMCP_TEST_FILES=", files))
			out, err := cmd.CombinedOutput()
			if err != nil || !strings.HasPrefix(string(out), "inside\nok ") && !strings.Contains(string(out), unix.EMFILE.Error()) {
				t.Errorf("got %s%v", out, err)
			}
		})
	}
}

// TestOrdinaryUser runs as an ordinary user if we are root: all containment layers, without any privilege.
func TestOrdinaryUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("we are one already, and every test says it")
	}
	dir := t.TempDir()
	for _, d := range []string{dir, dir + "/.."} {
		if err := os.Chmod(d, 0o711); err != nil {
			t.Fatal(err)
		}
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	exe := dir + "/process.test"
	if out, err := exec.Command("cp", self, exe).CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	cmd := exec.Command(exe)
	cmd.Dir = "/"
	cmd.Env = []string{"PATH=/usr/bin:/bin", "SANDBOXMCP_TEST_ROLE=start", "SANDBOXMCP_TEST_LAYERS=" + strings.Join(backends.ContainmentLayers,
		" ")}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 12345, Gid: 12345}}
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.HasPrefix(string(out), "inside\nok [user mount pid net ") {
		t.Errorf("got %s%v", out, err)
	}
}

// TestOldLandlock simulates each older ABI: the sandbox must start, and report the ABI.
func TestOldLandlock(t *testing.T) {
	kernel := newBackend(t, Config{}).landlockABI
	for abi := range kernel {
		t.Run(fmt.Sprint(abi), func(t *testing.T) {
			b := newBackend(t, Config{})
			b.landlockABI = abi
			if landlock, err := b.Start(t.Context(), backends.Spec{ID: "landlock", Language: "shell", Profile: "landlock"}); err == nil {
				landlock.Close()
				if abi < truncateABI {
					t.Error("the profile landlock started, where it can't keep files from being emptied")
				}
			} else if abi >= truncateABI {
				t.Errorf("the profile landlock: %v", err)
			}
			s, err := b.Start(t.Context(), backends.Spec{ID: "old", Language: "shell", Require: backends.ContainmentLayers})
			if abi == 0 {
				if refusal, ok := err.(*backends.Refusal); !ok || refusal.Layer != backends.LayerLandlock {
					t.Errorf("without Landlock: got %v, want a refusal", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			r, err := s.Exec(t.Context(), backends.Command{Args: []string{"bash", "-c", "echo x >file && ! echo x >/proc/self/comm"}},
				backends.Streams{})
			if err != nil || r.Ended != backends.EndedOK {
				t.Errorf("got %+v %v", r, err)
			}
			if got, want := r.Contained.Layers[8], (backends.Layer{Name: "landlock", InForce: true, Detail: fmt.Sprintf("ABI %d", abi)}); got != want {
				t.Errorf("got %+v, want %+v", got, want)
			}
		})
	}
}
