package wiring

import (
	"fmt"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// kernelState returns the kernel's permissions for this process, and the identity of its program: everything that its
// sandboxes inherit.
func kernelState() ([]byte, error) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return nil, err
	}
	root, err := os.Stat("/")
	if err != nil {
		return nil, err
	}
	all := fmt.Appendf(nil, "%s\n%s\n", fileVersion("/proc/self/exe"), fileID(root))
	for line := range strings.Lines(string(status)) {
		switch key, _, _ := strings.Cut(line, ":"); key {
		case "Umask", "Uid", "Gid", "Groups", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp", "Seccomp_filters",
			"Cpus_allowed", "Mems_allowed":
			all = append(all, line...)
		}
	}
	namespaces, err := os.ReadDir("/proc/self/ns")
	if err != nil {
		return nil, err
	}
	for _, n := range namespaces {
		which, err := os.Readlink("/proc/self/ns/" + n.Name())
		if err != nil {
			return nil, err
		}
		all = fmt.Appendln(all, which)
	}
	limits, err := os.ReadFile("/proc/self/limits")
	if err != nil {
		return nil, err
	}
	label, _ := os.ReadFile("/proc/self/attr/current") // with a security module that has labels
	nice, err := unix.Getpriority(unix.PRIO_PROCESS, 0)
	return fmt.Appendf(all, "%s\n%q\n%d\n", limits, label, nice), err
}

// fileID identifies a file.
func fileID(info os.FileInfo) string {
	s := info.Sys().(*syscall.Stat_t)
	return fmt.Sprintf("%d:%d", s.Dev, s.Ino)
}

// fileVersion identifies the file at a path and its content; "" if there is none.
func fileVersion(path string) string {
	var s unix.Stat_t
	if unix.Stat(path, &s) != nil {
		return ""
	}
	return fmt.Sprintf("%d:%d:%d:%d.%d", s.Dev, s.Ino, s.Size, s.Mtim.Sec, s.Mtim.Nsec)
}
