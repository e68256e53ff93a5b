package enginetest

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandboxmcp/sandboxmcp/backends/paths"
)

// supervisor is the process between a test and its engine.
type supervisor struct {
	kind, dir string
	log       *os.File
	engine    *os.Process

	commands chan string // from the test; closed when the test has ended

	mu    sync.Mutex
	ended map[int]chan struct{} // by pid of the awaited processes
}

// supervise starts an engine, runs it as long as standard input is open, and then removes all its traces.
func supervise(kind, dir string) int {
	runtime.LockOSThread() // the engine dies with the thread that started it
	signal.Ignore(unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGPIPE)
	unix.CloseOnExec(heldFD)
	k := &supervisor{kind: kind, dir: dir, commands: make(chan string), ended: map[int]chan struct{}{}}
	go k.listen()
	err := k.prepare()
	if err == nil {
		go k.reap()
		err = k.start()
	}
	k.report(err)
	for command := range k.commands {
		if command == "stop" {
			k.stop(unix.SIGTERM)
			k.report(nil)
		} else {
			k.stop(unix.SIGKILL)
			k.report(k.start())
		}
	}
	k.removeContainers()
	k.stop(unix.SIGTERM)
	k.killDescendants()
	k.removeFiles()
	return 0
}

func (k *supervisor) listen() {
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		k.commands <- lines.Text()
	}
	close(k.commands)
}

// report tells the test the outcome, in one line.
func (k *supervisor) report(err error) {
	if err == nil {
		fmt.Println("ready")
		return
	}
	log, _ := os.ReadFile(k.dir + "/log")
	fmt.Println(strings.ReplaceAll(err.Error()+"\n"+string(log[max(0, len(log)-2000):]), "\n", "\t"))
}

// prepare sets up the environment of an engine. It hides directories of the whole host that root's engines use by
// mounts: /dev/shm has the locks of all podmans, which a new one clears, and /run/netns their networks; sshd needs
// a directory below /run.
func (k *supervisor) prepare() (err error) {
	for _, name := range []string{"home", "xdg", "net"} {
		if err := os.MkdirAll(filepath.Join(k.dir, name), 0o700); err != nil {
			return err
		}
	}
	if k.log, err = os.Create(k.dir + "/log"); err != nil {
		return err
	}
	if err := os.WriteFile(k.dir+"/daemon.json", []byte("{}"), 0o600); err != nil {
		return err
	}
	// The engine's orphans, such as conmon and containerd's shims, become our children.
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("become subreaper: %w", err)
	}
	if os.Geteuid() != 0 {
		return nil
	}
	if err := unix.Mount("", "/", "", unix.MS_SLAVE|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("mount(2) /: %w", err)
	}
	hidden := map[string][]string{"podman": {"/dev/shm", "/run/netns"}, "ssh docker": {"/run"}, "ssh podman": {"/run"}}[k.kind]
	for _, path := range hidden {
		if err := os.MkdirAll(path, 0o755); err != nil {
			return err
		}
		if err := unix.Mount("tmpfs", path, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0755"); err != nil {
			return fmt.Errorf("mount(2) %s: %w", path, err)
		}
	}
	if strings.HasPrefix(k.kind, "ssh") {
		return os.Mkdir("/run/sshd", 0o755)
	}
	return nil
}

// start starts the engine and waits until it answers.
func (k *supervisor) start() error {
	args := engineCommand(k.kind, k.dir)
	path, err := exec.LookPath(args[0])
	if err != nil {
		return err
	}
	args[0] = path // sshd requires an absolute path
	ended, err := k.run(args...)
	if err != nil {
		return err
	}
	for !k.isAnswering() {
		select {
		case <-ended:
			return errors.New("it ended at once")
		case <-k.commands:
			return errors.New("nobody waits for it any more")
		case <-time.After(20 * time.Millisecond):
		}
	}
	return nil
}

