package cli

import (
	"context"
	"encoding/json"
	"os"
	"time"

	"github.com/sandboxmcp/sandboxmcp/audit"
	"github.com/sandboxmcp/sandboxmcp/cli/config"
	"github.com/sandboxmcp/sandboxmcp/pipeline/event"
)

// called is what a secret is called.
type called struct{ namespace, name string }

// lastUsed is when secrets were lent the last time, as far as the log goes back; of a namespace, or of all if it
// is "". Rows in sealed segments that are not here are beyond that. A log that is not there is not made.
func lastUsed(ctx context.Context, cfg config.Config, namespace string) (map[called]time.Time, error) {
	used := map[called]time.Time{}
	if _, err := os.Stat(cfg.SQLitePath); os.IsNotExist(err) {
		return used, nil
	}
	log, err := audit.Open(ctx, cfg.SQLitePath)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	for row, err := range log.Rows(ctx, audit.Filter{Namespace: namespace, Kinds: []string{event.VaultAccessed}, Sealed: true, Missing: func(audit.Segment) {}}) {
		if err != nil {
			return nil, err
		}
		for _, name := range leasedIn(row) {
			used[called{row.Namespace, name}] = row.Time
		}
	}
	return used, nil
}

// leasedIn are the names of the secrets that a row says were lent.
func leasedIn(row audit.Row) []string {
	var data struct{ Secrets []string }
	_ = json.Unmarshal(row.Data, &data) // what is not of this form says nothing
	return data.Secrets
}
