//go:build linux && !amd64

package process

import "errors"

// canRewrite reports whether an idle interpreter's arguments and variables can be changed from outside.
const canRewrite = false

// tracee is the stopped main thread of an idle interpreter. Only the thread that has stopped it may use it
// (runtime.LockOSThread), and when that ends, the kernel detaches.
type tracee struct{ pid int }

// seize stops a thread that waits in the system call nr.
func seize(int, uint64) (*tracee, error) {
	return nil, errors.New("this processor architecture is not known")
}

func (*tracee) call(uint64, ...uint64) (uint64, error) { return 0, errors.ErrUnsupported }

// release lets the thread restart the call in which it was stopped.
func (*tracee) release() error { return errors.ErrUnsupported }
