//go:build !unix

package client

import (
	"errors"
	"os/exec"
)

func detach(*exec.Cmd) error {
	return errors.New("background servers need Unix: use sandboxmcp serve --listen")
}
