package wiring

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"sync"

	"github.com/sandboxmcp/sandboxmcp/audit"
	"github.com/sandboxmcp/sandboxmcp/cli/config"
	"github.com/sandboxmcp/sandboxmcp/cli/exit"
	"github.com/sandboxmcp/sandboxmcp/cli/version"
	"github.com/sandboxmcp/sandboxmcp/pipeline/approval"
	"github.com/sandboxmcp/sandboxmcp/pipeline/approval/notify"
	"github.com/sandboxmcp/sandboxmcp/pipeline/event"
	"github.com/sandboxmcp/sandboxmcp/pipeline/event/webhook"
	"github.com/sandboxmcp/sandboxmcp/vault"
)

// sink exports events until it is closed.
type sink interface{ Close() }

// StartSinks starts the configured exporters of events. An invalid configuration is an error: a receiver must not take
// a typing error for silence.
func (p *Parts) StartSinks(cfg config.Config, log *slog.Logger) error {
	if e := cfg.Events; e.Webhook != "" {
		w, err := webhook.Start(webhook.Config{URL: e.Webhook, Kinds: e.WebhookKinds, Secret: p.secret(cfg, e.WebhookSecret, "webhook"),
			Bus: p.bus, Log: log, Version: version.Current().Version})
		if err != nil {
			return exit.Usage(seeConfigHint, "events.webhook: %v", err)
		}
		p.sinks = append(p.sinks, w)
	}
	return nil
}

// secret returns a function that reads a secret of the vault, NAMESPACE/KEY, for a use by the server itself, such as
// the webhook's signature; it is nil for "". A secret that is bound to hosts works as well: no program gets it. The
// first use is recorded in the log beforehand. The function is safe for concurrent use.
func (p *Parts) secret(cfg config.Config, name, use string) func() ([]byte, error) {
	namespace, key, named := strings.Cut(name, "/")
	if !named {
		return nil
	}
	secrets, logged := OpenVault(cfg), false
	var mu sync.Mutex
	return func() ([]byte, error) {
		mu.Lock()
		defer mu.Unlock()
		lease, err := secrets.Lease(context.Background(), namespace, []string{key})
		if err != nil {
			return nil, err
		}
		defer lease.Close()
		if !logged {
			if err := p.secretUsed(namespace, key, use); err != nil {
				return nil, err
			}
			logged = true
		}
		for _, b := range lease.Bound() {
			return []byte(b.Value()), nil
		}
		for _, kv := range lease.Env() {
			_, value, _ := strings.Cut(kv, "=")
			return []byte(value), nil
		}
		return nil, fmt.Errorf("there is no secret %s in the namespace %s", key, namespace)
	}
}

// secretUsed records and publishes that a part of the server uses a secret from now on.
func (p *Parts) secretUsed(namespace, key, use string) error {
	data := map[string]any{"secrets": []string{key}, "for": use}
	_, err := p.Log.Append(context.Background(), audit.Entry{Kind: event.VaultAccessed, Namespace: namespace, Data: data})
	if err == nil {
		p.bus.Publish(event.Event{Name: event.VaultAccessed, Namespace: namespace, Data: data})
	}
	return err
}

// desktopNotifier returns a function that shows a server's questions on its user's desktop, or nil without a desktop. A single
// run asks on its terminal instead.
func desktopNotifier(why Purpose) func(approval.Question) {
	program, err := exec.LookPath("notify-send")
	if err != nil || !why.Serve {
		return nil
	}
	return notify.Send(program, vault.WithoutSecrets(os.Environ()))
}
