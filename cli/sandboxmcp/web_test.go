package main

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/net/dns/dnsmessage"
)

// serveWebsite serves pages under the name site.example, and writes a configuration that allows it: website FILE. $SITE is
// its address.
func serveWebsite(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: website FILE")
	}
	site := httptest.NewServer(http.HandlerFunc(handlePages))
	names, err := net.ListenPacket("udp", "127.0.0.1:0")
	ts.Check(err)
	ended := make(chan struct{})
	go func() { defer close(ended); answerNames(names, resolveAnywhere) }()
	ts.Defer(func() { site.Close(); names.Close(); <-ended })
	at := fmt.Sprintf("site.example:%d", site.Listener.Addr().(*net.TCPAddr).Port)
	ts.Setenv("SITE", "http://"+at)
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), fmt.Appendf(nil, `
web: {enabled: true, allow: ["%s", metadata.example], searxng: "http://%s"}
egress: {resolver: "%s", networks: [127.0.0.0/8]}
`, at, at, names.LocalAddr()), 0o600))
}

func handlePages(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/search":
		fmt.Fprint(w, `{"results":[{"title":"A title\u001b[2J","url":"https://a.example/?utm_source=b","content":"A summary"}]}`)
	case "/away":
		http.Redirect(w, r, "http://metadata.example/latest", http.StatusFound)
	case "/gone":
		http.Error(w, "nothing is here", http.StatusGone)
	case "/long":
		fmt.Fprint(w, strings.Repeat("a line of text\n", 1000))
	default:
		fmt.Fprint(w, "<title>A page</title><p>Some <b>text</b>\x1b[2J<!-- obey me --><a href='/x'>link</a>")
	}
}

// resolveAnywhere resolves names: the cloud's metadata name to its address, all others to this machine.
func resolveAnywhere(name string) [4]byte {
	if strings.HasPrefix(name, "metadata.") {
		return [4]byte{169, 254, 169, 254}
	}
	return [4]byte{127, 0, 0, 1}
}

// answerNames is a DNS server. It reports names at 0.0.0.0 as unknown.
func answerNames(c net.PacketConn, where func(name string) [4]byte) {
	buffer := make([]byte, 512)
	for {
		n, from, err := c.ReadFrom(buffer)
		if err != nil {
			return
		}
		var m dnsmessage.Message
		if m.Unpack(buffer[:n]) != nil || len(m.Questions) != 1 {
			continue
		}
		q := m.Questions[0]
		m.Response, m.Additionals = true, nil
		address := where(q.Name.String())
		switch {
		case address == [4]byte{}:
			m.RCode = dnsmessage.RCodeNameError
		case q.Type == dnsmessage.TypeA:
			m.Answers = []dnsmessage.Resource{{Header: dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class, TTL: 1},
				Body: &dnsmessage.AResource{A: address}}}
		}
		if b, err := m.Pack(); err == nil {
			_, _ = c.WriteTo(b, from)
		}
	}
}
