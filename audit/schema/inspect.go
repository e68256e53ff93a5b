package schema

import (
	"context"
	"database/sql"
	"maps"
	"slices"

	"github.com/sandboxmcp/sandboxmcp/audit/statefile"
)

// Compare compares the tables, indexes and triggers with those of a new log, and returns the first difference, or "".
func Compare(ctx context.Context, q statefile.Querier) (bad string, _ error) {
	want, err := Objects(ctx)
	if err != nil {
		return "", err
	}
	got, err := readObjects(ctx, q)
	if err != nil {
		return "", err
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if definition, ok := got[name]; !ok {
			return "the " + name + " was removed", nil
		} else if definition != want[name] {
			return "the " + name + " was changed", nil
		}
		delete(got, name)
	}
	for _, name := range slices.Sorted(maps.Keys(got)) {
		return "the " + name + " was added", nil
	}
	return "", nil
}

// CheckIntegrity runs SQLite's integrity check, which also finds rows that an index hides. It returns the fault, or "".
func CheckIntegrity(ctx context.Context, q statefile.Querier) (bad string, _ error) {
	found, err := statefile.One[string](ctx, q, "PRAGMA integrity_check(1)")
	if err != nil || found == "ok" {
		return "", err
	}
	return "the file is damaged: " + found, nil
}

// Objects returns the objects of a new log.
func Objects(ctx context.Context) (map[string]string, error) {
	db, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		return nil, err
	}
	defer db.Close()
	if _, err := db.ExecContext(ctx, Text); err != nil {
		return nil, err
	}
	return readObjects(ctx, db)
}

// analysed are the tables of ANALYZE. Other objects of these names are not SQLite's.
var analysed = map[string]string{
	"table sqlite_stat1": "CREATE TABLE sqlite_stat1(tbl,idx,stat)",
	"table sqlite_stat4": "CREATE TABLE sqlite_stat4(tbl,idx,neq,nlt,ndlt,sample)",
}

// readObjects returns the definitions of the database's objects, without the tables of ANALYZE.
func readObjects(ctx context.Context, q statefile.Querier) (map[string]string, error) {
	m := map[string]string{}
	var name, definition string
	for err := range statefile.Each(ctx, q, []any{&name, &definition}, "SELECT type || ' ' || name, coalesce(sql, '') FROM sqlite_schema") {
		if err != nil {
			return nil, err
		}
		if analysed[name] != definition || definition == "" {
			m[name] = definition
		}
	}
	return m, nil
}
