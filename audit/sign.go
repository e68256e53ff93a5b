package audit

import (
	"context"
	"crypto/ed25519"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/sandboxmcp/sandboxmcp/audit/checkpoint"
	"github.com/sandboxmcp/sandboxmcp/audit/merkle"
	"github.com/sandboxmcp/sandboxmcp/audit/statefile"
)

// signer makes the checkpoints of a Log. Only the log's writer goroutine uses it.
type signer struct {
	Signing
	writer // a separate connection, whose commits don't wait for the disk

	origin       string
	trusted      checkpoint.Keyring // keys whose checkpoints are trusted
	tree         merkle.Tree        // of the rows read so far
	nodes        []merkle.Node      // of tree, not stored yet
	prepared     bool               // preparing the first checkpoint was tried
	lastAdoption time.Time          // last check for unsigned rows of other Logs
	noCheckpoint bool               // rows of others have no checkpoint, or there is none at all: sign at once
	hasUnsigned  bool               // there are unsigned rows
	since        time.Time          // time of the first unsigned row
	err          error              // of the last try
	failedAt     time.Time          // time of err
}

// checkpoint returns a note that covers all rows, and creates it if necessary.
func (s *signer) checkpoint(l *logFile) ([]byte, error) {
	ctx := context.Background()
	if err := s.connect(ctx, l); err != nil {
		return nil, err
	}
	if l.full.Load() {
		if _, err := s.conn.ExecContext(ctx, "PRAGMA wal_autocheckpoint = 0"); err != nil {
			return nil, err
		}
	}
	head, err := lastSeq(ctx, s.conn)
	if err != nil {
		return nil, err
	}
	if head == 0 {
		return nil, errNoRows
	}
	newest, err := s.catchUp(ctx, l, head)
	if err != nil || newest != nil {
		return newest, err
	}
	c := checkpoint.Head{Origin: s.origin, Size: s.tree.Size, Root: s.tree.Root()}
	key, err := s.key(ctx)
	if err != nil {
		return nil, err
	}
	note, err := c.Sign(key)
	if err == nil {
		err = l.disk.flushAll(l)
	}
	if err != nil {
		return nil, err
	}
	return note, s.storeCheckpoint(ctx, l, c, note)
}

// prepareFirst prepares the first checkpoint while the process is idle; that checkpoint is due at once if a killed
// process left unsigned rows. It ignores errors: the checkpoint tries again.
func (s *signer) prepareFirst(l *logFile) {
	if s.prepared || !s.hasUnsigned || s.err != nil {
		return
	}
	s.prepared = true
	ctx := context.Background()
	if err := s.connect(ctx, l); err != nil {
		return
	}
	ours := l.unsigned.Load()
	c, _, err := newestCheckpoint(ctx, s.conn)
	if head, headErr := lastSeq(ctx, s.conn); err == nil && headErr == nil && head > 0 {
		_, _ = s.catchUp(ctx, l, head)
		s.noCheckpoint = s.noCheckpoint || c.Size+ours < head
	}
}

// connect opens the connection, without synchronous commits: the covered rows are on the disk already, and a checkpoint
// that is lost in a power failure is made again.
func (s *signer) connect(ctx context.Context, l *logFile) error {
	if s.conn != nil {
		return nil
	}
	if err := s.open(ctx, l.db); err != nil {
		return err
	}
	_, err := s.conn.ExecContext(ctx, "PRAGMA synchronous = NORMAL; PRAGMA wal_autocheckpoint = 1000")
	return err
}

// catchUp extends the tree to row head, and checks that it continues the last checkpoint. It returns the newest
// checkpoint if that covers all rows.
func (s *signer) catchUp(ctx context.Context, l *logFile, head int64) (newest []byte, err error) {
	signed, newest, err := newestCheckpoint(ctx, s.conn)
	if err != nil {
		return nil, err
	}
	s.noCheckpoint = newest == nil
	if signed.Size > head { // signed since head was read, or cut off
		if head, err = lastSeq(ctx, s.conn); err != nil {
			return nil, err
		}
		if signed.Size > head {
			return nil, fmt.Errorf("a checkpoint covers %d rows, and the log has %d: see sandboxmcp audit verify", signed.Size, head)
		}
	}
	if s.origin == "" {
		origin, err := readOrigin(ctx, s.conn)
		if err == nil {
			err = s.checkLatestFile(ctx, l, origin, head, newest)
		}
		if err != nil {
			return nil, err
		}
		s.origin = origin
	}
	if signed.Size > s.tree.Size {
		if err := s.continueFrom(ctx, signed, newest); err != nil {
			return nil, err
		}
	}
	if signed.Size >= head {
		return newest, nil
	}
	if err := s.addRowsToTree(ctx, head); err != nil {
		return nil, fmt.Errorf("%w: see sandboxmcp audit verify", err)
	}
	return nil, nil
}

// continueFrom continues from a newer checkpoint. If a known key signed it, the stored tree is trusted without reading
// the rows; otherwise it must match the rows.
func (s *signer) continueFrom(ctx context.Context, signed checkpoint.Head, note []byte) error {
	err := s.checkKnownKey(ctx, note)
	if errors.Is(err, checkpoint.ErrNoKey) {
		err = s.addRowsToTree(ctx, signed.Size)
	} else if err == nil {
		s.nodes = nil
		s.tree, err = merkle.Reader{Ctx: ctx, Newest: s.conn}.Tree(signed.Size)
	}
	if err != nil {
		return fmt.Errorf("checkpoint at row %d: %w: see sandboxmcp audit verify", signed.Size, err)
	}
	if s.tree.Root() != signed.Root {
		s.tree, s.nodes = merkle.Tree{}, nil
		return fmt.Errorf("rows 1-%d do not match the checkpoint there: see sandboxmcp audit verify", signed.Size)
	}
	return nil
}

