package signer

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/sandboxmcp/sandboxmcp/audit/statefile"
)

var errNoKey = errors.New("there is none yet")

// maxKeyFile is the maximum size of a key file, in bytes.
const maxKeyFile = 8 << 10

func generateKey() (*Key, error) {
	_, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		return nil, err
	}
	return newKey(private)
}

func (k *Key) privatePEM() ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(k.private())
	if err != nil {
		return nil, err
	}
	defer clear(der)
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}

// readPrivateKey reads a private key, and refuses a file that others can read. Its errors do not quote the file.
func readPrivateKey(path string) (*Key, os.FileInfo, error) {
	f, info, err := statefile.OpenPrivate(path, "if somebody has, replace it with sandboxmcp key rotate")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, errNoKey
	}
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxKeyFile+1))
	if err != nil {
		return nil, nil, err
	}
	defer clear(text)
	der, why := onlyBlock(text, "PRIVATE KEY")
	if why != "" {
		return nil, nil, fmt.Errorf("%q %s: put the right file back, or move it away with the whole directory and start anew", path, why)
	}
	defer clear(der)
	parsed, err := x509.ParsePKCS8PrivateKey(der)
	if err != nil {
		return nil, nil, fmt.Errorf("%q holds no private key: it is damaged, or was cut", path)
	}
	private, ok := parsed.(ed25519.PrivateKey)
	if !ok {
		return nil, nil, fmt.Errorf("%q holds a key of another kind than Ed25519: this program signs with no other", path)
	}
	key, err := newKey(private)
	return key, info, err
}

// parsePublicKey parses an Ed25519 public key in PEM.
func parsePublicKey(text []byte) (PublicKey, error) {
	der, why := onlyBlock(text, "PUBLIC KEY")
	if why != "" {
		return PublicKey{}, fmt.Errorf("it %s", why)
	}
	parsed, err := x509.ParsePKIXPublicKey(der)
	if err != nil {
		return PublicKey{}, errors.New("it holds no public key: it is damaged, or was cut")
	}
	public, ok := parsed.(ed25519.PublicKey)
	if !ok {
		return PublicKey{}, errors.New("it holds a key of another kind than Ed25519")
	}
	return newPublicKey(public)
}

// onlyBlock returns the content of the only PEM block of text, or why there is none.
func onlyBlock(text []byte, kind string) (der []byte, why string) {
	if len(text) > maxKeyFile {
		return nil, "is too large for a key"
	}
	if len(bytes.TrimSpace(text)) == 0 {
		return nil, "is empty"
	}
	block, rest := pem.Decode(text)
	switch {
	case block == nil:
		return nil, "is not a PEM file, or was cut off"
	case block.Type != kind && strings.Contains(block.Type, "PRIVATE"):
		return nil, fmt.Sprintf("holds a %s, not a %s", strings.ToLower(block.Type), strings.ToLower(kind))
	case block.Type != kind:
		return nil, fmt.Sprintf("holds no %s", strings.ToLower(kind))
	case len(bytes.TrimSpace(rest)) > 0:
		return nil, "holds more than one key"
	}
	return block.Bytes, ""
}

// tempKind is in the name of a file that is being created.
const tempKind = "key"

// createFile creates the file path atomically, unless it exists.
func createFile(path string, content []byte) error {
	if _, err := os.Lstat(path); err == nil {
		return nil
	}
	statefile.RemoveAbandoned(filepath.Dir(path), tempKind, statefile.AbandonedAge)
	return statefile.CreateFile(path, tempKind, content)
}

// replaceFile creates or replaces the file path atomically.
func replaceFile(path string, content []byte) error {
	statefile.RemoveAbandoned(filepath.Dir(path), tempKind, statefile.AbandonedAge)
	return statefile.Replace(path, tempKind, content, 0o600)
}

// lockWait bounds the wait for other processes, which hold the lock for milliseconds.
const lockWait = 10 * time.Second

// lockDirectory creates and locks the directory. The lock ends with the process.
func (k *Keys) lockDirectory(ctx context.Context) (unlock func(), err error) {
	if err := os.MkdirAll(k.dir, 0o700); err != nil {
		return nil, err
	}
	if err := k.checkDirectory(); err != nil {
		return nil, err
	}
	f, err := statefile.LockFile(ctx, filepath.Join(k.dir, "lock"), false, lockWait)
	if err != nil {
		return nil, fmt.Errorf("change the keys: %w", err)
	}
	return func() { f.Close() }, nil
}

// WithLock calls f while no process changes the keys.
func (k *Keys) WithLock(ctx context.Context, f func() error) error {
	unlock, err := k.lockDirectory(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	return f()
}
