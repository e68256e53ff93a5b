//go:build linux

package backendtest

import (
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends"
)

func testNetwork(t *testing.T, b *bench) {
	target, reached := networkTarget(t)
	t.Run("routes out", func(t *testing.T) {
		b.needLayer(t, backends.LayerNet)
		b.checkAttacks(t, "network.py", target)
		if n := reached.Load(); n != 0 {
			t.Errorf("the host's listeners were reached %d times", n)
		}
	})
	t.Run("loopback inside", func(t *testing.T) {
		b.needLayer(t, backends.LayerNet)
		b.runProgramFile(t, b.spec("python"), "loopback.py").mustSucceed(t)
	})
	t.Run("packets without a route", func(t *testing.T) {
		b.needLayer(t, backends.LayerNet)
		if b.o.Interfaces {
			t.Skip("there is a route, and others drop what takes it")
		}
		b.testLostPackets(t)
	})
}

// testLostPackets tests the count of packets without a route, which does not depend on programs' reports.
func (b *bench) testLostPackets(t *testing.T) {
	const (
		quiet   = "import socket\nl = socket.create_server(('127.0.0.1', 0))\nsocket.create_connection(l.getsockname())\n"
		lookUp  = quiet + "try: socket.getaddrinfo('name.test', 80)\nexcept OSError: pass\n"
		address = quiet + "try: socket.create_connection(('203.0.113.1', 80), 60)\nexcept OSError: pass\n"
	)
	for _, test := range []struct {
		name, code    string
		counted, lost bool
	}{
		{"nothing", quiet, false, false}, {"a look-up", lookUp, false, true}, {"an address", address, false, true},
		{"an address beside a gateway", address, true, true}, {"nothing beside a gateway", quiet, true, false},
	} {
		spec := b.spec("python")
		if test.counted {
			spec.Gateway = []int{80}
		}
		if o := b.run(t, spec, test.code).mustSucceed(t); (o.Lost > 0) != test.lost {
			t.Errorf("%s: %d were lost", test.name, o.Lost)
		}
	}
	o := b.timedOut(t, "python", func(spec backends.Spec) outcome {
		return b.run(t, spec, address+"print('ready', flush=True)\nwhile True: pass")
	})
	if o.Lost == 0 {
		t.Error("an address before time was up: 0 were lost")
	}
	if b.o.Warm {
		return // this profile has no sessions
	}
	s := b.session(t, "python")
	before := s.Usage().Lost
	for _, test := range []struct {
		code string
		lost bool
	}{{quiet, false}, {lookUp, true}} {
		mustExec(t, s, "python", "-c", test.code).mustSucceed(t)
		if now := s.Usage().Lost; (now > before) != test.lost {
			t.Errorf("%d were lost in all, and %d before", now, before)
		}
	}
}

// networkTarget opens listeners of all kinds on the host. The counter counts connections and packets that reached them.
func networkTarget(t *testing.T) (map[string]any, *atomic.Int64) {
	var reached atomic.Int64
	word := canary()
	dir, err := os.MkdirTemp("/tmp", "backendtest-") // short: a socket's path has 108 bytes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	target := map[string]any{"abstract": word, "abstract_dgram": word + "-dgram",
		"path": filepath.Join(dir, "stream"), "path_dgram": filepath.Join(dir, "dgram")}
	tcp, tcp6, udp := [][2]any{}, [][2]any{}, [][2]any{}
	port := listen(t, &reached, "tcp", "0.0.0.0:0").(*net.TCPAddr).Port
	port6 := 0
	if l, err := net.Listen("tcp6", "[::]:0"); err == nil {
		port6 = l.Addr().(*net.TCPAddr).Port
		l.Close()
		listen(t, &reached, "tcp6", "[::]:"+itoa(port6))
	}
	udpPort := listenPacket(t, &reached, "udp", "0.0.0.0:0").(*net.UDPAddr).Port
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range addrs {
		ip, ok := a.(*net.IPNet)
		switch {
		case !ok:
		case ip.IP.To4() != nil:
			tcp = append(tcp, [2]any{ip.IP.String(), port})
			udp = append(udp, [2]any{ip.IP.String(), udpPort})
		case port6 != 0 && !ip.IP.IsLinkLocalUnicast():
			tcp6 = append(tcp6, [2]any{ip.IP.String(), port6})
		}
	}
	target["tcp"], target["tcp6"], target["udp"] = tcp, tcp6, udp
	listen(t, &reached, "unix", "@"+word)
	listen(t, &reached, "unix", filepath.Join(dir, "stream"))
	listenPacket(t, &reached, "unixgram", "@"+word+"-dgram")
	listenPacket(t, &reached, "unixgram", filepath.Join(dir, "dgram"))
	for _, name := range []string{"stream", "dgram"} {
		if err := os.Chmod(filepath.Join(dir, name), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	return target, &reached
}

// listen counts connections, and sends each a descriptor where that is possible.
func listen(t *testing.T, reached *atomic.Int64, network, address string) net.Addr {
	t.Helper()
	l, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			reached.Add(1)
			if u, ok := c.(*net.UnixConn); ok {
				if raw, err := u.SyscallConn(); err == nil {
					raw.Control(func(fd uintptr) { sendRoot(int(fd)) })
				}
			}
			c.Close()
		}
	}()
	t.Cleanup(func() { l.Close(); <-done })
	return l.Addr()
}

// listenPacket counts datagrams, and answers those that have a sender address.
func listenPacket(t *testing.T, reached *atomic.Int64, network, address string) net.Addr {
	t.Helper()
	c, err := net.ListenPacket(network, address)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		buf := make([]byte, 1024)
		for {
			_, from, err := c.ReadFrom(buf)
			if err != nil {
				return
			}
			reached.Add(1)
			if from != nil {
				c.WriteTo([]byte("canary"), from)
			}
		}
	}()
	t.Cleanup(func() { c.Close(); <-done })
	return c.LocalAddr()
}
