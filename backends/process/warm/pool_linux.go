package warm

import (
	"sync"

	"github.com/sandboxmcp/sandboxmcp/backends/pool"
	"github.com/sandboxmcp/sandboxmcp/backends/process"
	"github.com/sandboxmcp/sandboxmcp/backends/process/templates"
)

// Backend is package process's with processes that are started before a request needs them. It implements
// [backends.Backend].
type Backend struct {
	*process.Backend
	active    bool                              // otherwise each sandbox is made on request
	pooled    bool                              // idle sandboxes are permitted
	spares    Spares[*process.Init]             // by rootKey
	templates *templates.Set[*process.Template] // by rootKey
	zygotes   *templates.Set[*process.Template] // by scriptKind
	pool      *pool.Pool[poolKey, *sandbox]
	closing   sync.Once

	compiling sync.Mutex
	compiled  map[string][]byte // bytecode of idle interpreters' start-up code, by interpreter
}
