-- Every statement of the SQLite bus, by name. A script of the schema brings the bus from the version before
-- to its own; a new bus runs them all. A script that has been shipped is never changed: write the next.

-- name: schema-1
CREATE TABLE meta (
    name TEXT NOT NULL PRIMARY KEY,
    value TEXT NOT NULL
) WITHOUT ROWID;

-- What changes of a job is small and written often; what is long is written once, in charters.
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

-- They cost an insert nothing: they are looked at by an UPDATE or a DELETE only.
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

-- name: schema-2
ALTER TABLE steps ADD COLUMN extra TEXT NOT NULL DEFAULT '';
ALTER TABLE messages ADD COLUMN meta TEXT NOT NULL DEFAULT '';
-- The turns still out are few; without this, loading a job reads all it ever had.
CREATE INDEX turns_submitted ON turns (job) WHERE status = 'submitted';

-- name: add_meta
INSERT INTO meta (name, value) VALUES (?, ?)

-- name: get_meta
SELECT value FROM meta WHERE name = ?

-- name: add_job
INSERT INTO jobs (job, decider, created, updated, state, visit, backtracks, needs_human, held, agent)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: add_charter
INSERT INTO charters (job, request, settings) VALUES (?, ?, ?)

-- name: set_job
UPDATE jobs SET decider = ?, created = ?, updated = ?, state = ?, visit = ?, backtracks = ?, needs_human = ?,
    held = ?, agent = ?
WHERE job = ?

-- name: set_charter
UPDATE charters SET request = ?, settings = ? WHERE job = ?

-- name: list_jobs
SELECT job, request, decider, created, updated, state, visit, backtracks, needs_human, held, agent, settings
FROM jobs JOIN charters USING (job) ORDER BY created, job

-- name: get_job
SELECT job, request, decider, created, updated, state, visit, backtracks, needs_human, held, agent, settings
FROM jobs JOIN charters USING (job) WHERE job = ?

-- name: has_job
SELECT 1 FROM jobs WHERE job = ?

-- name: add_owner
INSERT INTO owners (job, epoch) VALUES (?, 0)

-- name: next_epoch
UPDATE owners SET epoch = epoch + 1 WHERE job = ?

-- name: get_epoch
SELECT epoch FROM owners WHERE job = ?

-- The fence is part of the insert: where the epoch is no longer the job's, there is no row to insert.
-- name: add_commit
INSERT INTO commits (job, number, time, epoch, steps, messages, head)
SELECT job, ?, ?, ?, ?, ?, ? FROM owners WHERE job = ? AND epoch = ?

-- name: add_step
INSERT INTO steps (job, number, txn, rule, who, time, at, choice, consumed, produced, extra)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: add_message
INSERT INTO messages (job, number, txn, sender, sender_thread, agent, thread, seq, key, time, body, meta)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: set_molecule
INSERT OR REPLACE INTO molecules (job, slot, body) VALUES (?, ?, ?)

-- name: drop_molecule
DELETE FROM molecules WHERE job = ? AND slot = ?

-- name: add_turn
INSERT INTO turns (job, turn, agent, thread, message, epoch, host, status, started)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: end_turn
UPDATE turns SET status = ? WHERE job = ? AND turn = ? AND epoch = ? AND status = 'submitted'

-- name: get_turn
SELECT epoch, status FROM turns WHERE job = ? AND turn = ?

-- name: take_input
UPDATE inputs SET taken = ?, note = ? WHERE number = ? AND job = ? AND taken = 0

-- name: add_input
INSERT INTO inputs (job, kind, key, time, by, body) VALUES (?, ?, ?, ?, ?, ?)

-- name: list_inputs
SELECT number, job, kind, key, time, by, body, taken, note FROM inputs WHERE job = ? ORDER BY number

-- name: list_waiting
SELECT number, job, kind, key, time, by, body, taken, note FROM inputs INDEXED BY inputs_waiting
WHERE job = ? AND taken = 0 ORDER BY number

-- name: list_molecules
SELECT slot, body FROM molecules WHERE job = ? ORDER BY slot

-- name: last_commit
SELECT number, time, epoch, steps, messages, head FROM commits WHERE job = ? ORDER BY number DESC LIMIT 1

-- From one recipient straight to the next, by the index: what was sent to each is never read through. One
-- comparison of (agent, thread) would read it through: SQLite then begins at the recipient, not behind it.
-- name: list_sequences
WITH RECURSIVE recipient (agent, thread) AS (
    SELECT * FROM (
        SELECT agent, thread FROM messages WHERE job = :job ORDER BY agent, thread LIMIT 1
    )
    UNION ALL
    SELECT following.agent, following.thread
    FROM recipient AS current CROSS JOIN messages AS following ON following.rowid = coalesce(
        (
            SELECT rowid FROM messages
            WHERE job = :job AND agent = current.agent AND thread > current.thread
            ORDER BY thread LIMIT 1
        ),
        (
            SELECT rowid FROM messages
            WHERE job = :job AND agent > current.agent
            ORDER BY agent, thread LIMIT 1
        )
    )
)
SELECT agent, thread, (
    SELECT max(seq) FROM messages
    WHERE job = :job AND agent = recipient.agent AND thread = recipient.thread
)
FROM recipient

-- name: list_submitted
SELECT turn, agent, thread, message, epoch, host, status, started FROM turns INDEXED BY turns_submitted
WHERE job = ? AND status = 'submitted' ORDER BY id

-- name: list_turns
SELECT turn, agent, thread, message, epoch, host, status, started FROM turns WHERE job = ? ORDER BY id

-- name: list_steps
SELECT number, txn, rule, who, time, at, choice, consumed, produced, extra FROM steps
WHERE job = ? AND number > ? ORDER BY number LIMIT ?

-- name: list_messages
SELECT number, txn, sender, sender_thread, agent, thread, seq, key, time, body, meta FROM messages
WHERE job = ? AND number > ? ORDER BY number LIMIT ?

-- name: get_message
SELECT number, txn, sender, sender_thread, agent, thread, seq, key, time, body, meta FROM messages
WHERE job = ? AND number = ?

-- name: list_commits
SELECT number, time, epoch, steps, messages, head FROM commits
WHERE job = ? AND number > ? ORDER BY number LIMIT ?

-- name: glance_jobs
SELECT j.job, substr(c.request, 1, 400), j.updated, j.state, j.backtracks,
    j.needs_human - (SELECT count(*) FROM inputs i WHERE i.job = j.job AND i.taken = 0 AND i.kind = 'answer'),
    j.held
FROM jobs j JOIN charters c ON c.job = j.job ORDER BY j.created, j.job
