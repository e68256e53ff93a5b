package call

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends"
)

// withSockets runs a test over both kinds of connection, with the sockets that programs connect to.
func withSockets(t *testing.T, f func(t *testing.T, s backends.Sandbox, real *bare)) {
	for _, kind := range connKinds {
		t.Run(kind, func(t *testing.T) {
			made := make(chan *bare, 1)
			s, err := startRemote(t.Context(), t, kind, backends.Spec{Gateway: []int{80, 443}},
				starter(func(ctx context.Context, spec backends.Spec) (backends.Sandbox, error) {
					s, err := bareStart(t)(ctx, spec)
					made <- s.(*bare)
					return s, err
				}))
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			f(t, s, <-made)
		})
	}
}

// dial connects to a sandbox's socket and accepts the connection at the server's.
func dial(t testing.TB, ours net.Listener, at net.Listener) (program *net.TCPConn, c net.Conn) {
	t.Helper()
	p, err := net.Dial("tcp", at.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	c, err = ours.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close(); c.Close() })
	return p.(*net.TCPConn), c
}

func TestConnections(t *testing.T) {
	withSockets(t, func(t *testing.T, s backends.Sandbox, real *bare) {
		g := s.Gateway()
		if len(g.Ports) != 2 || g.DNS == nil || g.DNSStream == nil {
			t.Fatalf("got %+v", g)
		}
		ours := append(g.Ports, g.DNSStream)
		theirs := append(real.gateway.Ports, real.gateway.DNSStream)
		for i := range ours {
			program, c := dial(t, ours[i], theirs[i])
			if c.LocalAddr().String() != program.RemoteAddr().String() || c.RemoteAddr().String() != program.LocalAddr().String() {
				t.Errorf("%d: the connection is from %v to %v, and says %v to %v", i, program.LocalAddr(), program.RemoteAddr(), c.RemoteAddr(),
					c.LocalAddr())
			}
			big := bytes.Repeat([]byte(fmt.Sprint(i, ".")), 1<<20)
			go func() {
				program.Write(big)
				program.CloseWrite()
			}()
			if got, err := io.ReadAll(c); err != nil || !bytes.Equal(got, big) {
				t.Fatalf("%d: %d bytes came, %v", i, len(got), err)
			}
			go func() { // although the program has closed its half
				c.Write(big)
				c.(interface{ CloseWrite() error }).CloseWrite()
			}()
			if got, err := io.ReadAll(program); err != nil || !bytes.Equal(got, big) {
				t.Errorf("%d: %d bytes went, %v", i, len(got), err)
			}
			c.Close()
			if _, err := c.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
				t.Errorf("read after close: %v", err)
			}
			if _, err := c.Write(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
				t.Errorf("write after close: %v", err)
			}
		}
	})
}

// TestConnectionsEnd: each end notices the other's operations on a connection.
func TestConnectionsEnd(t *testing.T) {
	withSockets(t, func(t *testing.T, s backends.Sandbox, real *bare) {
		pair := func() (*net.TCPConn, net.Conn) { return dial(t, s.Gateway().Ports[0], real.gateway.Ports[0]) }
		flood := func(w io.Writer) (err error) {
			for b := make([]byte, 1<<16); err == nil; {
				_, err = w.Write(b)
			}
			return err
		}
		leave := func(c net.Conn) { go func() { io.CopyN(io.Discard, c, 1<<20); c.Close() }() }
		program, c := pair()
		go io.Copy(io.Discard, c)
		leave(program)
		if err := flood(c); !errors.Is(err, syscall.EPIPE) && !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("writing to a program that has left: %v", err)
		}
		program, c = pair()
		program.CloseWrite()
		if _, err := io.ReadAll(c); err != nil {
			t.Errorf("the end of what a program says: %v", err)
		}
		leave(program)
		if err := flood(c); !errors.Is(err, syscall.EPIPE) && !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("writing to a program that has left after it said all: %v", err)
		}
		program, c = pair()
		program.SetLinger(0)
		program.Close()
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("reading from a program that has reset: %v", err)
		}
		program, c = pair()
		leave(c)
		if err := flood(program); err == nil {
			t.Error("a program writes to a connection that is closed")
		}
		program, c = pair()
		c.Write([]byte("bye"))
		c.Close()
		if got, err := io.ReadAll(program); string(got) != "bye" || err != nil {
			t.Errorf("the last words: %q %v", got, err)
		}
	})
}

