package changes

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"time"
)

// Config configures a Store.
type Config struct {
	Dir      string        // of the sets; created if missing
	MaxBytes int64         // of all contents; the oldest sets are removed first. 0 is DefaultMaxBytes
	MaxAge   time.Duration // older sets are removed; 0 is DefaultMaxAge
}

// The defaults of Config.
const (
	DefaultMaxBytes = 10 << 30
	DefaultMaxAge   = 90 * 24 * time.Hour
)

// Store keeps change sets. Several processes may use one directory at once.
type Store struct {
	c               Config
	reach           func(point string) error // a hook of tests, as in tree
	plain, modeless bool
}

// Open opens a store, and completes or reverses the changes that a kill interrupted. A Store needs no Close.
func Open(c Config) (*Store, error) {
	c.MaxBytes, c.MaxAge = cmp.Or(c.MaxBytes, DefaultMaxBytes), cmp.Or(c.MaxAge, DefaultMaxAge)
	if err := os.MkdirAll(c.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("open the change sets: %w", err)
	}
	s := &Store{c: c}
	_ = s.Recover(context.Background()) // a set that can't be recovered stays as it is, and its status says so
	return s, nil
}
