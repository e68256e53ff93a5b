// Package warm keeps ready what takes long to make: templates, which are processes that spawn others; spares, made before
// it is known what for; and a pool of what stands idle until somebody asks for just that. It decides how many there are, for
// how long, and what a failure means, and knows nothing of how they are made.
package warm

import "errors"

// ErrClosed is for who asks for a template after the end.
var ErrClosed = errors.New("the backend is closed")
