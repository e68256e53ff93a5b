package notify

import (
	"bytes"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/godbus/dbus/v5"

	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
	"github.com/sandboxmcp/sandboxmcp/pipeline/approval"
)

// startBus starts a bus of the test's own, and returns its address.
func startBus(t *testing.T) string {
	t.Helper()
	daemon := hosttest.Program(t, "dbus-daemon")
	dir, err := os.MkdirTemp("", "bus") // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	socket := filepath.Join(dir, "a bus")
	conf := filepath.Join(dir, "bus.conf")
	os.WriteFile(conf, []byte(`<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN" "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig><type>session</type><listen>unix:path=`+strings.ReplaceAll(socket, " ", "%20")+`</listen>
<policy context="default"><allow send_destination="*"/><allow eavesdrop="false"/><allow own="*"/><allow user="*"/></policy></busconfig>`), 0o600)
	c := exec.Command(daemon, "--config-file="+conf, "--nofork")
	c.Stderr = os.Stderr
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Process.Kill()
		c.Wait()
	})
	hosttest.Until(t, "the bus listens", func() bool {
		conn, err := net.Dial("unix", socket)
		return err == nil && conn.Close() == nil
	})
	return "tcp:host=127.0.0.1,port=1;unix:path=" + strings.ReplaceAll(socket, " ", "%20") + ",guid=00"
}

// desktop is a small notification service.
type desktop struct {
	caps []string
	hang chan struct{} // Notify waits for it; nil does not
	has  chan struct{} // Notify waits

	mu            sync.Mutex
	notifications map[uint32][2]string
	closed        int
	last          uint32
	hints         []string
}

func startDesktop(t *testing.T, address string, d *desktop) *desktop {
	t.Helper()
	_, unix, _ := strings.Cut(address, ";")
	conn, err := dbus.Connect(unix)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	d.notifications = map[uint32][2]string{}
	if err := conn.Export(d, "/org/freedesktop/Notifications", service); err != nil {
		t.Fatal(err)
	}
	if r, err := conn.RequestName(service, dbus.NameFlagDoNotQueue); err != nil || r != dbus.RequestNameReplyPrimaryOwner {
		t.Fatal(r, err)
	}
	return d
}

func (d *desktop) GetCapabilities() ([]string, *dbus.Error) { return d.caps, nil }

func (d *desktop) Notify(app string, _ uint32, _, title, body string, actions []string, _ map[string]dbus.Variant, _ int32) (uint32, *dbus.Error) {
	if d.hang != nil {
		d.has <- struct{}{}
		<-d.hang
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.last++
	d.notifications[d.last] = [2]string{title, body}
	d.hints = append(d.hints, fmt.Sprint(app, actions))
	return d.last, nil
}

func (d *desktop) CloseNotification(id uint32) *dbus.Error {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.notifications, id)
	d.closed++
	return nil
}

func (d *desktop) wait(t *testing.T, notified int) (title, body string) {
	t.Helper()
	hosttest.Until(t, fmt.Sprint(notified, " are shown"), func() bool {
		d.mu.Lock()
		defer d.mu.Unlock()
		for _, s := range d.notifications {
			title, body = s[0], s[1]
		}
		return len(d.notifications) == notified
	})
	return title, body
}

var question = approval.Question{
	ID: "01K9ZB5W7Q3M8Y2D4F6H8J0K2M", Kind: approval.Package, What: "python: <b>requests</b> & \x1b[2J\u202e\nclient me", Namespace: "team", Session: "s",
	Client: "agent 1.0", Reason: "because <a href=\"http://evil.example\">I</a> need it", For: time.Hour,
}

func TestNotification(t *testing.T) {
	for _, markup := range []bool{true, false} {
		t.Run(fmt.Sprint("markup ", markup), func(t *testing.T) {
			address := startBus(t)
			d := &desktop{caps: []string{"body", "actions"}}
			if markup {
				d.caps = append(d.caps, "body-markup")
			}
			startDesktop(t, address, d)
			n := New(Config{Address: address})
			done := make(chan struct{})
			n.Watch(question, done)
			title, body := d.wait(t, 1)
			if title != "sandboxmcp: An agent asks to install packages" || strings.Contains(body, "<b>") == markup || strings.Contains(body, "&lt;b&gt;") != markup {
				t.Errorf("%q: %q", title, body)
			}
			if strings.ContainsAny(body, "\x1b\u202e") || strings.Contains(body, "\nclient me") {
				t.Errorf("it can change how it reads: %q", body)
			}
			for _, want := range []string{"namespace team", "session s", "client agent 1.0", "the agent says: because", "for 1h0m0s", "sandboxmcp approve 01K9ZB5W7Q3M8Y2D4F6H8J0K2M"} {
				if !strings.Contains(body, want) {
					t.Errorf("no %q in %q", want, body)
				}
			}
			if d.hints[0] != "sandboxmcp[]" {
				t.Errorf("it has buttons: %v", d.hints)
			}
			close(done)
			d.wait(t, 0)
			n.Watch(question, make(chan struct{}))
			d.wait(t, 1)
			n.Close()
			if d.wait(t, 0); d.closed != 2 {
				t.Errorf("%d were closed", d.closed)
			}
			n.Watch(question, make(chan struct{}))
			n.Close()
		})
	}
}

