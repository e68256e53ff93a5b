package files

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// On a kernel without openat2, and behind a filter that says there is none, all is refused.
func TestWithoutOpenat2(t *testing.T) {
	p := newPlace(t)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "FILES_TEST_OLD="+p.root)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if got, _ := os.ReadFile(p.root + "/a.txt"); string(got) != "inside\n" {
		t.Errorf("it was written: %q", got)
	}
}

// onOldKernel performs operations without openat2, which must make them fail.
func onOldKernel(dir string) (code int) {
	runtime.LockOSThread()
	if err := forbidOpenat2(); err != nil {
		fmt.Println("a filter can't be loaded:", err)
		return 1
	}
	a := Access{Roots: []Root{{Path: dir, Write: true}}, MaxBytes: 100}
	_, read := a.Read(unlimited{}, dir+"/a.txt")
	_, write := a.Write(unlimited{}, dir+"/a.txt", []byte("x"), Overwrite)
	_, _, list := a.List(unlimited{}, dir, false, 10)
	for what, err := range map[string]error{"read": read, "write": write, "list": list, "check": a.Check(dir+"/a.txt", false)} {
		if !errors.Is(err, errors.ErrUnsupported) {
			fmt.Println(what, err)
			code = 1
		}
	}
	return code
}

func forbidOpenat2() error {
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0}, // the call's number
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 1, K: unix.SYS_OPENAT2},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	return unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&program)), 0, 0)
}
