package web

import (
	"slices"
	"sync"
	"time"

	"github.com/sandboxmcp/sandboxmcp/pipeline"
)

// Bounds of the page cache. A page that is read in pieces must stay the same.
const (
	pageAge    = 10 * time.Minute
	maxPages   = 64
	pagesBytes = 32 << 20
)

// pageKey identifies a requested page. Namespaces share none.
type pageKey struct{ namespace, url, format string }

// pageCache is a cache of pages, the newest last. The zero value is empty.
type pageCache struct {
	mu  sync.Mutex
	all []cachedPage
}

func openPages(*pipeline.Pipeline) *pageCache { return &pageCache{} }

type cachedPage struct {
	key pageKey
	fetchedPage
	at time.Time
}

func (s *pageCache) cachedPage(key pageKey) (fetchedPage, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tidy(time.Now())
	if i := slices.IndexFunc(s.all, func(one cachedPage) bool { return one.key == key }); i >= 0 {
		return s.all[i].fetchedPage, true
	}
	return fetchedPage{}, false
}

func (s *pageCache) addPage(key pageKey, k fetchedPage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = slices.DeleteFunc(s.all, func(one cachedPage) bool { return one.key == key })
	s.all = append(s.all, cachedPage{key, k, time.Now()})
	s.tidy(time.Now())
}

// tidy drops expired pages, and the oldest of too many.
func (s *pageCache) tidy(now time.Time) {
	size, from := 0, len(s.all)
	for from > 0 && len(s.all)-from < maxPages && now.Sub(s.all[from-1].at) < pageAge {
		if size += len(s.all[from-1].page.Text) + 1<<10; size > pagesBytes {
			break
		}
		from--
	}
	clear(s.all[:from]) // release them: the array stays
	s.all = s.all[from:]
}
