package audit

import (
	"context"
	"database/sql"
	"maps"
	"slices"

	"github.com/sandboxmcp/sandboxmcp/audit/sqlrows"
)

// inspect compares the tables, indexes and triggers with those of a new log.
func inspect(ctx context.Context, q sqlrows.Querier) (*Bad, error) {
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
func integrity(ctx context.Context, q sqlrows.Querier) (*Bad, error) {
	found, err := sqlrows.One[string](ctx, q, "PRAGMA integrity_check(1)")
	if err != nil || found == "ok" {
		return nil, err
	}
	return &Bad{0, "the file is damaged: " + found}, nil
}

// pristine returns the objects of a new log.
func pristine(ctx context.Context) (map[string]string, error) {
	db, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		return nil, err
	}
	defer db.Close()
	if _, err := db.ExecContext(ctx, schema); err != nil {
		return nil, err
	}
	return objects(ctx, db)
}

// analysed are the tables that ANALYZE leaves, which hold no rows of ours. Other objects of these names are not
// SQLite's.
var analysed = map[string]string{
	"table sqlite_stat1": "CREATE TABLE sqlite_stat1(tbl,idx,stat)",
	"table sqlite_stat4": "CREATE TABLE sqlite_stat4(tbl,idx,neq,nlt,ndlt,sample)",
}

// objects returns the definitions of all that the database consists of, but for what ANALYZE leaves.
func objects(ctx context.Context, q sqlrows.Querier) (map[string]string, error) {
	m := map[string]string{}
	var name, sql string
	for err := range sqlrows.Each(ctx, q, []any{&name, &sql}, "SELECT type || ' ' || name, coalesce(sql, '') FROM sqlite_schema") {
		if err != nil {
			return nil, err
		}
		if analysed[name] != sql || sql == "" {
			m[name] = sql
		}
	}
	return m, nil
}
