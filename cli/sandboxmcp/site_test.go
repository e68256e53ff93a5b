package main

import (
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

// serveSite serves a directory at each name below .test until the script ends: site DIR. $PORT is its port, and $DNS the
// address of a DNS server for the names.
func serveSite(ts *testscript.TestScript, neg bool, args []string) {
	l, err := net.Listen("tcp", "127.0.0.9:0")
	ts.Check(err)
	web := &httptest.Server{Listener: l, Config: &http.Server{Handler: http.FileServer(http.Dir(ts.MkAbs(args[0])))}}
	web.Start()
	ts.Defer(web.Close)
	names, err := net.ListenPacket("udp", "127.0.0.1:0")
	ts.Check(err)
	ts.Defer(func() { names.Close() })
	go answerNames(names, resolveBelowTest)
	ts.Setenv("PORT", strconv.Itoa(l.Addr().(*net.TCPAddr).Port))
	ts.Setenv("DNS", names.LocalAddr().String())
}

// resolveBelowTest resolves names below .test to the site.
func resolveBelowTest(name string) (at [4]byte) {
	if strings.HasSuffix(name, ".test.") {
		at = [4]byte{127, 0, 0, 9}
	}
	return at
}
