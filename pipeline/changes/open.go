package changes

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"time"
)

// Config of a Store.
type Config struct {
	Dir      string        // where the sets are, made where it is missing
	MaxBytes int64         // of all contents; the oldest sets are dropped first. 0 is DefaultMaxBytes
	MaxAge   time.Duration // after which a set is removed; 0 is DefaultMaxAge
}

// The defaults of Config.
const (
	DefaultMaxBytes = 10 << 30
	DefaultMaxAge   = 90 * 24 * time.Hour
)

// Store keeps change sets. Several processes may use one directory at once.
type Store struct {
	c               Config
	reach           func(point string) error // of tests, as of a tree
	plain, modeless bool
}

// Open opens a store, and finishes what a kill interrupted. There is nothing to close.
func Open(c Config) (*Store, error) {
	c.MaxBytes, c.MaxAge = cmp.Or(c.MaxBytes, DefaultMaxBytes), cmp.Or(c.MaxAge, DefaultMaxAge)
	if err := os.MkdirAll(c.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("open the change sets: %w", err)
	}
	s := &Store{c: c}
	_ = s.Recover(context.Background()) // what fails stays as it is, and its set says so
	return s, nil
}
