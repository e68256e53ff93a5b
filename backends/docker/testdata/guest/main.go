// Guest is the program that tests run in containers: it performs one action and needs no other file.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"syscall"
	"time"
)

func main() {
	args := os.Args[1:]
	if len(args) == 0 {
		os.Exit(99)
	}
	switch args[0] {
	case "exit":
		code, _ := strconv.Atoi(args[1])
		os.Exit(code)
	case "sleep": // until a stopping daemon signals it
		asked := make(chan os.Signal, 1)
		signal.Notify(asked, syscall.SIGTERM)
		<-asked
		os.Exit(143)
	case "segv":
		// A signal without a handler does not kill PID 1, unless the kernel forces it.
		fault()
	case "eat":
		eat()
	case "parent":
		err := exec.Command("/guest", "eat").Run()
		fmt.Println("child:", err)
		os.Exit(3)
	case "echo":
		fmt.Fprintln(os.Stderr, "ready")
		if _, err := io.Copy(os.Stdout, os.Stdin); err != nil {
			os.Exit(1)
		}
		fmt.Fprintln(os.Stderr, "end of input")
	case "count":
		count(args[1])
	case "state":
		state(args[1:])
	}
}

// eat allocates memory until it is killed.
func eat() {
	var all [][]byte
	for {
		b := make([]byte, 1<<20)
		for i := range b {
			b[i] = 1
		}
		all = append(all, b)
	}
}

// count appends a line to a file of the host, which counts the program's starts.
func count(file string) {
	f, err := os.OpenFile(file, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Fprintln(f, "began")
	f.Close()
	time.Sleep(time.Hour) // until it is removed
}

// state prints the surroundings of a program, as JSON on standard output. Each argument is a path to try to write to.
func state(paths []string) {
	s := map[string]any{}
	s["env"], s["args"] = os.Environ(), os.Args
	s["uid"], s["gid"] = os.Getuid(), os.Getgid()
	s["groups"], _ = os.Getgroups()
	s["dir"], _ = os.Getwd()
	s["host"], _ = os.Hostname()
	s["pid"] = os.Getpid()
	for _, f := range []string{"/proc/self/status", "/proc/self/mountinfo", "/proc/self/limits", "/etc/resolv.conf", "/proc/self/cgroup",
		"/proc/1/cmdline", "/mounted/file"} {
		b, _ := os.ReadFile(f)
		s[f] = string(b)
	}
	for _, n := range []string{"net", "ipc", "pid", "uts", "mnt", "cgroup", "user"} {
		s["ns:"+n], _ = os.Readlink("/proc/self/ns/" + n)
	}
	if all, err := net.Interfaces(); err == nil {
		var names []string
		for _, i := range all {
			names = append(names, i.Name)
		}
		s["interfaces"] = names
	}
	s["port"] = "refused"
	if l, err := net.Listen("tcp", "127.0.0.1:53"); err == nil {
		s["port"] = "open"
		l.Close()
	}
	wrote := map[string]string{}
	for _, p := range paths {
		err := os.WriteFile(p, []byte("x"), 0o644)
		if err == nil {
			wrote[p] = "ok"
		} else {
			wrote[p] = err.(*os.PathError).Err.Error()
		}
	}
	s["write"] = wrote
	var fs syscall.Statfs_t
	sizes := map[string][2]uint64{}
	for _, p := range []string{"/work", "/dev/shm", "/data"} {
		if syscall.Statfs(p, &fs) == nil {
			sizes[p] = [2]uint64{fs.Blocks * uint64(fs.Bsize), fs.Files}
		}
	}
	s["sizes"] = sizes
	w := bufio.NewWriter(os.Stdout)
	_ = json.NewEncoder(w).Encode(s)
	w.Flush()
}
