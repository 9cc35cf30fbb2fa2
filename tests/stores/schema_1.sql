-- A bus as the first schema made it, with a job in it. Frozen: it shows that the migrations bring it up to date.
PRAGMA journal_mode = WAL;
BEGIN;
CREATE TABLE meta (
    name TEXT NOT NULL PRIMARY KEY,
    value TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE jobs (
    job TEXT NOT NULL PRIMARY KEY,
    decider TEXT NOT NULL,
    created REAL NOT NULL,
    updated REAL NOT NULL,
    state TEXT NOT NULL,
    visit INTEGER NOT NULL,
    backtracks INTEGER NOT NULL,
    needs_human INTEGER NOT NULL,
    held INTEGER NOT NULL,
    agent TEXT NOT NULL
) WITHOUT ROWID;

CREATE TABLE charters (
    job TEXT NOT NULL PRIMARY KEY,
    request TEXT NOT NULL,
    settings TEXT NOT NULL
);

CREATE TABLE owners (
    job TEXT NOT NULL PRIMARY KEY,
    epoch INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE commits (
    job TEXT NOT NULL,
    number INTEGER NOT NULL,
    time REAL NOT NULL,
    epoch INTEGER NOT NULL,
    steps INTEGER NOT NULL,
    messages INTEGER NOT NULL,
    head TEXT NOT NULL,
    PRIMARY KEY (job, number)
) WITHOUT ROWID;

CREATE TABLE steps (
    job TEXT NOT NULL,
    number INTEGER NOT NULL,
    txn INTEGER NOT NULL,
    rule TEXT NOT NULL,
    who TEXT NOT NULL,
    time REAL NOT NULL,
    at TEXT NOT NULL,
    choice TEXT NOT NULL,
    consumed TEXT NOT NULL,
    produced TEXT NOT NULL,
    UNIQUE (job, number)
);

CREATE TABLE messages (
    job TEXT NOT NULL,
    number INTEGER NOT NULL,
    txn INTEGER NOT NULL,
    sender TEXT NOT NULL,
    sender_thread TEXT NOT NULL,
    agent TEXT NOT NULL,
    thread TEXT NOT NULL,
    seq INTEGER NOT NULL,
    key TEXT NOT NULL,
    time REAL NOT NULL,
    body TEXT NOT NULL,
    UNIQUE (job, number),
    UNIQUE (job, agent, thread, seq),
    UNIQUE (job, key)
);

CREATE TABLE molecules (
    job TEXT NOT NULL,
    slot TEXT NOT NULL,
    body TEXT NOT NULL,
    PRIMARY KEY (job, slot)
) WITHOUT ROWID;

CREATE TABLE turns (
    id INTEGER PRIMARY KEY,
    job TEXT NOT NULL,
    turn TEXT NOT NULL,
    agent TEXT NOT NULL,
    thread TEXT NOT NULL,
    message TEXT NOT NULL,
    epoch INTEGER NOT NULL,
    host TEXT NOT NULL,
    status TEXT NOT NULL,
    started REAL NOT NULL,
    UNIQUE (job, turn)
);

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
    UNIQUE (job, key)
);

CREATE INDEX inputs_waiting ON inputs (job) WHERE taken = 0;
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

INSERT INTO meta VALUES ('protocol', 'p1');
INSERT INTO jobs VALUES ('j1', 'ann', 1.0, 1.0, 'INTENT', 1, 0, 0, 0, 'scripted');
INSERT INTO charters VALUES ('j1', 'do it', '{}');
INSERT INTO owners VALUES ('j1', 4);
INSERT INTO commits VALUES ('j1', 1, 2.5, 4, 2, 1, 'head1');
INSERT INTO steps VALUES ('j1', 1, 1, 'wake', 'engine', 2.5, '{"a": "lead"}', '{}', '["Idle"]', '["Run"]');
INSERT INTO messages VALUES
    ('j1', 1, 1, 'lead', 'state:j1/1', 'coder', 'dispatch:1', 1, 'key1', 2.5, 'text 1');
INSERT INTO molecules VALUES ('j1', 'a', '1');
INSERT INTO turns VALUES (1, 'j1', 't1', 'coder', 'dispatch:1', 'text', 4, 'here', 'submitted', 3.5);
INSERT INTO turns VALUES (2, 'j1', 't2', 'coder', 'dispatch:1', 'text', 4, 'here', 'ended', 3.5);
INSERT INTO inputs VALUES (1, 'j1', 'answer', 'k', 1.0, 'ann', '{}', 0, '');
PRAGMA application_id = 1348563564;
PRAGMA user_version = 1;
COMMIT;
