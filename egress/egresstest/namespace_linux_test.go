package egresstest

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// namespace is a network namespace, by its name for ip netns.
type namespace string

// newNamespace makes a namespace and removes it at the end of the test.
func newNamespace(t *testing.T, kind string) namespace {
	t.Helper()
	n := namespace(fmt.Sprintf("sandboxmcp-%s-%d", kind, os.Getpid()))
	command(t, "ip", "netns", "add", string(n))
	t.Cleanup(func() {
		if out, err := exec.Command("ip", "netns", "delete", string(n)).CombinedOutput(); err != nil {
			t.Errorf("delete %s: %v: %s", n, err, out)
		}
	})
	n.ip(t, "link set lo up")
	return n
}

func (n namespace) file() string { return "/run/netns/" + string(n) }

// ip runs ip(8) in the namespace. args are space-separated words.
func (n namespace) ip(t *testing.T, args string) {
	t.Helper()
	command(t, "ip", append([]string{"-netns", string(n)}, strings.Fields(args)...)...)
}

// runInside calls f on a thread in the namespace. Sockets that f makes stay inside, whichever thread uses them.
func (n namespace) runInside(f func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with this goroutine
		file, err := os.Open(n.file())
		if err == nil {
			err = unix.Setns(int(file.Fd()), unix.CLONE_NEWNET)
			file.Close()
		}
		if err == nil {
			err = f()
		}
		done <- err
	}()
	return <-done
}

func (n namespace) listen(t *testing.T, network, address string) (l net.Listener) {
	t.Helper()
	err := n.runInside(func() (err error) { l, err = net.Listen(network, address); return err })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

func (n namespace) listenPacket(t *testing.T, network, address string) (c net.PacketConn) {
	t.Helper()
	err := n.runInside(func() (err error) { c, err = net.ListenPacket(network, address); return err })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// command runs a program that must succeed, and returns its output.
func command(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v: %s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}
