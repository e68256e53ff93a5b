package cli

import (
	"os"

	"github.com/sandboxmcp/sandboxmcp/cli/config"
	"github.com/sandboxmcp/sandboxmcp/pipeline/approval"
	"github.com/sandboxmcp/sandboxmcp/pipeline/approval/notify"
)

// desktop returns what shows a server's questions on its user's desktop, or nil if nothing does. Who runs a single
// script is asked where they typed it.
func (p *parts) desktop(cfg config.Config, why purpose) func(approval.Question, <-chan struct{}) {
	if !cfg.Approvals.Notify || !why.serve {
		return nil
	}
	address := notify.Address(os.Getenv)
	if address == "" {
		return nil
	}
	p.notifier = notify.New(notify.Config{Address: address, Log: why.log})
	return p.notifier.Watch
}