func (k *supervisor) isAnswering() bool {
	if strings.HasPrefix(k.kind, "ssh") {
		log, _ := os.ReadFile(k.dir + "/log")
		return bytes.Contains(log, []byte("Server listening"))
	}
	_, err := callAPI(k.dir+"/"+k.kind+".sock", "GET", "/_ping", nil)
	return err == nil
}

// run starts a program and returns a channel that is closed when it has ended. The engine is killed if this process
// is.
func (k *supervisor) run(args ...string) (<-chan struct{}, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	c := exec.Command(args[0], args[1:]...)
	c.Stdout, c.Stderr, c.Dir = k.log, k.log, "/"
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	if err := c.Start(); err != nil {
		return nil, err
	}
	k.engine = c.Process
	ended := make(chan struct{})
	k.ended[c.Process.Pid] = ended
	return ended, nil
}

// reap waits for all children, including adopted ones.
func (k *supervisor) reap() {
	for {
		pid, err := unix.Wait4(-1, nil, 0, nil)
		if err == unix.ECHILD {
			time.Sleep(10 * time.Millisecond)
		}
		k.mu.Lock()
		if ended := k.ended[pid]; ended != nil {
			close(ended)
			delete(k.ended, pid)
		}
		k.mu.Unlock()
	}
}

// stop ends the engine with a signal, and with SIGKILL if it does not end in time.
func (k *supervisor) stop(s os.Signal) {
	if k.engine == nil {
		return
	}
	k.mu.Lock()
	ended := k.ended[k.engine.Pid]
	k.mu.Unlock()
	if ended == nil {
		return
	}
	k.engine.Signal(s)
	select {
	case <-ended:
	case <-time.After(10 * time.Second):
		k.engine.Kill()
		<-ended
	}
}

// killDescendants kills processes that the engine left: orphans become children of the subreaper.
func (k *supervisor) killDescendants() {
	for begun := time.Now(); time.Since(begun) < 10*time.Second; time.Sleep(5 * time.Millisecond) {
		pids := children()
		if len(pids) == 0 {
			return
		}
		for _, pid := range pids {
			unix.Kill(pid, unix.SIGKILL)
		}
	}
}

// children lists our child processes.
func children() []int {
	var found []int
	files, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range files {
		text, _ := os.ReadFile(file)
		_, fields, _ := strings.Cut(string(text), ") ")
		var state string
		var parent, pid int
		fmt.Sscan(fields, &state, &parent)
		if fmt.Sscan(string(text), &pid); parent == os.Getpid() {
			found = append(found, pid)
		}
	}
	return found
}

// removeFiles removes mounts, cgroups and the directory. A rootless engine's files belong to users that exist only
// in the engine's own namespace.
func (k *supervisor) removeFiles() {
	if os.Geteuid() != 0 && k.kind == "podman" {
		if ended, err := k.run(append(podman(k.dir), "unshare", "rm", "-rf", k.dir+"/root", k.dir+"/run")...); err == nil {
			<-ended
		}
		k.killDescendants() // the process that holds that namespace
	}
	removeDir(k.dir)
}

// removeCgroup removes a cgroup and its descendants, and kills their processes. The files in them can't be removed.
func removeCgroup(dir string) {
	pids, _ := os.ReadFile(dir + "/cgroup.procs")
	for _, pid := range strings.Fields(string(pids)) {
		if n, _ := strconv.Atoi(pid); n > 1 {
			unix.Kill(n, unix.SIGKILL)
		}
	}
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if e.IsDir() {
			removeCgroup(filepath.Join(dir, e.Name()))
		}
	}
	os.Remove(dir)
}

// mountsUnder lists the mount points at or below a directory.
func mountsUnder(mountinfo, dir string) []string {
	text, _ := os.ReadFile(mountinfo)
	var found []string
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) > 4 && paths.Within(fields[4], dir) {
			found = append(found, fields[4])
		}
	}
	return found
}
