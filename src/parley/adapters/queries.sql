-- Every statement of the SQLite bus, by name. Nothing but what `schema` makes may be on a bus: each statement of it is
-- compared with the file's before anything else is read.

-- name: schema
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

-- A turn's commit should write few pages. So a row of a job has one key, an integer made of the job's serial and
-- the row's number, and is appended to one tree: serial * 2^40 + number, where a number lies within 2^39 of zero.
-- `job` and `number` are read from it and stored nowhere. What was last delivered to a recipient is a row that is
-- compared and set, not an entry for each message. The seal is the store's: a transaction's head, signed.
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
CREATE TRIGGER inputs_are_taken_once BEFORE UPDATE ON inputs WHEN OLD.taken <> 0
BEGIN
    SELECT RAISE(ABORT, 'an input is taken once');
END;

-- name: set_meta
INSERT OR REPLACE INTO meta (name, value) VALUES (?, ?)

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
WHERE serial = ?

-- name: set_charter
UPDATE charters SET request = ?, settings = ? WHERE job = ?

-- name: list_jobs
SELECT job, request, decider, created, updated, state, visit, backtracks, needs_human, held, agent, settings
FROM jobs JOIN charters USING (job) ORDER BY created, job

-- name: get_job
SELECT job, request, decider, created, updated, state, visit, backtracks, needs_human, held, agent, settings
FROM jobs JOIN charters USING (job) WHERE job = ?

-- name: get_serial
SELECT serial FROM jobs WHERE job = ?

-- name: add_owner
INSERT INTO owners (job, epoch) VALUES (?, 0)

-- name: next_epoch
UPDATE owners SET epoch = epoch + 1 WHERE job = ?

-- name: get_epoch
SELECT epoch FROM owners WHERE job = ?

-- The fence is part of the insert: where the epoch is no longer the job's, there is no row to insert.
-- name: add_commit
INSERT INTO commits (id, time, epoch, steps, messages, head, digests, seal)
SELECT ?, ?, ?, ?, ?, ?, ?, ? FROM owners WHERE job = ? AND epoch = ?

-- name: add_step
INSERT INTO steps (id, txn, rule, who, time, at, choice, consumed, produced, extra)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: add_message
INSERT INTO messages (id, txn, sender, sender_thread, agent, thread, seq, key, time, body, meta, kind)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- What was delivered to a recipient is numbered upwards: one that is not beyond the last changes no row.
-- name: deliver
INSERT INTO recipients (job, agent, thread, seq) VALUES (?, ?, ?, ?)
ON CONFLICT (job, agent, thread) DO UPDATE SET seq = excluded.seq WHERE seq < excluded.seq

-- name: set_molecule
INSERT OR REPLACE INTO molecules (job, slot, body) VALUES (?, ?, ?)

-- name: drop_molecule
DELETE FROM molecules WHERE job = ? AND slot = ?

-- name: add_turn
INSERT INTO turns (id, agent, thread, message, epoch, host, status, started) VALUES (?, ?, ?, ?, ?, ?, ?, ?)

-- name: end_turn
UPDATE turns SET status = ? WHERE id = ? AND epoch = ? AND status = 'submitted'

-- name: spend
INSERT INTO spending (job, day, turns, tokens, micros, millis) VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (job, day) DO UPDATE SET turns = turns + excluded.turns, tokens = tokens + excluded.tokens,
    micros = micros + excluded.micros, millis = millis + excluded.millis

-- name: take_input
UPDATE inputs SET taken = ?, note = ? WHERE number = ? AND job = ? AND taken = 0

-- name: last_input
SELECT coalesce(max(number), 0) FROM inputs

-- name: drop_input
DELETE FROM inputs WHERE number = ?

-- name: sign_again
UPDATE inputs SET signature = ? WHERE number = ?

-- name: list_heads
SELECT c.id, j.job, c.number, c.head FROM commits c JOIN jobs j ON j.serial = c.job

-- name: seal
UPDATE commits SET seal = ? WHERE id = ?

-- name: add_input
INSERT INTO inputs (job, kind, key, time, by, body, signature) VALUES (?, ?, ?, ?, ?, ?, ?)

-- name: list_inputs
SELECT number, job, kind, key, time, by, body, taken, note, signature FROM inputs WHERE job = ? ORDER BY number

-- name: list_waiting
SELECT number, job, kind, key, time, by, body, taken, note, signature FROM inputs INDEXED BY inputs_waiting
WHERE job = ? AND taken = 0 ORDER BY number

-- name: list_molecules
SELECT slot, body FROM molecules WHERE job = ? ORDER BY slot

-- name: last_commit
SELECT number, time, epoch, steps, messages, head, digests FROM commits WHERE id > ? AND id < ? ORDER BY id DESC LIMIT 1

-- name: list_seals
SELECT number, head, seal FROM commits WHERE id > ? AND id < ? ORDER BY id LIMIT ?

-- name: list_sequences
SELECT agent, thread, seq FROM recipients WHERE job = ?

-- name: list_spent
SELECT day, turns, tokens, micros, millis FROM spending WHERE job = ?

-- name: get_spent
SELECT coalesce(sum(turns), 0), coalesce(sum(tokens), 0), coalesce(sum(micros), 0), coalesce(sum(millis), 0)
FROM spending INDEXED BY spending_by_day WHERE day = ?

-- name: list_submitted
SELECT 't' || number, agent, thread, message, epoch, host, status, started FROM turns INDEXED BY turns_submitted
WHERE id > ? AND id < ? AND status = 'submitted' ORDER BY id

-- name: list_turns
SELECT 't' || number, agent, thread, message, epoch, host, status, started FROM turns
WHERE id > ? AND id < ? ORDER BY id

-- name: list_steps
SELECT number, txn, rule, who, time, at, choice, consumed, produced, extra FROM steps
WHERE id > ? AND id < ? ORDER BY id LIMIT ?

-- name: list_messages
SELECT number, txn, sender, sender_thread, agent, thread, seq, key, time, body, meta, kind FROM messages
WHERE id > ? AND id < ? ORDER BY id LIMIT ?

-- name: list_commits
SELECT number, time, epoch, steps, messages, head, digests FROM commits
WHERE id > ? AND id < ? ORDER BY id LIMIT ?

-- name: get_message
SELECT number, txn, sender, sender_thread, agent, thread, seq, key, time, body, meta, kind FROM messages WHERE id = ?

-- name: glance_jobs
SELECT j.job, substr(c.request, 1, 400), j.updated, j.state, j.backtracks,
    j.needs_human, j.held,
    (SELECT group_concat(m.slot, char(10)) FROM molecules m WHERE m.job = j.serial
        AND m.slot >= 'hold ' AND m.slot < 'hold!')
FROM jobs j JOIN charters c ON c.job = j.job ORDER BY j.created, j.job

-- name: glance_answers
SELECT number, job, kind, key, time, by, body, taken, note, signature FROM inputs INDEXED BY inputs_waiting
WHERE taken = 0 AND kind = 'answer'
