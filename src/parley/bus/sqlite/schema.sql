-- The schema of 0.2.0, the first. It stays as it is: what changes later is a migration in schema.py. Nothing but what this
-- and the migrations make may be on a bus: each statement is compared with the file's before a row is read.

CREATE TABLE meta (
    name TEXT NOT NULL PRIMARY KEY,
    value TEXT NOT NULL
) WITHOUT ROWID;

-- What changes of a job is small and written often; what is long is written once, in charters.
CREATE TABLE jobs (
    serial INTEGER PRIMARY KEY,
    job TEXT NOT NULL UNIQUE,
    decider TEXT NOT NULL,
    created REAL NOT NULL,
    updated REAL NOT NULL,
    state TEXT NOT NULL,
    visit INTEGER NOT NULL,
    backtracks INTEGER NOT NULL,
    needs_human INTEGER NOT NULL,
    held INTEGER NOT NULL,
    agent TEXT NOT NULL
);

CREATE TABLE charters (
    job TEXT NOT NULL PRIMARY KEY,
    request TEXT NOT NULL,
    settings TEXT NOT NULL
);

CREATE TABLE owners (
    job INTEGER PRIMARY KEY,
    epoch INTEGER NOT NULL
);

-- A turn's commit should write few pages. So a row of a job has one key, an integer made of the job's serial and the
-- row's number, and is appended to one tree: serial * 2^40 + number, where a number lies within 2^39 of zero. `job` and
-- `number` are computed from the key and stored nowhere. The seal is the signature of a transaction's head, of which only
-- the store knows. A row's transaction is `txn`, since `transaction` is a word of SQL.
CREATE TABLE commits (
    id INTEGER PRIMARY KEY,
    job INTEGER GENERATED ALWAYS AS ((id + 549755813888) >> 40) VIRTUAL,
    number INTEGER GENERATED ALWAYS AS (((id + 549755813888) & 1099511627775) - 549755813888) VIRTUAL,
    time REAL NOT NULL,
    epoch INTEGER NOT NULL,
    steps INTEGER NOT NULL,
    messages INTEGER NOT NULL,
    head TEXT NOT NULL,
    digests TEXT NOT NULL,
    seal TEXT NOT NULL
);

CREATE TABLE steps (
    id INTEGER PRIMARY KEY,
    job INTEGER GENERATED ALWAYS AS ((id + 549755813888) >> 40) VIRTUAL,
    number INTEGER GENERATED ALWAYS AS (((id + 549755813888) & 1099511627775) - 549755813888) VIRTUAL,
    txn INTEGER NOT NULL,
    rule TEXT NOT NULL,
    who TEXT NOT NULL,
    time REAL NOT NULL,
    at TEXT NOT NULL,
    choice TEXT NOT NULL,
    consumed TEXT NOT NULL,
    produced TEXT NOT NULL,
    extra TEXT NOT NULL
);

CREATE TABLE messages (
    id INTEGER PRIMARY KEY,
    job INTEGER GENERATED ALWAYS AS ((id + 549755813888) >> 40) VIRTUAL,
    number INTEGER GENERATED ALWAYS AS (((id + 549755813888) & 1099511627775) - 549755813888) VIRTUAL,
    txn INTEGER NOT NULL,
    sender TEXT NOT NULL,
    sender_thread TEXT NOT NULL,
    agent TEXT NOT NULL,
    thread TEXT NOT NULL,
    seq INTEGER NOT NULL,
    key TEXT NOT NULL,
    time REAL NOT NULL,
    body TEXT NOT NULL,
    meta TEXT NOT NULL,
    kind TEXT NOT NULL,
    UNIQUE (job, key)
);

-- The number of the last message to each recipient, compared and set: an index would have an entry for each message.
CREATE TABLE recipients (
    job INTEGER NOT NULL,
    agent TEXT NOT NULL,
    thread TEXT NOT NULL,
    seq INTEGER NOT NULL,
    PRIMARY KEY (job, agent, thread)
) WITHOUT ROWID;

CREATE TABLE molecules (
    job INTEGER NOT NULL,
    slot TEXT NOT NULL,
    body TEXT NOT NULL,
    PRIMARY KEY (job, slot)
) WITHOUT ROWID;

-- A turn is named after its number: `t17`. Those still out are few, and have an index of their own.
CREATE TABLE turns (
    id INTEGER PRIMARY KEY,
    job INTEGER GENERATED ALWAYS AS ((id + 549755813888) >> 40) VIRTUAL,
    number INTEGER GENERATED ALWAYS AS (((id + 549755813888) & 1099511627775) - 549755813888) VIRTUAL,
    agent TEXT NOT NULL,
    thread TEXT NOT NULL,
    message TEXT NOT NULL,
    epoch INTEGER NOT NULL,
    host TEXT NOT NULL,
    status TEXT NOT NULL,
    started REAL NOT NULL
);
CREATE INDEX turns_submitted ON turns (id) WHERE status = 'submitted';

-- The signature says that a process with this bus's key left the input: nothing is taken without it.
CREATE TABLE inputs (
    number INTEGER PRIMARY KEY,
    job TEXT NOT NULL,
    kind TEXT NOT NULL,
    key TEXT NOT NULL,
    time REAL NOT NULL,
    by TEXT NOT NULL,
    body TEXT NOT NULL,
    taken INTEGER NOT NULL DEFAULT 0,
    note TEXT NOT NULL DEFAULT '',
    signature TEXT NOT NULL DEFAULT '',
    UNIQUE (job, key)
);
CREATE INDEX inputs_waiting ON inputs (job) WHERE taken = 0;

-- What was used up, by job and day. A row is only ever added to, which leaves the index on its day as it is.
CREATE TABLE spending (
    job INTEGER NOT NULL,
    day TEXT NOT NULL,
    turns INTEGER NOT NULL,
    tokens INTEGER NOT NULL,
    micros INTEGER NOT NULL,
    millis INTEGER NOT NULL,
    PRIMARY KEY (job, day)
) WITHOUT ROWID;
CREATE INDEX spending_by_day ON spending (day);

-- Rows of the record are only ever added. The triggers cost an insert nothing.
CREATE TRIGGER steps_are_not_updated BEFORE UPDATE ON steps
BEGIN
    SELECT RAISE(ABORT, 'steps are append-only');
END;
CREATE TRIGGER steps_are_not_deleted BEFORE DELETE ON steps
BEGIN
    SELECT RAISE(ABORT, 'steps are append-only');
END;
CREATE TRIGGER messages_are_not_updated BEFORE UPDATE ON messages
BEGIN
    SELECT RAISE(ABORT, 'messages are append-only');
END;
CREATE TRIGGER messages_are_not_deleted BEFORE DELETE ON messages
BEGIN
    SELECT RAISE(ABORT, 'messages are append-only');
END;
CREATE TRIGGER commits_are_not_updated BEFORE UPDATE ON commits
BEGIN
    SELECT RAISE(ABORT, 'commits are append-only');
END;
CREATE TRIGGER commits_are_not_deleted BEFORE DELETE ON commits
BEGIN
    SELECT RAISE(ABORT, 'commits are append-only');
END;
CREATE TRIGGER inputs_are_taken_once BEFORE UPDATE ON inputs WHEN OLD.taken <> 0
BEGIN
    SELECT RAISE(ABORT, 'an input is taken once');
END;
