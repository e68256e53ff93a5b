package main

import (
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/net/dns/dnsmessage"
)

// site serves a folder to the web under each name below .test, until the script ends: site DIR. $PORT is where, and
// $DNS the server that knows the names.
func site(ts *testscript.TestScript, neg bool, args []string) {
	l, err := net.Listen("tcp", "127.0.0.9:0")
	ts.Check(err)
	web := &httptest.Server{Listener: l, Config: &http.Server{Handler: http.FileServer(http.Dir(ts.MkAbs(args[0])))}}
	web.Start()
	ts.Defer(web.Close)
	names, err := net.ListenPacket("udp", "127.0.0.1:0")
	ts.Check(err)
	ts.Defer(func() { names.Close() })
	go answerNames(names)
	ts.Setenv("PORT", strconv.Itoa(l.Addr().(*net.TCPAddr).Port))
	ts.Setenv("DNS", names.LocalAddr().String())
}

// answerNames has all names below .test lead to the site.
func answerNames(conn net.PacketConn) {
	b := make([]byte, 1500)
	for {
		n, from, err := conn.ReadFrom(b)
		if err != nil {
			return
		}
		var m dnsmessage.Message
		if m.Unpack(b[:n]) != nil || len(m.Questions) != 1 {
			continue
		}
		q := m.Questions[0]
		m.Response, m.RecursionAvailable, m.Additionals = true, true, nil
		switch {
		case !strings.HasSuffix(q.Name.String(), ".test."):
			m.RCode = dnsmessage.RCodeNameError
		case q.Type == dnsmessage.TypeA:
			m.Answers = []dnsmessage.Resource{{
				Header: dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class, TTL: 1}, Body: &dnsmessage.AResource{A: [4]byte{127, 0, 0, 9}},
			}}
		}
		if answer, err := m.Pack(); err == nil {
			conn.WriteTo(answer, from)
		}
	}
}
