package statefile

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"iter"
	"time"
)

// Snapshot is a consistent view of a SQLite database for copying it. With a write-ahead log, writers continue; without
// one, they wait until Close.
type Snapshot struct {
	db    *sql.DB
	conn  *sql.Conn
	pages int64
	size  int64 // of a page
}

// OpenSnapshot opens a snapshot of the database at path.
func OpenSnapshot(ctx context.Context, path string, wait time.Duration) (*Snapshot, error) {
	db, err := sql.Open("sqlite", DataSource(path, wait))
	if err != nil {
		return nil, err
	}
	s := &Snapshot{db: db}
	if err := s.startTransaction(ctx); err != nil {
		s.Close()
		return nil, fmt.Errorf("read %q: %w", path, err)
	}
	return s, nil
}

// startTransaction starts the transaction, which lasts as long as the connection. The first read fixes its view.
func (s *Snapshot) startTransaction(ctx context.Context) (err error) {
	if s.conn, err = s.db.Conn(ctx); err != nil {
		return err
	}
	if _, err = s.conn.ExecContext(ctx, "BEGIN"); err != nil {
		return err
	}
	if err = s.conn.QueryRowContext(ctx, "PRAGMA page_size").Scan(&s.size); err != nil {
		return err
	}
	return s.conn.QueryRowContext(ctx, "SELECT count(*) FROM sqlite_dbpage").Scan(&s.pages)
}

// Size returns the number of bytes that Copy writes.
func (s *Snapshot) Size() int64 { return s.pages * s.size }

// Each is the function Each for the snapshot.
func (s *Snapshot) Each(ctx context.Context, dest []any, query string, args ...any) iter.Seq[error] {
	return Each(ctx, s.conn, dest, query, args...)
}

// Copy writes the database as a single file, page by page.
func (s *Snapshot) Copy(ctx context.Context, w io.Writer) error {
	var page sql.RawBytes
	for err := range s.Each(ctx, []any{&page}, "SELECT data FROM sqlite_dbpage") {
		if err == nil {
			_, err = w.Write(page)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Close ends the snapshot.
func (s *Snapshot) Close() error {
	if s.conn != nil {
		_, _ = s.conn.ExecContext(context.Background(), "ROLLBACK")
		s.conn.Close()
	}
	return s.db.Close()
}
