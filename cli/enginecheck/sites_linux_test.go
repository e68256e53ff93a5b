package enginecheck_test

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"
)

func noSuchName(host string) error {
	return &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
}

// The names of the sites, and the port of their web servers. It is the same for all backends, since results contain it.
const (
	openName   = "open.test"
	deniedName = "denied.test"
)

// newSites starts two web servers, on one port, at two loopback addresses.
func newSites(t testing.TB) *sites {
	t.Helper()
	w := &sites{names: map[string]netip.Addr{}}
	for name, at := range map[string]string{openName: "127.0.0.71", deniedName: "127.0.0.72"} {
		l, err := net.Listen("tcp", fmt.Sprintf("%s:%d", at, sitePort))
		if err != nil {
			t.Fatal(err)
		}
		s := &httptest.Server{Listener: l, Config: &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprintf(w, "%s %s %s", name, r.URL.Path, r.Header.Get("X-Key"))
		})}}
		s.Start()
		t.Cleanup(s.Close)
		w.names[name] = netip.MustParseAddr(at)
	}
	return w
}

const sitePort = 18471