func TestDeadlines(t *testing.T) {
	withSockets(t, func(t *testing.T, s backends.Sandbox, real *bare) {
		program, c := dial(t, s.Gateway().Ports[1], real.gateway.Ports[1])
		late := func(err error) {
			t.Helper()
			var timeout net.Error
			if !errors.Is(err, os.ErrDeadlineExceeded) || !errors.As(err, &timeout) || !timeout.Timeout() {
				t.Errorf("got %v, want that it was too late", err)
			}
		}
		buf := make([]byte, 100)
		c.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
		_, err := c.Read(buf)
		late(err)
		program.Write([]byte("+hello"))
		c.SetReadDeadline(time.Time{})
		c.Read(buf[:1]) // the rest has arrived, too
		c.SetReadDeadline(time.Unix(1, 0))
		_, err = c.Read(buf)
		late(err)
		c.SetReadDeadline(time.Time{})
		if n, err := c.Read(buf); string(buf[:n]) != "hello" || err != nil {
			t.Errorf("got %q %v", buf[:n], err)
		}
		time.AfterFunc(50*time.Millisecond, func() { c.SetReadDeadline(time.Unix(1, 0)) })
		_, err = c.Read(buf)
		late(err)
		// A deadline loses no data: all counted bytes arrive.
		sent := int64(0)
		c.SetWriteDeadline(time.Now().Add(100 * time.Millisecond))
		for err = nil; err == nil; {
			var n int
			n, err = c.Write(make([]byte, 100_000))
			sent += int64(n)
		}
		late(err)
		c.SetWriteDeadline(time.Time{})
		sent += int64(len("end"))
		go func() {
			c.Write([]byte("end"))
			c.(interface{ CloseWrite() error }).CloseWrite()
		}()
		got, err := io.ReadAll(program)
		if int64(len(got)) != sent || !strings.HasSuffix(string(got), "\x00end") || err != nil {
			t.Errorf("%d bytes came of %d, %v", len(got), sent, err)
		}
		g := s.Gateway()
		g.DNS.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
		_, _, err = g.DNS.ReadFrom(buf)
		late(err)
	})
}

func TestPackets(t *testing.T) {
	withSockets(t, func(t *testing.T, s backends.Sandbox, real *bare) {
		dns := s.Gateway().DNS
		go func() {
			for buf := make([]byte, 1<<16); ; {
				n, from, err := dns.ReadFrom(buf)
				if err != nil {
					return
				}
				dns.WriteTo(append([]byte("re "), buf[:n]...), from)
			}
		}()
		var all sync.WaitGroup
		for i := range 8 {
			all.Go(func() {
				c, err := net.Dial("udp", real.gateway.DNS.LocalAddr().String())
				if err != nil {
					t.Error(err)
					return
				}
				defer c.Close()
				for j := range 20 {
					word := strings.Repeat(fmt.Sprint(i, j), j*100)
					c.Write([]byte(word))
					buf := make([]byte, 1<<16)
					if n, err := c.Read(buf); string(buf[:n]) != "re "+word || err != nil {
						t.Errorf("got %.40q %v, want %.40q", buf[:n], err, word)
					}
				}
			})
		}
		all.Wait()
		s.Close()
		if _, _, err := dns.ReadFrom(make([]byte, 10)); err == nil {
			t.Error("it outlived the sandbox")
		}
		if _, err := s.Gateway().Ports[0].Accept(); err == nil {
			t.Error("a listener outlived the sandbox")
		}
	})
}

// TestCrowd: more connections than an init carries at once are all served.
func TestCrowd(t *testing.T) {
	withSockets(t, func(t *testing.T, s backends.Sandbox, real *bare) {
		listener := s.Gateway().Ports[0]
		go func() {
			for {
				c, err := listener.Accept()
				if err != nil {
					return
				}
				go func() {
					defer c.Close()
					io.Copy(c, c)
				}()
			}
		}()
		var all sync.WaitGroup
		for i := range 3 * maxConns {
			all.Go(func() {
				c, err := net.Dial("tcp", real.gateway.Ports[0].Addr().String())
				if err != nil {
					t.Error(err)
					return
				}
				defer c.Close()
				fmt.Fprint(c, i)
				c.(*net.TCPConn).CloseWrite()
				if got, err := io.ReadAll(c); string(got) != fmt.Sprint(i) || err != nil {
					t.Errorf("got %q %v, want %d", got, err, i)
				}
			})
		}
		all.Wait()
	})
}

// TestStalled: connections whose programs do not read block nothing else.
func TestStalled(t *testing.T) {
	withSockets(t, func(t *testing.T, s backends.Sandbox, real *bare) {
		var all sync.WaitGroup
		defer all.Wait()
		stalled := make([]byte, 4<<20)
		for range maxConns - 28 {
			_, c := dial(t, s.Gateway().Ports[0], real.gateway.Ports[0])
			defer c.Close()
			c.SetWriteDeadline(time.Now().Add(2 * time.Second))
			all.Go(func() {
				for err := error(nil); err == nil; { // until the kernel's buffers are also full
					_, err = c.Write(stalled)
				}
			})
		}
		all.Wait()
		var out bytes.Buffer
		if runShell(t, s, "cat", backends.Streams{Stdin: bytes.NewReader(stalled), Stdout: &out}); !bytes.Equal(out.Bytes(), stalled) {
			t.Errorf("%d bytes came back", out.Len())
		}
		program, c := dial(t, s.Gateway().Ports[1], real.gateway.Ports[1])
		go func() { c.Write(stalled); c.Close() }()
		if got, err := io.ReadAll(program); len(got) != len(stalled) || err != nil {
			t.Errorf("%d bytes, %v", len(got), err)
		}
	})
}
