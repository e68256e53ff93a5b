package packages

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sandboxmcp/sandboxmcp/egress"
)

// cache holds packages that installs have unpacked, for installs of all namespaces and sessions. Its directory contains
//
//	set-ORDER-NAME-BYTES   a layer without packages: the result of a package manager for an order's files
//
// Only Install writes there, and no sandbox sees it. The name of an entry says for which registries and logins it is,
// and contains no password: before an install uses an entry, the registry has confirmed, with the present credentials,
// that these are the packages. An entry is renamed into place when it is whole, and hashed whenever it is used.
type cache struct {
	dir string
	max int64  // bytes; 0 disables the cache
	of  string // hash of the registries and logins
}

const setPrefix = "set-"

// name returns the name of an entry with these parts. Different parts have different names.
func (c cache) name(parts ...string) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q", append([]string{c.of}, parts...)))
	return hex.EncodeToString(sum[:16])
}

// obtain puts the files of an order into next. For a repeated order, the package manager only resolves the packages,
// and the cache may have their files. Results of install scripts are not cached, because scripts see more than the
// files of one package, nor those of directories of this host, because the files that the package manager reads there
// are unknown.
func (j *job) obtain(ctx context.Context, base, next layer) (Receipt, harvest, error) {
	cache := j.cache
	if cache.max == 0 || j.store.cfg.Scripts || len(j.set.Mounts) > 0 {
		return j.run(ctx, base, next, false)
	}
	order := cache.name(append(slices.Sorted(slices.Values(j.order.Packages)), j.kind, base.hash())...)
	key := func(h harvest) string {
		list, _ := json.Marshal(h.Brought)
		return cache.name(string(list), h.Lock)
	}
	var asked []egress.Record
	if len(cache.sets(order, "*")) > 0 {
		receipt, h, err := j.run(ctx, base, next, true)
		if err != nil || receipt.ExitCode != 0 {
			return receipt, h, err
		}
		if h.files, err = cache.copySet(order, key(h), next); err != nil {
			return receipt, h, err
		}
		if receipt.Cached = h.files != nil; receipt.Cached {
			receipt.Stdout += "sandboxmcp: the same was installed before, and is taken from the cache\n"
			return receipt, h, nil
		}
		asked = receipt.Hosts
	}
	receipt, h, err := j.run(ctx, base, next, false)
	receipt.Hosts = append(asked, receipt.Hosts...)
	if err == nil && receipt.ExitCode == 0 && h.pure {
		cache.addSet(order, key(h), next, h.files)
	}
	return receipt, h, err
}

// sets returns the directories of an order's sets; key "*" matches all.
func (c cache) sets(order, key string) []string {
	all, _ := filepath.Glob(filepath.Join(c.dir, setPrefix+order+"-"+key+"-*"))
	return all
}

// copySet copies the files of a set into a new layer, and returns them, nil if the set is not cached. It removes
// changed or incomplete sets.
func (c cache) copySet(order, key string, into layer) (map[string]file, error) {
	for _, dir := range c.sets(order, key) {
		set, err := load(dir)
		if err == nil {
			err = set.verify()
		}
		if err == nil {
			os.Chtimes(dir, time.Time{}, time.Now()) // mark it as used
			return set.Files, into.link(set, set.Files)
		}
		os.RemoveAll(dir)
	}
	return nil, nil
}

// addSet caches the files of a new layer.
func (c cache) addSet(order, key string, from layer, files map[string]file) {
	set := layer{dir: filepath.Join(from.dir, "set"), Files: files}
	defer os.RemoveAll(set.dir)
	if os.MkdirAll(c.dir, 0o700) == nil && os.MkdirAll(set.content(), 0o700) == nil && set.link(from, files) == nil && set.save() == nil {
		os.Rename(set.dir, filepath.Join(c.dir, fmt.Sprintf("%s%s-%s-%d", setPrefix, order, key, set.bytes())))
	}
}

// trim removes the least recently used entries, until the rest has at most max bytes.
func (c cache) trim() {
	list, _ := os.ReadDir(c.dir)
	used := map[string]time.Time{}
	for _, e := range list {
		if info, err := e.Info(); err == nil { // else another process has removed it
			used[e.Name()] = info.ModTime()
		}
	}
	left := c.max
	for _, name := range slices.SortedFunc(maps.Keys(used), func(a, b string) int { return used[b].Compare(used[a]) }) {
		size, _ := strconv.ParseInt(name[strings.LastIndexByte(name, '-')+1:], 10, 64)
		if size > left {
			os.RemoveAll(filepath.Join(c.dir, name))
			continue
		}
		left -= size
	}
}
