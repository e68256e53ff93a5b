-- The sealed store, and the list of what was put into the keyring. Only names are readable here: the
-- value, and where it may go, are in sealed.

PRAGMA page_size = 4096;
PRAGMA auto_vacuum = FULL; -- what is deleted gives its space back
PRAGMA application_id = 0x73626d76; -- "sbmv"
PRAGMA user_version = 1;

CREATE TABLE secret (
    namespace TEXT NOT NULL,
    key       TEXT NOT NULL,
    identity  TEXT NOT NULL, -- the name of the key that it is sealed for, see identity.go, or keyring
    sealed    BLOB NOT NULL, -- an age file, see seal.go; empty if the value is in the keyring
    PRIMARY KEY (namespace, key)
) STRICT;
