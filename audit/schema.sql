-- The audit log as version 1 made it, which schema2.sql makes version 2: one table into which rows
-- can only be put at the end, each holding the hash of the one before. The triggers stop mistakes.
-- Whoever owns the file can drop them, but what is changed then shows in the chain.
--
-- Verify compares a log with the text below, character by character from CREATE to the semicolon:
-- with any change there, user_version must rise, and Verify must know the older text.

PRAGMA journal_mode = WAL;
PRAGMA application_id = 0x73626d61; -- "sbma"
PRAGMA user_version = 1;

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
