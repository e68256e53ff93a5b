//go:build !unix

package client

import (
	"errors"
	"os/exec"
)

func detach(*exec.Cmd) error {
	return errors.New("servers in the background are for Unix: use sandboxmcp serve --listen")
}
