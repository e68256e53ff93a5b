-- The audit log: one table into which rows can only be put at the end, each chained to the one
-- before, with receipts of runs, and what proves the log to somebody else, a Merkle tree over the rows' hashes
-- with signed checkpoints. The triggers stop mistakes. Whoever owns the file can drop them, but what is
-- changed then shows in the chain.
--
-- Verify compares a log with the text below, character by character from CREATE to the semicolon:
-- with any change there, user_version must rise, and Verify must know the older text.

PRAGMA journal_mode = WAL;
PRAGMA application_id = 0x73626d61; -- "sbma"
PRAGMA user_version = 3;

CREATE TABLE audit (
    seq       INTEGER PRIMARY KEY, -- 1, 2, 3 and so on, without gaps; in a file that continues another, from its last on
    time      INTEGER NOT NULL,    -- nanoseconds since 1970, UTC
    kind      TEXT    NOT NULL,
    run       TEXT    NOT NULL,    -- "" where a row belongs to no run
    namespace TEXT    NOT NULL,
    prev      BLOB    NOT NULL,    -- the first 4 bytes of the hash of the row before; all where that is not here, zeros in row 1
    hash      BLOB    NOT NULL,    -- SHA-256 of the whole hash before, the columns above and the unpacked data, see chain.go
    receipt   BLOB,                -- the signature of the run's receipt; x'00' for one of another form, NULL for none
    data      BLOB    NOT NULL     -- a JSON object, and the receipt, whose SHA-256 the object says; packed, see pack.go
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
WHEN NEW.seq IS NOT (SELECT coalesce(max(seq) + 1, NEW.seq) FROM audit)
BEGIN
    SELECT raise(ABORT, 'the audit log is append-only: a row can only be put at its end');
END;

CREATE INDEX audit_kind ON audit (kind); -- and seq, which is in each index

-- What data is packed with, made with the log.
CREATE TABLE dictionary (
    id   INTEGER PRIMARY KEY CHECK (id = 1),
    text BLOB    NOT NULL
) STRICT;

CREATE TRIGGER dictionary_no_update BEFORE UPDATE ON dictionary BEGIN
    SELECT raise(ABORT, 'the audit log is append-only: its dictionary cannot be changed');
END;

CREATE TRIGGER dictionary_no_delete BEFORE DELETE ON dictionary BEGIN
    SELECT raise(ABORT, 'the audit log is append-only: its dictionary cannot be deleted');
END;

CREATE TRIGGER dictionary_once BEFORE INSERT ON dictionary
WHEN EXISTS (SELECT 1 FROM dictionary)
BEGIN
    SELECT raise(ABORT, 'the audit log is append-only: there is a dictionary already');
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
-- newest checkpoint, so that nobody needs to read all rows again. Lower levels can be computed. A file
-- that continues another one has the hashes at the edge of the tree over the rows before, of all levels.
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
