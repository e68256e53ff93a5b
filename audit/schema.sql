-- The audit log: one table into which rows can only be put at the end, each holding the hash of the one
-- before, receipts of runs, and what proves the log to somebody else, a Merkle tree over the rows' hashes
-- with signed checkpoints. The triggers stop mistakes. Whoever owns the file can drop them, but what is
-- changed then shows in the chain.
--
-- Verify compares a log with the text below, character by character from CREATE to the semicolon:
-- with any change there, user_version must rise, and Verify must know the older text.

PRAGMA journal_mode = WAL;
PRAGMA application_id = 0x73626d61; -- "sbma"
PRAGMA user_version = 2;

CREATE TABLE audit (
    seq       INTEGER PRIMARY KEY, -- 1, 2, 3 and so on, without gaps
    time      INTEGER NOT NULL,    -- nanoseconds since 1970, UTC
    kind      TEXT    NOT NULL,
    run       TEXT    NOT NULL,    -- "" where a row belongs to no run
    namespace TEXT    NOT NULL,
    data      TEXT    NOT NULL,    -- a JSON object; hashed byte for byte
    prev      BLOB    NOT NULL,    -- hash of the row before; 32 zero bytes in the first
    hash      BLOB    NOT NULL     -- SHA-256 of prev and all columns above, see encode.go
) STRICT;

CREATE INDEX audit_run ON audit (run);

CREATE TRIGGER audit_no_update BEFORE UPDATE ON audit BEGIN
    SELECT raise(ABORT, 'the audit log is append-only: rows cannot be changed');
END;

CREATE TRIGGER audit_no_delete BEFORE DELETE ON audit BEGIN
    SELECT raise(ABORT, 'the audit log is append-only: rows cannot be deleted');
END;

-- REPLACE deletes without firing delete triggers, so an insert must continue the chain.
CREATE TRIGGER audit_at_end BEFORE INSERT ON audit
WHEN NEW.seq IS NOT (SELECT coalesce(max(seq), 0) + 1 FROM audit)
BEGIN
    SELECT raise(ABORT, 'the audit log is append-only: a row can only be put at its end');
END;

CREATE INDEX audit_kind ON audit (kind); -- and seq, which is in each index

CREATE TABLE receipts (
    seq      INTEGER PRIMARY KEY, -- the row, whose data says the receipt's SHA-256
    envelope BLOB    NOT NULL
) STRICT;

CREATE TRIGGER receipts_no_update BEFORE UPDATE ON receipts BEGIN
    SELECT raise(ABORT, 'the audit log is append-only: receipts cannot be changed');
END;

CREATE TRIGGER receipts_no_delete BEFORE DELETE ON receipts BEGIN
    SELECT raise(ABORT, 'the audit log is append-only: receipts cannot be deleted');
END;

CREATE TRIGGER receipts_at_end BEFORE INSERT ON receipts
WHEN NEW.seq IS NOT (SELECT max(seq) FROM audit) OR EXISTS (SELECT 1 FROM receipts WHERE seq = NEW.seq)
BEGIN
    SELECT raise(ABORT, 'the audit log is append-only: a receipt comes with its row');
END;

CREATE TABLE checkpoints (
    size INTEGER PRIMARY KEY, -- how many rows it covers, from the first on
    note TEXT    NOT NULL     -- C2SP tlog-checkpoint, signed
) STRICT;

CREATE TRIGGER checkpoints_no_update BEFORE UPDATE ON checkpoints BEGIN
    SELECT raise(ABORT, 'the audit log is append-only: checkpoints cannot be changed');
END;

CREATE TRIGGER checkpoints_no_delete BEFORE DELETE ON checkpoints BEGIN
    SELECT raise(ABORT, 'the audit log is append-only: checkpoints cannot be deleted');
END;

CREATE TRIGGER checkpoints_once BEFORE INSERT ON checkpoints
WHEN EXISTS (SELECT 1 FROM checkpoints WHERE size = NEW.size)
BEGIN
    SELECT raise(ABORT, 'the audit log is append-only: there is a checkpoint already');
END;

-- The hash over rows position*2^level+1 to (position+1)*2^level, for levels from 8 on, up to the
-- newest checkpoint, so that nobody needs to read all rows again. Lower levels can be computed, but
-- at the end of each segment, where rows are gone.
CREATE TABLE tree (
    level    INTEGER NOT NULL,
    position INTEGER NOT NULL,
    hash     BLOB    NOT NULL,
    PRIMARY KEY (level, position)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER tree_no_update BEFORE UPDATE ON tree BEGIN
    SELECT raise(ABORT, 'the audit log is append-only: its tree cannot be changed');
END;

CREATE TRIGGER tree_no_delete BEFORE DELETE ON tree BEGIN
    SELECT raise(ABORT, 'the audit log is append-only: its tree cannot be deleted');
END;

CREATE TRIGGER tree_once BEFORE INSERT ON tree
WHEN EXISTS (SELECT 1 FROM tree WHERE level = NEW.level AND position = NEW.position AND hash IS NOT NEW.hash)
BEGIN
    SELECT raise(ABORT, 'the audit log is append-only: its tree has another hash there');
END;

-- Rows that were moved out of the database into a file, see segment.go.
CREATE TABLE segments (
    first  INTEGER PRIMARY KEY,
    last   INTEGER NOT NULL,
    oldest INTEGER NOT NULL, -- the earliest time of its rows, as in audit.time, and
    newest INTEGER NOT NULL, -- the latest: who looks for others need not open the file
    hash   BLOB    NOT NULL, -- hash of the last row, which the next one follows
    sha256 BLOB    NOT NULL  -- of the file
) STRICT;

CREATE TRIGGER segments_no_update BEFORE UPDATE ON segments BEGIN
    SELECT raise(ABORT, 'the audit log is append-only: segments cannot be changed');
END;

CREATE TRIGGER segments_no_delete BEFORE DELETE ON segments BEGIN
    SELECT raise(ABORT, 'the audit log is append-only: segments cannot be deleted');
END;

CREATE TRIGGER segments_at_end BEFORE INSERT ON segments
WHEN NEW.first IS NOT (SELECT coalesce(max(last), 0) + 1 FROM segments)
BEGIN
    SELECT raise(ABORT, 'the audit log is append-only: a segment follows the one before');
END;
