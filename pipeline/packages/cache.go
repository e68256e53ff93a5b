package packages

import (
	"cmp"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sandboxmcp/sandboxmcp/audit/statefile"
)

// cache keeps what installs have fetched and unpacked, for installs of all namespaces and sessions. Its directory holds
//
//	key                    what names are made with: by its name nobody guesses a password
//	file-NAME              a file of a registry
//	set-ORDER-NAME-BYTES   a layer without packages: what a package manager made of an order's files
//
// Only Install writes there, and no sandbox sees it. A name says for which registries and credentials its entry is, so that those with others
// find none. An entry is renamed into place when it is whole, and hashed whenever it is used.
type cache struct {
	dir string
	max int64 // bytes; 0 is no cache
	key []byte
	of  string // registries and credentials
}

const (
	filePrefix = "file-"
	setPrefix  = "set-"
)

// cacheDir returns the cache's directory.
func (s *Store) cacheDir() string { return filepath.Join(s.cfg.Dir, "cache") }

// cache returns the cache as installs with these settings see it.
func (s *Store) cache(set settings) (cache, error) {
	name := filepath.Join(s.cacheDir(), "key")
	key, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		if err = statefile.CreateFile(name, "key", []byte(rand.Text())); err == nil {
			key, err = os.ReadFile(name) // another process may have been faster
		}
	}
	if err != nil {
		return cache{}, fmt.Errorf("open the cache of packages: %w", err)
	}
	return cache{dir: s.cacheDir(), max: s.cfg.CacheBytes, key: key, of: set.account}, nil
}

func (c cache) join(name string) string { return filepath.Join(c.dir, name) }

// name returns the name for these parts. Different parts have different names.
func (c cache) name(parts ...string) string {
	h := hmac.New(sha256.New, c.key)
	for _, part := range append([]string{c.of}, parts...) {
		fmt.Fprintf(h, "%d %s", len(part), part)
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// file opens a registry's file, nil if it is not kept.
func (c cache) file(want string) *os.File {
	name := c.join(filePrefix + c.name(want))
	f, err := os.Open(name)
	if err != nil {
		return nil
	}
	sum := hasher(want)
	if _, err = io.Copy(sum, f); err == nil && spelled(sum) == want {
		if _, err = f.Seek(0, io.SeekStart); err == nil {
			touch(name)
			return f
		}
	}
	f.Close()
	os.Remove(name)
	return nil
}

// addFile moves a whole file here, whose hash was checked.
func (c cache) addFile(name, hash string) { os.Rename(name, c.join(filePrefix+c.name(hash))) }

// sets returns the directories of an order's sets; key is "*" for all of them.
func (c cache) sets(order, key string) []string {
	all, _ := filepath.Glob(c.join(setPrefix + order + "-" + key + "-*"))
	return all
}

// take puts the files of a set into b, and returns them, nil if the set is not kept. What was changed or is not whole is removed.
func (c cache) take(order, key string, b *builder) map[string]file {
	for _, dir := range c.sets(order, key) {
		set, err := load(dir)
		if err == nil {
			err = b.link(set.content(), set.files)
		}
		if err == nil {
			err = b.verify(set.files)
		}
		if err == nil {
			touch(dir)
			return set.files
		}
		os.RemoveAll(dir)
		b.clear()
	}
	return nil
}

// addSet keeps the files that are in b. stage is a directory of the install.
func (c cache) addSet(order, key, stage string, from *builder, files map[string]file) {
	set := layer{dir: filepath.Join(stage, "set"), files: files}
	defer os.RemoveAll(set.dir)
	if os.Mkdir(set.dir, 0o700) != nil {
		return
	}
	b, err := newBuilder(set.content())
	if err == nil {
		err = b.link(from.root, files)
	}
	if err == nil {
		_, err = set.save()
	}
	if err == nil {
		os.Rename(set.dir, c.join(fmt.Sprintf("%s%s-%s-%d", setPrefix, order, key, set.bytes())))
	}
}

// touch notes that an entry is used.
func touch(name string) { os.Chtimes(name, time.Time{}, time.Now()) }

// CacheUse is what a cache of packages holds.
type CacheUse struct {
	Files int   `json:"files"` // as registries have them
	Sets  int   `json:"sets"`  // packages, unpacked, that were installed together
	Bytes int64 `json:"bytes"`
}

// Cached returns what the cache in the directory of a store holds.
func Cached(dir string) (CacheUse, error) {
	return cache{dir: filepath.Join(dir, "cache"), max: 1 << 62}.trim()
}

// ClearCache empties the cache in the directory of a store, and returns what it held. Installs that run are not disturbed.
func ClearCache(dir string) (CacheUse, error) {
	held, err := Cached(dir)
	if err == nil {
		_, err = cache{dir: filepath.Join(dir, "cache")}.trim()
	}
	return held, err
}

// trim removes entries, those first that were not used for the longest time, until the others have at most max bytes together. It returns
// what stays.
func (c cache) trim() (use CacheUse, err error) {
	type entry struct {
		name string
		size int64
		used time.Time
	}
	list, err := os.ReadDir(c.dir)
	if errors.Is(err, fs.ErrNotExist) { // nothing was ever installed
		err = nil
	}
	if err != nil {
		return use, err
	}
	var all []entry
	for _, e := range list {
		info, err := e.Info()
		if err != nil {
			continue // another process has removed it
		}
		size := info.Size()
		if e.IsDir() {
			size, _ = strconv.ParseInt(e.Name()[strings.LastIndexByte(e.Name(), '-')+1:], 10, 64)
		}
		if strings.HasPrefix(e.Name(), filePrefix) || strings.HasPrefix(e.Name(), setPrefix) {
			all = append(all, entry{e.Name(), size, info.ModTime()})
		}
	}
	slices.SortFunc(all, func(a, b entry) int { return b.used.Compare(a.used) })
	for _, e := range all {
		if use.Bytes+e.size > c.max || c.max == 0 {
			err = cmp.Or(err, os.RemoveAll(c.join(e.name)))
			continue
		}
		use.Bytes += e.size
		if strings.HasPrefix(e.name, filePrefix) {
			use.Files++
		} else {
			use.Sets++
		}
	}
	return use, err
}

// hasher returns what computes a hash in the spelling of [Package], nil for those that the cache does not know.
func hasher(spelling string) hash.Hash {
	switch {
	case strings.HasPrefix(spelling, "sha256:"):
		return sha256.New()
	case strings.HasPrefix(spelling, "sha512-"):
		return sha512.New()
	}
	return nil
}

// spelled returns a hash of hasher's in its spelling.
func spelled(h hash.Hash) string {
	if h.Size() == sha256.Size {
		return "sha256:" + hex.EncodeToString(h.Sum(nil))
	}
	return "sha512-" + base64.StdEncoding.EncodeToString(h.Sum(nil))
}
