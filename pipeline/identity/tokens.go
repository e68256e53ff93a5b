package identity

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sandboxmcp/sandboxmcp/audit/statefile"
)

// Errors of changes to the store.
var (
	ErrExists  = errors.New("a token with this name exists already")
	ErrUnknown = errors.New("unknown token")
)

// Tokens is the store of bearer tokens in a state directory: tokens.json, with mode 0600, which is replaced as a
// whole under a lock. Any number of processes may share it; all see changes at once. It does not contain the tokens
// themselves.
//
// The methods may be called concurrently.
type Tokens struct {
	dir    string
	derive func(token string, salt []byte) []byte // counted by tests
	slots  chan struct{}
	wrong  *limits // failed derivations, by id

	mu       sync.Mutex
	current  snapshot
	proved   map[string]proved // verified tokens in current, by id
	touching sync.Mutex
}

// Files of the store, and its maximum size: the whole file is read after each change.
const (
	tokensFile = "tokens.json"
	lockFile   = "tokens.lock"
	newKind    = "tokens" // in the names of temporary files
	maxTokens  = 1000
	maxFile    = 16 << 20
	version    = 1
)

// record is a token in the file.
type record struct {
	Token
	Key  []byte `json:"key"` // key of the MAC in its secret
	KDF  string `json:"kdf"`
	Salt []byte `json:"salt"`
	Hash []byte `json:"hash"`
}

// content is the content of the file.
type content struct {
	Version int      `json:"version"`
	Tokens  []record `json:"tokens"`
}

// snapshot is the file as last read. A file that was less than a second old may have been replaced since by another
// of the same size and time, because file system clocks are coarse: it is read again.
type snapshot struct {
	info  fs.FileInfo // nil: no file, or not read yet
	fresh bool        // the file was young when it was read
	byID  map[string]record
}

// List returns the tokens by name, including expired ones.
func (t *Tokens) List() ([]Token, error) {
	all, err := t.read()
	if err != nil {
		return nil, err
	}
	list := make([]Token, 0, len(all.Tokens))
	for _, r := range all.Tokens {
		list = append(list, r.Token)
	}
	slices.SortFunc(list, func(a, b Token) int { return strings.Compare(a.Name, b.Name) })
	return list, nil
}

// Create creates a token with the name, the kind, the namespaces and the expiry of spec, and returns it: it can't be
// read again later. log, if not nil, is called before the token is stored, and its error prevents that. The error is
// ErrExists if the name is taken.
func (t *Tokens) Create(ctx context.Context, spec Token, log func(Token) error) (token string, made Token, err error) {
	if err := spec.Check(); err != nil {
		return "", made, err
	}
	key := random(keySize)
	token, id := newToken(key)
	made = Token{ID: id, Name: spec.Name, Kind: spec.Kind, Namespaces: spec.Namespaces, Created: now()}
	if !spec.Expires.IsZero() {
		made.Expires = spec.Expires.UTC().Truncate(time.Second)
	}
	sealed := t.seal(made, token, key)
	err = t.change(ctx, func(all *content) error {
		if slices.ContainsFunc(all.Tokens, func(r record) bool { return r.Name == made.Name || r.ID == made.ID }) {
			return ErrExists
		}
		if len(all.Tokens) >= maxTokens {
			return fmt.Errorf("the store has %d tokens, the maximum: revoke some", maxTokens)
		}
		all.Tokens = append(all.Tokens, sealed)
		return call(log, made)
	})
	if err != nil {
		return "", Token{}, err
	}
	return token, made, nil
}

func call(log func(Token) error, t Token) error {
	if log == nil {
		return nil
	}
	return log(t)
}

func now() time.Time { return time.Now().UTC().Truncate(time.Second) }

// lockWait bounds the wait for other processes, which hold the lock for milliseconds.
const lockWait = 10 * time.Second

