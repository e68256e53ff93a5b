package docker

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends/container/enginetest"
)

// daemon is a dockerd of one test, which may end it.
type daemon struct {
	dir  string
	cmd  *exec.Cmd
	done chan struct{}
}

// own starts one, with images.
func own(t *testing.T) (*daemon, *docker) {
	t.Helper()
	enginetest.Docker(t)                   // skips
	dir, err := os.MkdirTemp("/tmp", "dk") // not t.TempDir: paths of sockets must be short
	if err != nil {
		t.Fatal(err)
	}
	d := &daemon{dir: dir}
	t.Cleanup(func() {
		d.end(syscall.SIGTERM)
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	if err := d.start(); err != nil {
		t.Fatal(err)
	}
	e := connected(t, d.url())
	if err := images(e); err != nil {
		t.Fatal(err)
	}
	return d, e
}

func (d *daemon) url() string { return "unix://" + d.dir + "/docker.sock" }

// start runs dockerd, and waits until it answers.
func (d *daemon) start() error {
	log, err := os.Create(filepath.Join(d.dir, "log"))
	if err != nil {
		return err
	}
	defer log.Close()
	d.cmd = exec.Command("dockerd", "--data-root", d.dir+"/data", "--exec-root", d.dir+"/exec", "-H", d.url(),
		"--pidfile", d.dir+"/pid", "--iptables=false", "--ip6tables=false", "--bridge=none")
	d.cmd.Stdout, d.cmd.Stderr = log, log
	d.cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS} // so that no mount outlives it here
	if err := d.cmd.Start(); err != nil {
		return err
	}
	d.done = make(chan struct{})
	go func() {
		_ = d.cmd.Wait()
		close(d.done)
	}()
	e := New(Config{Host: d.url()})
	defer e.Close()
	for range 300 {
		if _, err = e.Images(context.Background(), "none"); err == nil {
			return nil
		}
		select {
		case <-d.done:
			b, _ := os.ReadFile(d.dir + "/log")
			return fmt.Errorf("dockerd ended: %s", b[max(0, len(b)-2000):])
		case <-time.After(100 * time.Millisecond):
		}
	}
	return err
}

func (d *daemon) end(s os.Signal) {
	if d.done != nil {
		_ = d.cmd.Process.Signal(s)
		<-d.done
	}
}

// What a daemon does to containers when it is asked to end, it tells.
func TestDaemonStops(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes seconds to start and stop dockerd")
	}
	d, e := own(t)
	id := create(t, e, plan(t, e, "guest:1", "sleep"))
	done := ending(t, e, id)
	if err := e.Start(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	d.end(syscall.SIGTERM)
	if x := <-done; !strings.Contains(x.Why, "a daemon that stops") {
		t.Errorf("got %+v", x)
	}
	if _, err := e.List(t.Context(), "x"); !refused(err, "not running", "docker") {
		t.Errorf("with no daemon: got %v", err)
	}
	if err := d.start(); err != nil {
		t.Fatal(err)
	}
	list, err := e.List(t.Context(), "of")
	if err != nil || len(list) != 0 {
		t.Errorf("when it is back: got %+v, %v", list, err)
	}
}

// A daemon that was killed can't tell, and its containers live until it is back, which ends them.
func TestDaemonKilled(t *testing.T) {
	e := real(t)
	id := create(t, e, plan(t, e, "guest:1", "sleep"))
	done := ending(t, e, id)
	if err := e.Start(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	time.Sleep(200 * time.Millisecond) // it listens
	enginetest.Restart(t, enginetest.Docker(t))
	if x := <-done; !strings.Contains(x.Why, "restarted") {
		t.Errorf("got %+v", x)
	}
	list, err := e.List(t.Context(), "of="+t.Name())
	if err != nil || len(list) != 0 {
		t.Errorf("afterwards: got %+v, %v", list, err)
	}
}
