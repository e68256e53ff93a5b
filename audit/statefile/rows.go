package statefile

import (
	"context"
	"database/sql"
	"iter"
)

// Querier is a database, a connection or a transaction to read from.
type Querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// One returns the only column of a query's first row, or sql.ErrNoRows.
func One[T any](ctx context.Context, q Querier, query string, args ...any) (v T, err error) {
	err = q.QueryRowContext(ctx, query, args...).Scan(&v)
	return v, err
}

// Each scans the rows of a query into dest one by one. It yields nil for each row, and then an error if reading fails.
func Each(ctx context.Context, q Querier, dest []any, query string, args ...any) iter.Seq[error] {
	return func(yield func(error) bool) {
		rows, err := q.QueryContext(ctx, query, args...)
		if err != nil {
			yield(err)
			return
		}
		defer rows.Close()
		for rows.Next() {
			if err := rows.Scan(dest...); !yield(err) || err != nil {
				return
			}
		}
		if err := rows.Err(); err != nil {
			yield(err)
		}
	}
}
