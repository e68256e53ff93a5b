package egresstest

import (
	"bytes"
	"crypto/tls"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
)

// world is a machine that runs sandboxes, and an internet in which every address answers.
type world struct {
	*testing.T
	*journal
	dir      string // readable by everyone
	program  string
	host     namespace
	internet namespace
	cert     tls.Certificate
	env      []string // additional variables of commands on the host
}

// requirePrograms skips the test if programs are missing, or fails it if SANDBOXMCP_TEST_REQUIRE has sandboxes.
func requirePrograms(t *testing.T, programs ...string) {
	t.Helper()
	if os.Geteuid() != 0 {
		hosttest.SkipMissing(t, "root", "networks can't be made")
	}
	for _, name := range programs {
		if _, err := exec.LookPath(name); err != nil {
			hosttest.SkipMissing(t, "sandbox", err.Error())
		}
	}
}

func newWorld(t *testing.T, pages map[string]http.Handler) *world {
	t.Helper()
	requirePrograms(t, "ip", "nsenter", "unshare", "setpriv", "sysctl", "openssl", "python3", "go")
	dir, err := os.MkdirTemp("", "egresstest-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	os.Chmod(dir, 0o755)
	w := &world{T: t, journal: &journal{}, dir: dir}
	if w.program, err = program(); err != nil {
		t.Fatal(err)
	}
	w.cert = authority(t, w.path("certs"))
	w.write("resolv.conf", "nameserver "+nameServer+"\noptions timeout:1 attempts:2\n")
	w.write("hosts", "127.0.0.1 localhost\n10.9.0.9 hostsfile.example\n")
	w.cables()
	w.servers(pages)
	w.internet.tap(t, "cable", func(to string) { w.record("packet", to, "") })
	w.host.tap(t, "lo", func(to string) { w.record("packet", to, "on the host's loopback") })
	w.host.listenPacket(t, "udp", loopbackMark)
	w.takeEvents()
	return w
}

// The taps see a packet to one of these addresses after all packets that were sent before.
const cableMark, loopbackMark = "203.0.113.254:9", "127.0.0.1:9"

// settled returns the events since the last call, once the taps have seen all packets up to now.
func (w *world) settled() (events []event) {
	w.Helper()
	marks := []string{cableMark, loopbackMark}
	err := w.host.runInside(func() error {
		for _, to := range marks {
			c, err := net.Dial("udp", to)
			if err != nil {
				return err
			}
			c.Write([]byte{0})
			c.Close()
		}
		return nil
	})
	if err != nil {
		w.Fatal(err)
	}
	hosttest.Until(w, "the taps have seen all packets", func() bool {
		events = append(events, w.takeEvents()...)
		for _, to := range marks {
			if !slices.ContainsFunc(events, func(e event) bool { return e.host == "udp "+to }) {
				return false
			}
		}
		return true
	})
	return slices.DeleteFunc(events, func(e event) bool { return slices.Contains(marks, strings.TrimPrefix(e.host, "udp ")) })
}

func (w *world) path(name string) string { return filepath.Join(w.dir, name) }

func (w *world) write(name, text string) string {
	w.Helper()
	if err := os.WriteFile(w.path(name), []byte(text), 0o644); err != nil {
		w.Fatal(err)
	}
	return w.path(name)
}

// cables routes all of the host's traffic to the test's internet, where all addresses are local.
func (w *world) cables() {
	w.host, w.internet = newNamespace(w.T, "host"), newNamespace(w.T, "net")
	w.internet.ip(w.T, "link add cable type veth peer name cable netns "+string(w.host))
	for n, addrs := range map[namespace][]string{
		w.internet: {gateway + "/30", gateway6 + "/64 nodad"},
		w.host:     {host + "/30", host6 + "/64 nodad", "10.9.0.1/32", "fd00:9::1/128 nodad"},
	} {
		for _, a := range addrs {
			n.ip(w.T, "addr add "+a+" dev cable")
		}
		n.ip(w.T, "link set cable up")
	}
	w.host.ip(w.T, "route add default via "+gateway)
	w.host.ip(w.T, "-6 route add default via "+gateway6)
	w.internet.ip(w.T, "addr add "+nameServer+"/32 dev lo")
	w.internet.ip(w.T, "route add local 0.0.0.0/0 dev lo table main")
	w.internet.ip(w.T, "-6 route add local ::/0 dev lo table main")
	for _, key := range []string{"all", "default", "cable"} {
		command(w.T, "nsenter", "--net="+w.internet.file(), "sysctl", "-q", "-w", "net.ipv4.conf."+key+".rp_filter=0")
	}
}

// servers starts servers on every address of the test's internet, and on all of the host's.
func (w *world) servers(pages map[string]http.Handler) {
	names := &resolver{journal: w.journal, queries: map[string]int{}}
	packets := w.internet.listenPacket(w.T, "udp", nameServer+":53")
	go names.packets(packets)
	go names.streams(w.internet.listen(w.T, "tcp", nameServer+":53"))
	quiet := log.New(io.Discard, "", 0)
	site := w.web(pages)
	for _, n := range []namespace{w.internet, w.host} {
		for _, port := range []string{"80", "443", "7000", "8080"} {
			l := noting{n.listen(w.T, "tcp", ":"+port), w.journal}
			s := &http.Server{Handler: site, ErrorLog: quiet, TLSConfig: w.helloed(w.cert)}
			switch {
			case port == "443":
				go s.ServeTLS(l, "", "")
			case port == "7000":
				go sendBack(l)
				continue
			default:
				go s.Serve(l)
			}
			w.Cleanup(func() { s.Close() })
		}
	}
	for _, abstract := range []string{"@sandboxmcp-egresstest", "@/tmp/.X11-unix/X0", "@/tmp/dbus-egresstest"} {
		l := w.host.listen(w.T, "unix", abstract)
		go w.unixServer(l)
	}
}

func (w *world) unixServer(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		w.record("bytes", "unix "+l.Addr().String(), "a connection")
		io.WriteString(c, canary)
		c.Close()
	}
}

// onHost returns a command that runs on the host, with the test's certificates and names. who is a user's ID, or ""
// for root.
func (w *world) onHost(who string, args ...string) *exec.Cmd {
	const script = `mount --bind "$1/certs" /etc/ssl/certs && mount --bind "$1/resolv.conf" /etc/resolv.conf && mount --bind "$1/hosts" /etc/hosts && shift && exec "$@"`
	all := []string{"--net=" + w.host.file(), "unshare", "--mount", "--propagation", "private", "sh", "-c", script, "sh", w.dir}
	if who != "" {
		all = append(all, "setpriv", "--reuid="+who, "--regid="+who, "--clear-groups")
	}
	cmd := exec.Command("nsenter", append(all, args...)...)
	home := filepath.Join(w.dir, "home"+who)
	cmd.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=" + home, "LANG=C.UTF-8",
		"XDG_STATE_HOME=" + home + "/state", "XDG_CONFIG_HOME=" + home + "/config", "TMPDIR=/tmp"}
	cmd.Env = append(cmd.Env, w.env...)
	cmd.Dir = w.dir
	os.MkdirAll(home, 0o755)
	if who != "" {
		command(w.T, "chown", who, home)
	}
	return cmd
}

// runAndLog runs a command, and returns its output.
func (w *world) runAndLog(cmd *exec.Cmd) (stdout, stderr string, err error) {
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err = cmd.Run()
	return out.String(), errs.String(), err
}
