package audit

import (
	"context"
	"database/sql"
	"maps"
	"slices"
)

// inspect compares the tables, indexes and triggers with what they were made as.
func inspect(ctx context.Context, q querier) (*Bad, error) {
	want, err := pristine(ctx)
	if err != nil {
		return nil, err
	}
	got, err := objects(ctx, q)
	if err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if sql, ok := got[name]; !ok {
			return &Bad{0, "the " + name + " was removed"}, nil
		} else if sql != want[name] {
			return &Bad{0, "the " + name + " was changed"}, nil
		}
		delete(got, name)
	}
	for _, name := range slices.Sorted(maps.Keys(got)) {
		return &Bad{0, "the " + name + " was added"}, nil
	}
	return nil, nil
}

// integrity lets SQLite check the file: that no index hides rows, among much else.
func integrity(ctx context.Context, q querier) (*Bad, error) {
	var found string
	if err := q.QueryRowContext(ctx, "PRAGMA integrity_check(1)").Scan(&found); err != nil {
		return nil, err
	}
	if found != "ok" {
		return &Bad{0, "the file is damaged: " + found}, nil
	}
	return nil, nil
}

// pristine is what objects returns for a new log.
func pristine(ctx context.Context) (map[string]string, error) {
	db, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		return nil, err
	}
	defer db.Close()
	if _, err := db.ExecContext(ctx, schema+schema2); err != nil {
		return nil, err
	}
	return objects(ctx, db)
}

// objects returns the definitions of all that the database consists of, but for what ANALYZE leaves.
func objects(ctx context.Context, q querier) (map[string]string, error) {
	rows, err := q.QueryContext(ctx, "SELECT type || ' ' || name, coalesce(sql, '') FROM sqlite_schema WHERE name NOT IN ('sqlite_stat1', 'sqlite_stat4')")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	m := map[string]string{}
	for rows.Next() {
		var name, sql string
		if err := rows.Scan(&name, &sql); err != nil {
			return nil, err
		}
		m[name] = sql
	}
	return m, rows.Err()
}
