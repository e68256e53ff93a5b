package vault

import (
	"context"
	"database/sql"
	"errors"

	"github.com/sandboxmcp/sandboxmcp/audit/statefile"
)

// row is a secret in the database.
type row struct {
	namespace, key string
	identity       string
	sealed         []byte
}

// scanTargets returns the pointers for scanning the selected columns.
func (r *row) scanTargets() []any { return []any{&r.namespace, &r.key, &r.identity, &r.sealed} }

// storeName returns the name of the store that has the value.
func (r row) storeName() string {
	if r.identity == inKeyring {
		return InKeyring
	}
	return InSealed
}

const selectColumns = "SELECT namespace, key, identity, sealed FROM secret"

// selectRow returns a secret's row, or ErrNotFound.
func selectRow(ctx context.Context, q statefile.Querier, namespace, key string) (row, error) {
	var r row
	err := q.QueryRowContext(ctx, selectColumns+" WHERE namespace = ? AND key = ?", namespace, key).Scan(r.scanTargets()...)
	if errors.Is(err, sql.ErrNoRows) {
		return row{}, ErrNotFound
	}
	return r, err
}

// selectRows returns the rows of a namespace, or all rows if it is "".
func selectRows(ctx context.Context, q statefile.Querier, namespace string) (found []row, err error) {
	var r row
	for err := range statefile.Each(ctx, q, r.scanTargets(), selectColumns+" WHERE ?1 IN ('', namespace) ORDER BY namespace, key", namespace) {
		if err != nil {
			return nil, err
		}
		found = append(found, r)
	}
	return found, nil
}

// countSealed returns the number of sealed secrets, and of those that are sealed for another key than identity.
func countSealed(ctx context.Context, q statefile.Querier, identity string) (total, others int, err error) {
	err = q.QueryRowContext(ctx, "SELECT count(*), count(*) FILTER (WHERE identity <> ?1) FROM secret WHERE identity <> ?2", identity,
		inKeyring).Scan(&total, &others)
	return total, others, err
}

// upsertRow writes a row, replacing one of the same names.
func upsertRow(ctx context.Context, tx *sql.Tx, r row) error {
	_, err := tx.ExecContext(ctx, "INSERT OR REPLACE INTO secret (namespace, key, identity, sealed) VALUES (?, ?, ?, ?)",
		r.namespace, r.key, r.identity, r.sealed)
	return err
}
