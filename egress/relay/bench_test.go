package relay

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"strconv"
	"testing"
	"time"
)

const bulk = 256 << 20

func serveBulk(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/bulk" {
		io.WriteString(w, "small")
		return
	}
	w.Header().Set("Content-Length", strconv.Itoa(bulk))
	buf := make([]byte, 256<<10)
	for range bulk / len(buf) {
		w.Write(buf)
	}
}

// direct returns a client that connects to the server itself.
func direct(b *testing.B, address string, roots *x509.CertPool) *http.Client {
	tr := &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", address)
		},
		TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: host}, DisableCompression: true,
	}
	b.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}
}

func fetch(b *testing.B, c *http.Client, url string) {
	res, err := c.Get(url)
	if err != nil {
		b.Fatal(err)
	}
	io.CopyBuffer(struct{ io.Writer }{io.Discard}, res.Body, make([]byte, 256<<10))
	res.Body.Close()
}

// spliced returns a client whose connections are passed on uninspected.
func spliced(b *testing.B, address string, roots *x509.CertPool) *http.Client {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { l.Close() })
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", address)
			if err != nil {
				return
			}
			go func() { io.Copy(out, in); out.Close() }()
			go func() { io.Copy(in, out); in.Close() }()
		}
	}()
	return direct(b, l.Addr().String(), roots)
}

// BenchmarkBulk reports the speed of a relayed transfer, as ratios to a direct one and to one that is only spliced,
// in the same run.
func BenchmarkBulk(b *testing.B) {
	for _, c := range []benched{benchServe(b), benchSecure(b)} {
		b.Run(c.name, func(b *testing.B) {
			through := c.rig.client(1)
			var relayed, splice, straight time.Duration
			for b.Loop() {
				start := time.Now()
				fetch(b, through, c.rig.url("/bulk"))
				relayed += time.Since(start)
				start = time.Now()
				fetch(b, c.to, c.rig.url("/bulk"))
				straight += time.Since(start)
				start = time.Now()
				fetch(b, c.splice, c.rig.url("/bulk"))
				splice += time.Since(start)
			}
			b.ReportMetric(float64(straight)/float64(relayed), "of-direct")
			b.ReportMetric(float64(splice)/float64(relayed), "of-splice")
			b.ReportMetric(float64(bulk)*float64(b.N)/relayed.Seconds()/1e6, "MB/s")
		})
	}
}

// BenchmarkSmall reports the added latency of a small answer on an existing connection.
func BenchmarkSmall(b *testing.B) {
	for _, c := range []benched{benchServe(b), benchSecure(b)} {
		through := c.rig.client(1)
		b.Run(c.name+"/relayed", func(b *testing.B) {
			for b.Loop() {
				fetch(b, through, c.rig.url("/"))
			}
		})
		b.Run(c.name+"/direct", func(b *testing.B) {
			for b.Loop() {
				fetch(b, c.to, c.rig.url("/"))
			}
		})
		b.Run(c.name+"/relayed new connection", func(b *testing.B) {
			for b.Loop() {
				through.CloseIdleConnections()
				fetch(b, through, c.rig.url("/"))
			}
		})
		b.Run(c.name+"/direct new connection", func(b *testing.B) {
			for b.Loop() {
				c.to.CloseIdleConnections()
				fetch(b, c.to, c.rig.url("/"))
			}
		})
	}
}

type benched struct {
	name       string
	rig        *rig
	to, splice *http.Client
}

func benchServe(b *testing.B) benched {
	s := clearServer(serveBulk)
	return benched{"plain", newRig(b, setup{server: s}), direct(b, s.Listener.Addr().String(), nil),
		spliced(b, s.Listener.Addr().String(), nil)}
}

func benchSecure(b *testing.B) benched {
	s := secureServer(b, false, serveBulk)
	config := lease(nil).config()
	config.Redactor = func(w io.Writer) io.WriteCloser { return passing{w} } // its cost is the vault's
	g := newRig(b, setup{server: s, config: config, secure: true})
	roots := g.relay.cfg.Roots
	return benched{"secure", g, direct(b, s.Listener.Addr().String(), roots), spliced(b, s.Listener.Addr().String(), roots)}
}

type passing struct{ io.Writer }

func (passing) Close() error { return nil }
