// Command guest is the program in the tests' containers.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func main() {
	if os.Args[1] == "wait" { // until a byte arrives
		os.Stdin.Read(make([]byte, 1))
		os.Args = os.Args[1:]
	}
	switch os.Args[1] {
	case "exit":
		code, _ := strconv.Atoi(os.Args[2])
		os.Exit(code)
	case "sleep":
		time.Sleep(time.Hour)
	case "cat":
		io.Copy(os.Stdout, os.Stdin)
		fmt.Fprint(os.Stderr, "input ended")
	case "eat": // memory
		var all [][]byte
		for {
			b := make([]byte, 1<<20)
			for i := range b {
				b[i] = 1
			}
			all = append(all, b)
		}
	case "feed": // a child that eats memory
		err := exec.Command("/proc/self/exe", "eat").Run()
		fmt.Fprintln(os.Stderr, err)
		os.Exit(7)
	case "facts":
		json.NewEncoder(os.Stdout).Encode(facts())
	}
}

func facts() map[string]string {
	f := map[string]string{
		"uid": strconv.Itoa(os.Getuid()), "gid": strconv.Itoa(os.Getgid()),
		"env": strings.Join(os.Environ(), "\n"), "pid": strconv.Itoa(os.Getpid()),
	}
	f["dir"], _ = os.Getwd()
	f["host"], _ = os.Hostname()
	groups, _ := os.Getgroups()
	f["groups"] = fmt.Sprint(groups)
	for _, name := range []string{
		"/etc/resolv.conf", "/etc/hosts", "/proc/self/mountinfo", "/proc/self/status", "/proc/net/dev",
		"/proc/sys/net/ipv4/ip_unprivileged_port_start", "/proc/self/limits", "/proc/self/cgroup", "/seed/bin/one",
		"/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.memsw.limit_in_bytes",
		"/sys/fs/cgroup/pids/pids.max", "/sys/fs/cgroup/cpu/cpu.cfs_quota_us",
		"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/pids.max", "/sys/fs/cgroup/cpu.max",
	} {
		data, err := os.ReadFile(name)
		f[name] = string(data)
		if err != nil {
			f[name] = "error: " + err.Error()
		}
	}
	for _, dir := range []string{"/", "/workspace", "/run/secrets", "/data", "/volume", "/tmp", "/run", "/seed", "/mounted"} {
		err := os.WriteFile(dir+"/file", []byte("x"), 0o600)
		f["write "+dir] = "yes"
		if err != nil {
			f["write "+dir] = err.(*os.PathError).Err.Error()
		}
	}
	_, _, errno := syscall.Syscall(syscall.SYS_SYNC, 0, 0, 0)
	f["sync"] = errno.Error()
	return f
}