// checkKnownKey checks a note against the trusted keys, and reads the keys again if that fails.
func (s *signer) checkKnownKey(ctx context.Context, note []byte) error {
	if s.trusted.Origin != "" { // a keyring without keys would accept any signature
		if c, err := s.trusted.Open(note); err == nil && s.isKeyValidFor(ctx, c) {
			return nil
		}
	}
	key, err := s.key(ctx)
	if err != nil {
		return err
	}
	keys := []checkpoint.Key{{PublicKey: key.Public().(ed25519.PublicKey)}}
	if s.KnownKeys != nil {
		keys = append(keys, s.KnownKeys()...)
	}
	s.trusted = checkpoint.NewKeyring(s.origin, keys)
	c, err := s.trusted.Open(note)
	if err == nil && !s.isKeyValidFor(ctx, c) {
		err = checkpoint.ErrNoKey
	}
	return err
}

// isKeyValidFor reports whether the key of a checkpoint was valid at the time of the last covered row.
func (s *signer) isKeyValidFor(ctx context.Context, c checkpoint.Head) bool {
	if c.KeyEnd.IsZero() {
		return true
	}
	nanos, err := statefile.One[int64](ctx, s.conn, "SELECT time FROM audit WHERE seq = ?", c.Size)
	return err == nil && c.CheckKeyAt(time.Unix(0, nanos)) == nil
}

// addRowsToTree adds the rows up to number last to the tree.
func (s *signer) addRowsToTree(ctx context.Context, last int64) error {
	err := merkle.EachHash(ctx, s.conn, s.tree.Size+1, last, func(hash []byte) error {
		return s.tree.Append(merkle.Leaf(hash), func(n merkle.Node) error {
			s.nodes = append(s.nodes, n)
			return nil
		})
	})
	if err == nil && s.tree.Size < last {
		err = fmt.Errorf("row %d is missing: it %w", s.tree.Size+1, merkle.ErrAbsent)
	}
	return err
}

// storeCheckpoint writes a checkpoint and its nodes to the log and to the file beside it, unless another process has.
func (s *signer) storeCheckpoint(ctx context.Context, l *logFile, c checkpoint.Head, note []byte) error {
	if err := s.lockDatabase(l); err != nil {
		return err
	}
	signed, err := statefile.One[int64](ctx, s.conn, "SELECT coalesce(max(size), 0) FROM checkpoints")
	if err == nil {
		err = putNodes(ctx, s.conn, s.nodes)
	}
	if err == nil {
		err = putCheckpoint(ctx, s.conn, c.Size, note)
	}
	// Under the lock, so that an older note never replaces a newer one. If rows were signed meanwhile, the log may be in
	// its next file, which has another lock.
	if err == nil && c.Size > signed {
		err = writeLatest(l.latestPath(), note)
	}
	if err = s.commitOrRollBack(err); err == nil {
		s.nodes = nil
	}
	return err
}

func putNodes(ctx context.Context, conn *sql.Conn, nodes []merkle.Node) error {
	for _, n := range nodes {
		_, err := conn.ExecContext(ctx, "INSERT OR IGNORE INTO tree (level, position, hash) VALUES (?, ?, ?)", n.Level, n.Position, n.Hash[:])
		if err != nil {
			return err
		}
	}
	return nil
}

// putCheckpoint stores a note, unless there is one for that many rows.
func putCheckpoint(ctx context.Context, conn *sql.Conn, size int64, note []byte) error {
	_, err := conn.ExecContext(ctx, "INSERT INTO checkpoints (size, note) SELECT ?1, ?2 WHERE NOT EXISTS (SELECT 1 FROM checkpoints "+
		"WHERE size = ?1)", size, string(note))
	return err
}

func lastSeq(ctx context.Context, q statefile.Querier) (seq int64, err error) {
	return statefile.One[int64](ctx, q, "SELECT coalesce(max(seq), 0) FROM audit")
}

// readOrigin returns the name of the log, from its first row or, if that is missing, from its checkpoints.
func readOrigin(ctx context.Context, q statefile.Querier) (string, error) {
	first, err := statefile.One[[]byte](ctx, q, "SELECT hash FROM audit WHERE seq = 1")
	switch {
	case err == nil && len(first) == hashSize:
		return checkpoint.LogName(first), nil
	case err != nil && !errors.Is(err, sql.ErrNoRows):
		return "", err
	}
	note, err := statefile.One[[]byte](ctx, q, "SELECT note FROM checkpoints WHERE size > 0 ORDER BY size LIMIT 1")
	if errors.Is(err, sql.ErrNoRows) {
		err = errors.New("row 1 is missing: see sandboxmcp audit verify")
	}
	if err != nil {
		return "", err
	}
	c, err := checkpoint.Open(note, nil)
	return c.Origin, err
}

// newestCheckpoint reads the newest checkpoint without checking its signer; note is nil if there is none.
func newestCheckpoint(ctx context.Context, q statefile.Querier) (c checkpoint.Head, note []byte, err error) {
	var size int64
	err = q.QueryRowContext(ctx, "SELECT size, note FROM checkpoints ORDER BY size DESC LIMIT 1").Scan(&size, &note)
	if errors.Is(err, sql.ErrNoRows) {
		return c, nil, nil
	}
	if err == nil {
		c, err = checkpoint.Open(note, nil)
	}
	if err == nil && c.Size != size {
		err = checkpoint.ErrNotCheckpoint
	}
	if err != nil {
		err = fmt.Errorf("checkpoint at row %d: %w: see sandboxmcp audit verify", size, err)
	}
	return c, note, err
}