func TestFewNotificationsAtOnce(t *testing.T) {
	address := startBus(t)
	d := startDesktop(t, address, &desktop{})
	n := New(Config{Address: address})
	defer n.Close()
	for range 50 {
		n.Watch(question, make(chan struct{}))
	}
	d.wait(t, maxNotifications)
}

// TestNoDesktop: nothing to show on is silence, and what hangs holds nobody up.
func TestNoDesktop(t *testing.T) {
	dir := t.TempDir()
	mute := filepath.Join(dir, "mute")
	l, err := net.Listen("unix", mute) // takes connections, and never says a word
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	stuck := startBus(t)
	hanging := &desktop{hang: make(chan struct{}), has: make(chan struct{}, 3)}
	startDesktop(t, stuck, hanging)
	defer close(hanging.hang)
	under := map[string]func(){ // waits until it is in the middle of it
		"no words": func() {
			if conn, err := l.Accept(); err == nil {
				t.Cleanup(func() { conn.Close() })
			}
		},
		"hangs": func() { <-hanging.has },
	}
	for name, address := range map[string]string{
		"none": "", "no socket": "unix:path=" + filepath.Join(dir, "none"), "no words": "unix:path=" + mute, "nobody shows": startBus(t), "hangs": stuck,
		"elsewhere": "tcp:host=192.0.2.1,port=9", "a program": "unixexec:path=/bin/sh,argv1=-c", "autolaunch": "autolaunch:", "nonsense": "\x00;;unix:,path",
	} {
		t.Run(name, func(t *testing.T) {
			var logged bytes.Buffer
			n := New(Config{Address: address, Log: slog.New(slog.NewTextHandler(&logged, nil))})
			n.timeout = time.Hour
			for range 3 {
				n.Watch(question, make(chan struct{})) // which waits for no desktop
			}
			if wait := under[name]; wait != nil {
				wait()
			}
			n.Close() // and this not for its time to be up
			if strings.Count(logged.String(), "\n") > 1 {
				t.Errorf("it is said more than once: %s", logged.String())
			}
		})
	}
}

func TestAddress(t *testing.T) {
	dir := t.TempDir()
	env := func(bus, runtime string) func(string) string {
		return func(name string) string {
			return map[string]string{"DBUS_SESSION_BUS_ADDRESS": bus, "XDG_RUNTIME_DIR": runtime}[name]
		}
	}
	if got := Address(env("", dir)); got != "" {
		t.Errorf("without a bus: %s", got)
	}
	l, err := net.Listen("unix", filepath.Join(dir, "bus"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, tt := range [][3]string{{"unix:path=/x", dir, "unix:path=/x"}, {"", dir, "unix:path=" + dir + "/bus"}, {"", "", ""}, {"", "relative", ""}} {
		if got := Address(env(tt[0], tt[1])); got != tt[2] {
			t.Errorf("got %s, want %s", got, tt[2])
		}
	}
}

// TestAnotherUsersBus is not talked to.
func TestAnotherUsersBus(t *testing.T) {
	if os.Geteuid() != 0 {
		hosttest.Missing(t, "root", "to be somebody else")
	}
	script := `import socket,sys,os
os.setuid(65534)
s=socket.socket(socket.AF_UNIX); s.bind("\0"+sys.argv[1]); s.listen(); print("up",flush=True); sys.stdin.read()`
	name := fmt.Sprintf("sandboxmcp-test-%d", os.Getpid())
	c := exec.Command(hosttest.Program(t, "python3"), "-c", script, name)
	in, _ := c.StdinPipe()
	out, _ := c.StdoutPipe()
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { in.Close(); c.Wait() }()
	if _, err := out.Read(make([]byte, 3)); err != nil {
		t.Fatal(err)
	}
	if conn, err := dial(t.Context(), "unix:abstract="+name); err == nil || !strings.Contains(err.Error(), "another user") {
		t.Errorf("got %v, %v", conn, err)
	}
}
