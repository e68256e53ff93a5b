package backendtest

import (
	"errors"
	"fmt"
	"os"
	osexec "os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
)

// canaryProcess starts a host process that programs must not see or reach, in its own process group, with word as its
// first argument and in its environment.
func canaryProcess(t testing.TB, word string) *osexec.Cmd {
	t.Helper()
	cmd := osexec.Command("sleep", "86399")
	cmd.Args[0] = word
	cmd.Env = []string{"WORD=" + word}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	return cmd
}

// isRunning reports whether a canary is running, neither ended, stopped nor traced.
func isRunning(cmd *osexec.Cmd) bool {
	text, err := os.ReadFile("/proc/" + itoa(cmd.Process.Pid) + "/stat")
	if err != nil {
		return false
	}
	_, state, _ := strings.Cut(string(text), ") ")
	return strings.HasPrefix(state, "S") || strings.HasPrefix(state, "R")
}

// ourKeys are the keys of this suite's System V objects: the lower 24 bits are the PID.
const ourKeys = 0x5a000000

func removeSysV(kind string, id int) {
	switch kind {
	case "shm":
		unix.SysvShmCtl(id, unix.IPC_RMID, nil)
	case "sem":
		unix.Syscall6(unix.SYS_SEMCTL, uintptr(id), 0, unix.IPC_RMID, 0, 0, 0)
	case "msg":
		unix.Syscall(unix.SYS_MSGCTL, uintptr(id), unix.IPC_RMID, 0)
	}
}

// sharedObjects makes System V and POSIX objects on the host that every user may use, and returns their keys and names
// for attacks.
func sharedObjects(t testing.TB, word string) map[string]any {
	t.Helper()
	for _, line := range sysvObjects() { // of killed tests
		var kind string
		var key, id int
		fmt.Sscan(line, &kind, &key, &id)
		if key&^0xffffff == ourKeys && !pathExists("/proc/"+itoa(key&0xffffff)) {
			removeSysV(kind, id)
		}
	}
	sweepCanaries("/dev/mqueue")
	key := ourKeys | os.Getpid()&0xffffff
	shm, err := unix.SysvShmGet(key, 4096, unix.IPC_CREAT|0o666)
	if err != nil {
		t.Fatalf("shmget: %v", err)
	}
	t.Cleanup(func() { removeSysV("shm", shm) })
	numbers := map[string]int{"shm": shm}
	if mem, err := unix.SysvShmAttach(shm, 0, 0); err == nil {
		copy(mem, word)
		unix.SysvShmDetach(mem)
	}
	if sem, _, errno := unix.Syscall(unix.SYS_SEMGET, uintptr(key), 1, unix.IPC_CREAT|0o666); errno == 0 {
		numbers["sem"] = int(sem)
		t.Cleanup(func() { removeSysV("sem", int(sem)) })
	}
	if msg, _, errno := unix.Syscall(unix.SYS_MSGGET, uintptr(key), unix.IPC_CREAT|0o666, 0); errno == 0 {
		numbers["msg"] = int(msg)
		t.Cleanup(func() { removeSysV("msg", int(msg)) })
	}
	queue, err := unix.BytePtrFromString(word)
	if err != nil {
		t.Fatal(err)
	}
	name := unsafe.Pointer(queue)
	if fd, _, errno := unix.Syscall6(unix.SYS_MQ_OPEN, uintptr(name), unix.O_CREAT|unix.O_RDWR, 0o666, 0, 0, 0); errno == 0 {
		unix.Close(int(fd))
		t.Cleanup(func() { unix.Syscall(unix.SYS_MQ_UNLINK, uintptr(name), 0, 0) })
	}
	posix := "/dev/shm/" + word
	if err := os.WriteFile(posix, []byte(word), 0o666); err == nil {
		t.Cleanup(func() { os.Remove(posix) })
	}
	return map[string]any{"shm": key, "sem": key, "msg": key, "mq": word, "posix": posix, "numbers": numbers}
}

// sendRoot sends a descriptor of the host's root directory over a Unix socket.
func sendRoot(fd int) error {
	dir, err := unix.Open("/", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	return unix.Sendmsg(fd, []byte("x"), unix.UnixRights(dir), nil, 0)
}

// mounter returns a function that mounts a new file system on the host until the test ends.
func mounter(t testing.TB) func(kind, at string, readOnly bool) {
	t.Helper()
	if os.Geteuid() != 0 {
		hosttest.SkipMissing(t, "root", "only root mounts file systems of the host")
	}
	return func(kind, at string, readOnly bool) {
		t.Helper()
		if err := unix.Mount(kind, at, kind, 0, ""); err != nil {
			hosttest.SkipMissing(t, "mounts", "mount "+kind+": "+err.Error())
		}
		t.Cleanup(func() { unix.Unmount(at, unix.MNT_DETACH) })
		if readOnly {
			if err := unix.Mount("", at, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, ""); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// showMounts mounts a directory with all mounts below it in another process's mount namespace.
func showMounts(t testing.TB, dir string, pid int) {
	t.Helper()
	failed := make(chan error)
	var move func()
	move = func() {
		runtime.LockOSThread()              // which ends with the goroutine
		if unix.Gettid() == unix.Getpid() { // except for the main thread, whose mounts are those of /proc/self
			defer runtime.UnlockOSThread()
			moved := make(chan struct{})
			go func() { defer close(moved); move() }()
			<-moved
			return
		}
		failed <- func() error {
			tree, err := unix.OpenTree(unix.AT_FDCWD, dir, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
			if err != nil {
				return err
			}
			defer unix.Close(tree)
			theirs, err := unix.Open("/proc/"+itoa(pid)+"/ns/mnt", unix.O_RDONLY|unix.O_CLOEXEC, 0)
			if err != nil {
				return err
			}
			defer unix.Close(theirs)
			if err := errors.Join(unix.Unshare(unix.CLONE_FS), unix.Setns(theirs, unix.CLONE_NEWNS)); err != nil {
				return err
			}
			return unix.MoveMount(tree, "", unix.AT_FDCWD, dir, unix.MOVE_MOUNT_F_EMPTY_PATH)
		}()
	}
	go move()
	if err := <-failed; err != nil {
		t.Fatal(err)
	}
}
