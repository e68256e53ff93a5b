// Package warm keeps ready what takes long to make: templates, which are processes that spawn others, and spares, spawned
// before their use is known. It decides on their numbers and lifetimes, and on the consequences of failures, and knows
// nothing of how they are made.
package warm

import "errors"

// ErrClosed is returned after Close.
var ErrClosed = errors.New("the backend is closed")
