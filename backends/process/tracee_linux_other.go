//go:build linux && !amd64

package process

import "errors"

// canRewrite says whether an interpreter that waits can be given its arguments and variables from outside.
const canRewrite = false

// tracee is not written for this architecture: programs go cold.
type tracee struct{ pid int }

func seize(int, uint64) (*tracee, error) {
	return nil, errors.New("this processor architecture is not known")
}

func (*tracee) call(uint64, ...uint64) (uint64, error) { return 0, errors.ErrUnsupported }
func (*tracee) release() error                         { return errors.ErrUnsupported }
