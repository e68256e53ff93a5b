package browser

import (
	"bytes"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"io"
	"os"
	"path/filepath"
)

const (
	maxAuthorities  = 400
	authoritiesFile = 1 << 20 // bytes of a file of certificates; a whole system's has 250 kB
)

// addedDirs are the directories for an operator's own authorities: Debian and
// Alpine, Fedora, Arch, openSUSE.
var addedDirs = []string{
	"/usr/local/share/ca-certificates", "/etc/pki/ca-trust/source/anchors", "/etc/ca-certificates/trust-source/anchors",
	"/etc/pki/trust/anchors",
}

// Authorities returns the certificates, in DER, of authorities that this machine's operator has added, or that
// SSL_CERT_FILE and SSL_CERT_DIR name. The machine's public authorities are left out: browsers have their own list,
// which is updated first.
func Authorities() [][]byte {
	var files []string
	if name := os.Getenv("SSL_CERT_FILE"); name != "" {
		files = append(files, name)
	}
	dirs := addedDirs
	if names := os.Getenv("SSL_CERT_DIR"); names != "" {
		dirs = append(filepath.SplitList(names), addedDirs...)
	}
	for _, dir := range dirs {
		for _, pattern := range []string{"*", "*/*"} {
			found, _ := filepath.Glob(filepath.Join(dir, pattern)) // the patterns are good
			files = append(files, found[:min(len(found), 2*maxAuthorities)]...)
		}
	}
	return authorities(files)
}

// authorities returns the certificates of authorities in files.
func authorities(files []string) (all [][]byte) {
	seen := map[string]bool{}
	for _, name := range files {
		for _, der := range certificates(name) {
			c, err := x509.ParseCertificate(der)
			if err == nil && c.IsCA && !seen[string(der)] && len(all) < maxAuthorities {
				seen[string(der)] = true
				all = append(all, der)
			}
		}
	}
	return all
}

// certificates returns the certificates of a file, in PEM or DER.
func certificates(name string) (all [][]byte) {
	info, err := os.Stat(name)
	if err != nil || !info.Mode().IsRegular() {
		return nil
	}
	f, err := os.Open(name)
	if err != nil {
		return nil
	}
	defer f.Close()
	rest, err := io.ReadAll(io.LimitReader(f, authoritiesFile))
	if err != nil {
		return nil
	}
	if !bytes.Contains(rest, []byte("-----BEGIN")) {
		return [][]byte{rest}
	}
	for {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			return all
		}
		if block.Type == "CERTIFICATE" {
			all = append(all, block.Bytes)
		}
	}
}

// Trust returns the files of /etc that make a browser trust authorities besides its own: a machine policy, since the
// command-line arguments for it turn checks off. Without authorities there are no files.
func Trust(authorities [][]byte) map[string]string {
	if len(authorities) == 0 {
		return nil
	}
	all := make([]string, len(authorities))
	for i, der := range authorities {
		all[i] = base64.StdEncoding.EncodeToString(der)
	}
	policy, err := json.Marshal(map[string][]string{"CACertificates": all})
	if err != nil {
		return nil // can't fail for strings
	}
	files := map[string]string{}
	for _, dir := range []string{"chromium", "opt/chrome", "brave", "opt/edge"} {
		files[dir+"/policies/managed/authorities.json"] = string(policy)
	}
	return files
}
