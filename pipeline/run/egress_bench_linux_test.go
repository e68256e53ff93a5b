package run_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os/exec"
	"slices"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/pipelinetest"
	"github.com/sandboxmcp/sandboxmcp/pipeline/run"
)

// echoOrPour is a TCP server that sends 256 MiB to a client that sends 2, and echoes each other byte.
func echoOrPour(tb testing.TB, address string) int {
	l, err := net.Listen("tcp", address)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { l.Close() })
	block := make([]byte, 1<<20)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				b := make([]byte, 1)
				if _, err := io.ReadFull(c, b); err != nil {
					return
				}
				if b[0] != 2 {
					c.Write(b)
					return
				}
				for range 256 {
					if _, err := c.Write(block); err != nil {
						return
					}
				}
			}()
		}
	}()
	return l.Addr().(*net.TCPAddr).Port
}

// splicer is the comparison for the gateway: it copies bytes that come to address on to target.
func splicer(tb testing.TB, address, target string) int {
	l, err := net.Listen("tcp", address)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				s, err := net.Dial("tcp", target)
				if err != nil {
					return
				}
				defer s.Close()
				go io.Copy(s, c)
				io.Copy(c, s)
			}()
		}
	}()
	return l.Addr().(*net.TCPAddr).Port
}

// BenchmarkEgress has the same program measure connections and a download: to the server itself, through
// a plain splice, both without a sandbox, and in a sandbox through its gateway. The rounds take turns.
func BenchmarkEgress(b *testing.B) {
	python, err := exec.LookPath("python3")
	if err != nil {
		b.Skip(err)
	}
	port := echoOrPour(b, "127.0.0.9:0")
	proxy := splicer(b, "127.0.0.9:0", fmt.Sprintf("127.0.0.9:%d", port))
	w := &pipelinetest.Town{Names: map[string]netip.Addr{"web.test": netip.MustParseAddr("127.0.0.9")}}
	p, _, _ := pipelinetest.NewReal(b, func(c *pipeline.Config) { c.Egress = w.Egress(b, nil) })
	const program = `
import socket, sys, time, json
host, port = sys.argv[1], int(sys.argv[2])
at = socket.gethostbyname(host)
def connect():
    began = time.perf_counter()
    with socket.create_connection((at, port)) as c:
        c.send(b"\x01"); c.recv(1)
    return time.perf_counter() - began
for _ in range(20): connect()
times = sorted(connect() for _ in range(300))
buffer = bytearray(1 << 20)
with socket.create_connection((at, port)) as c:
    c.send(b"\x02")
    began, got = time.perf_counter(), 0
    while n := c.recv_into(buffer): got += n
    rate = got / (time.perf_counter() - began)
print(json.dumps([times[150] * 1e6, rate / 1e6]))
`
	type figures [2]float64 // microseconds of a connection, MB/s
	parse := func(text []byte, err error) figures {
		var f figures
		if err == nil {
			err = json.Unmarshal(text, &f)
		}
		if err != nil {
			b.Fatalf("%v: %q", err, text)
		}
		return f
	}
	bare := func(port int) figures {
		return parse(exec.Command(python, "-c", program, "127.0.0.9", fmt.Sprint(port)).Output())
	}
	var all [3][]figures
	for b.Loop() {
		all[0], all[1] = append(all[0], bare(port)), append(all[1], bare(proxy))
		_, res, err := pipeline.Do(b.Context(), p, run.Request{Language: "python", Code: []byte(program),
			Args:   []string{"web.test", fmt.Sprint(port)},
			Reach:  run.Reach{Allow: []string{fmt.Sprintf("web.test:%d", port)}, Typed: true},
			Bounds: pipeline.Bounds{Limits: backends.Limits{CPU: 2}}})
		if err == nil && res.Ended != backends.EndedOK {
			b.Fatalf("%s %s %+v", res.Ended, res.Stderr, res.Egress)
		}
		all[2] = append(all[2], parse([]byte(res.Stdout), err))
	}
	median := func(of []figures, i int) float64 {
		slices.SortFunc(of, func(x, y figures) int { return int(1000 * (x[i] - y[i])) })
		return of[len(of)/2][i]
	}
	b.ReportMetric(median(all[2], 0)-median(all[0], 0), "us/connection-more")
	b.ReportMetric(median(all[1], 0)-median(all[0], 0), "us/connection-more-spliced")
	b.ReportMetric(median(all[2], 1)/median(all[1], 1), "bulk/splice")
	b.ReportMetric(median(all[2], 1), "MB/s")
}
