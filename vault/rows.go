package vault

import (
	"context"
	"database/sql"
	"errors"
)

// row is a secret in the database.
type row struct {
	namespace, key string
	identity       string
	sealed         []byte
}

// store returns the store that has the value.
func (r row) store() string {
	if r.identity == inKeyring {
		return InKeyring
	}
	return InSealed
}

// querier is a database or a transaction.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

const columns = "SELECT namespace, key, identity, sealed FROM secret"

// find returns a secret's row, or ErrNotFound.
func find(ctx context.Context, q querier, namespace, key string) (row, error) {
	r, err := scanRow(q.QueryRowContext(ctx, columns+" WHERE namespace = ? AND key = ?", namespace, key))
	if errors.Is(err, sql.ErrNoRows) {
		return row{}, ErrNotFound
	}
	return r, err
}

// list returns the rows of a namespace, of all if it is "".
func list(ctx context.Context, q querier, namespace string) (found []row, err error) {
	rows, err := q.QueryContext(ctx, columns+" WHERE ?1 IN ('', namespace) ORDER BY namespace, key", namespace)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		r, err := scanRow(rows)
		if err != nil {
			return nil, err
		}
		found = append(found, r)
	}
	return found, rows.Err()
}

func scanRow(from interface{ Scan(...any) error }) (r row, err error) {
	return r, from.Scan(&r.namespace, &r.key, &r.identity, &r.sealed)
}

// count returns the number of sealed secrets, and of those that are sealed for another key than identity.
func count(ctx context.Context, q querier, identity string) (total, others int, err error) {
	err = q.QueryRowContext(ctx, "SELECT count(*), count(*) FILTER (WHERE identity <> ?1) FROM secret WHERE identity <> ?2", identity, inKeyring).Scan(&total, &others)
	return total, others, err
}

// put writes a row, in place of another row of its names.
func put(ctx context.Context, tx *sql.Tx, r row) error {
	_, err := tx.ExecContext(ctx, "INSERT OR REPLACE INTO secret (namespace, key, identity, sealed) VALUES (?, ?, ?, ?)",
		r.namespace, r.key, r.identity, r.sealed)
	return err
}
