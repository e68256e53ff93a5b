package egresstest

import (
	"crypto/ecdsa"
	"crypto/x509"
	"encoding/pem"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
)

// database starts a real PostgreSQL on the test's internet, with one user, which needs TLS and the returned
// password.
func (w *world) database() (password string) {
	w.Helper()
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	if len(found) == 0 {
		requirePrograms(w.T, "postgres")
	}
	bin := filepath.Dir(found[len(found)-1])
	dir := w.path("postgres")
	if err := os.Mkdir(dir, 0o755); err != nil {
		w.Fatal(err)
	}
	password = "pass" + filepath.Base(w.dir)
	secret := filepath.Join(dir, "password")
	key, err := x509.MarshalECPrivateKey(w.cert.PrivateKey.(*ecdsa.PrivateKey))
	if err != nil {
		w.Fatal(err)
	}
	chain := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: w.cert.Certificate[0]})
	for name, text := range map[string][]byte{
		"password": []byte(password), "server.crt": chain,
		"server.key":  pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: key}),
		"pg_hba.conf": []byte("hostssl all all 0.0.0.0/0 scram-sha-256\n"),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			w.Fatal(err)
		}
	}
	command(w.T, "chown", "-R", "postgres:", dir)
	as := []string{"--reuid=postgres", "--regid=postgres", "--clear-groups", "env", "LC_ALL=C"}
	data := filepath.Join(dir, "data")
	command(w.T, "setpriv", slices.Concat(as, []string{filepath.Join(bin, "initdb"), "-D", data, "-U", "tester",
		"-A", "scram-sha-256", "--pwfile", secret, "--no-sync", "--no-instructions", "-E", "UTF8", "--locale=C"})...)
	// The server ends when its input does, so that it does not outlive a killed test.
	server := exec.Command("sh", slices.Concat([]string{"-c", `"$@" & read end; kill -INT $!; wait`, "sh", "nsenter",
		"--net=" + w.internet.file(), "setpriv"}, as, []string{filepath.Join(bin, "postgres"), "-D", data,
		"-c", "listen_addresses=*", "-c", "unix_socket_directories=", "-c", "fsync=off", "-c", "ssl=on", "-c", "ssl_cert_file=" + dir +
			"/server.crt",
		"-c", "ssl_key_file=" + dir + "/server.key", "-c", "hba_file=" + dir + "/pg_hba.conf"})...)
	log, err := os.Create(w.path("postgres.log"))
	if err != nil {
		w.Fatal(err)
	}
	defer log.Close()
	server.Stdout, server.Stderr = log, log
	end, err := server.StdinPipe()
	if err != nil {
		w.Fatal(err)
	}
	if err := server.Start(); err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { end.Close(); server.Wait() })
	hosttest.Until(w, "PostgreSQL answers, whose words are in "+log.Name(), func() bool {
		return w.internet.runInside(func() error {
			c, err := net.Dial("tcp", "203.0.113.20:5432")
			if err == nil {
				c.Close()
			}
			return err
		}) == nil
	})
	return password
}
