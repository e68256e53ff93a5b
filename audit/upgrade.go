package audit

import "context"

func formatVersion(ctx context.Context, q querier) (version int64, err error) {
	err = q.QueryRowContext(ctx, "PRAGMA user_version").Scan(&version)
	return version, err
}

// upgrade makes a log of version 1 one of version 2, in one transaction: whoever is killed in it has
// done nothing, and of several that come at once the first does it. A program of version 1 that has
// the log open may go on appending: for its table nothing changes.
func (l *Log) upgrade(ctx context.Context) error {
	var w writer
	defer w.close()
	if err := w.begin(l); err != nil {
		return err
	}
	version, err := formatVersion(ctx, w.conn)
	if err == nil && version == 1 {
		_, err = w.conn.ExecContext(ctx, schema2)
	}
	return w.end(err)
}