// change applies f to the content of the file and replaces the file, unless f fails. It locks out other processes.
func (t *Tokens) change(ctx context.Context, f func(*content) error) error {
	lock, err := t.lock(ctx)
	if err != nil {
		return err
	}
	defer lock.Close()
	all, err := t.read()
	if err != nil {
		return err
	}
	if err := f(&all); err != nil {
		return err
	}
	data, err := json.MarshalIndent(all, "", " ")
	if err != nil {
		return err
	}
	statefile.RemoveAbandoned(t.dir, newKind, 0)
	return statefile.Replace(t.path(), newKind, data, 0o600)
}

// lock locks the store until the returned file is closed.
func (t *Tokens) lock(ctx context.Context) (*os.File, error) {
	return statefile.LockFile(ctx, filepath.Join(t.dir, lockFile), false, lockWait)
}

// Freeze calls f while no process changes the store.
func (t *Tokens) Freeze(ctx context.Context, f func() error) error {
	lock, err := t.lock(ctx)
	if err != nil {
		return err
	}
	defer lock.Close()
	return f()
}

func (t *Tokens) path() string { return filepath.Join(t.dir, tokensFile) }

// read returns the content of the file. A missing file is an empty store; a damaged file, or one that other users may
// read, is an error.
func (t *Tokens) read() (content, error) {
	all, _, err := t.readFile()
	return all, err
}

func (t *Tokens) readFile() (all content, info fs.FileInfo, err error) {
	f, info, err := statefile.OpenPrivate(t.path(), "revoke its tokens if somebody has")
	if errors.Is(err, fs.ErrNotExist) {
		return content{Version: version}, nil, nil
	}
	if err != nil {
		return content{}, nil, fmt.Errorf("read the token store: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFile))
	if err == nil {
		err = all.decode(data)
	}
	if err != nil {
		return content{}, nil, fmt.Errorf("the token store %q: %w: restore a backup, or move it away and create the tokens again", t.path(), err)
	}
	all.withoutStruck()
	return all, info, nil
}

// decode accepts only content that this program could have written: an unknown field may be an expiry.
func (c *content) decode(data []byte) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(c); err != nil {
		return fmt.Errorf("it is damaged: %w", err)
	}
	if c.Version != version {
		return fmt.Errorf("its format is version %d, but this program supports version %d", c.Version, version)
	}
	if _, err := d.Token(); err != io.EOF {
		return errors.New("it is damaged: there is text after the tokens")
	}
	for _, r := range c.Tokens {
		if err := r.Check(); err != nil || !isID(r.ID) || len(r.Key) != keySize || r.KDF != kdf || len(r.Salt) != saltSize ||
			len(r.Hash) != hashSize {
			return errors.New("it is damaged: it has an invalid token")
		}
	}
	return nil
}

// record returns the current record of an id.
func (t *Tokens) record(id string) (record, bool, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.refresh(); err != nil {
		t.current = snapshot{}
		return record{}, false, err
	}
	r, known := t.current.byID[id]
	return r, known, nil
}

// refresh reads the file if it has changed.
func (t *Tokens) refresh() error {
	info, err := os.Lstat(t.path())
	old := t.current
	switch {
	case errors.Is(err, fs.ErrNotExist):
		t.current, t.proved = snapshot{}, nil
		return nil
	case err != nil:
		return err
	case old.info != nil && !old.fresh && os.SameFile(old.info, info) && old.info.ModTime().Equal(info.ModTime()) &&
		old.info.Size() == info.Size() && old.info.Mode() == info.Mode():
		return nil
	}
	all, info, err := t.readFile()
	if err != nil {
		return err
	}
	t.current = snapshot{info: info, fresh: info == nil || time.Since(info.ModTime()) < time.Second, byID: map[string]record{}}
	for _, r := range all.Tokens {
		t.current.byID[r.ID] = r
	}
	maps.DeleteFunc(t.proved, func(id string, p proved) bool { return !bytes.Equal(t.current.byID[id].Hash, p.hash) })
	return nil
}
