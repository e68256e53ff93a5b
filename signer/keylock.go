package signer

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// lock waits until no other process changes the folder, which it makes. The lock goes with its
// process, however that ends.
func (k *Keys) lock(ctx context.Context) (unlock func(), err error) {
	if err := os.MkdirAll(k.dir, 0o700); err != nil {
		return nil, err
	}
	if err := k.check(); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(k.dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		locked, err := tryLock(f)
		if locked {
			return func() { f.Close() }, nil
		}
		if err != nil {
			f.Close()
			return nil, fmt.Errorf("lock %q: %w", f.Name(), err)
		}
		select {
		case <-ctx.Done():
			f.Close()
			return nil, fmt.Errorf("another process changes the keys in %q: %w", k.dir, context.Cause(ctx))
		case <-time.After(5 * time.Millisecond):
		}
	}
}
