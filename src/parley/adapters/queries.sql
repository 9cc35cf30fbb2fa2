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

-- A turn's commit should write few pages. So a row of a job has one key, an integer made of the job's serial and
-- the row's number, and is appended to one tree: serial * 2^40 + number, where a number lies within 2^39 of zero.
-- `job` and `number` are read from it and stored nowhere. What was last delivered to a recipient is a row that is
-- compared and set, not an entry for each message.
-- name: schema-3
CREATE TABLE numbered_jobs (
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
INSERT INTO numbered_jobs (job, decider, created, updated, state, visit, backtracks, needs_human, held, agent)
SELECT job, decider, created, updated, state, visit, backtracks, needs_human, held, agent FROM jobs
ORDER BY created, job;
DROP TABLE jobs;
ALTER TABLE numbered_jobs RENAME TO jobs;

CREATE TABLE numbered_owners (
    job INTEGER PRIMARY KEY,
    epoch INTEGER NOT NULL
);
INSERT INTO numbered_owners SELECT serial, epoch FROM owners JOIN jobs USING (job);
DROP TABLE owners;
ALTER TABLE numbered_owners RENAME TO owners;

CREATE TABLE numbered_commits (
    id INTEGER PRIMARY KEY,
    job INTEGER GENERATED ALWAYS AS ((id + 549755813888) >> 40) VIRTUAL,
    number INTEGER GENERATED ALWAYS AS (((id + 549755813888) & 1099511627775) - 549755813888) VIRTUAL,
    time REAL NOT NULL,
    epoch INTEGER NOT NULL,
    steps INTEGER NOT NULL,
    messages INTEGER NOT NULL,
    head TEXT NOT NULL,
    digests TEXT NOT NULL
);
INSERT INTO numbered_commits (id, time, epoch, steps, messages, head, digests)
SELECT (serial << 40) + number, time, epoch, steps, messages, head, '' FROM commits JOIN jobs USING (job)
ORDER BY serial, number;
DROP TABLE commits;
ALTER TABLE numbered_commits RENAME TO commits;

CREATE TABLE numbered_steps (
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
INSERT INTO numbered_steps (id, txn, rule, who, time, at, choice, consumed, produced, extra)
SELECT (serial << 40) + number, txn, rule, who, time, at, choice, consumed, produced, extra
FROM steps JOIN jobs USING (job) ORDER BY serial, number;
DROP TABLE steps;
ALTER TABLE numbered_steps RENAME TO steps;

CREATE TABLE numbered_messages (
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
    UNIQUE (job, key)
);
INSERT INTO numbered_messages (id, txn, sender, sender_thread, agent, thread, seq, key, time, body, meta)
SELECT (serial << 40) + number, txn, sender, sender_thread, m.agent, thread, seq, key, time, body, meta
FROM messages m JOIN jobs USING (job) ORDER BY serial, number;
DROP TABLE messages;
ALTER TABLE numbered_messages RENAME TO messages;

CREATE TABLE recipients (
    job INTEGER NOT NULL,
    agent TEXT NOT NULL,
    thread TEXT NOT NULL,
    seq INTEGER NOT NULL,
    PRIMARY KEY (job, agent, thread)
) WITHOUT ROWID;
INSERT INTO recipients SELECT job, agent, thread, max(seq) FROM messages GROUP BY job, agent, thread;

CREATE TABLE numbered_molecules (
    job INTEGER NOT NULL,
    slot TEXT NOT NULL,
    body TEXT NOT NULL,
    PRIMARY KEY (job, slot)
) WITHOUT ROWID;
INSERT INTO numbered_molecules SELECT serial, slot, body FROM molecules JOIN jobs USING (job) ORDER BY serial, slot;
DROP TABLE molecules;
ALTER TABLE numbered_molecules RENAME TO molecules;

-- A turn is named after its number: `t17`.
CREATE TABLE numbered_turns (
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
INSERT INTO numbered_turns (id, agent, thread, message, epoch, host, status, started)
SELECT (serial << 40) + CAST(substr(turn, 2) AS INTEGER), t.agent, thread, message, epoch, host, status, started
FROM turns t JOIN jobs USING (job) ORDER BY 1;
DROP TABLE turns;
ALTER TABLE numbered_turns RENAME TO turns;
CREATE INDEX turns_submitted ON turns (id) WHERE status = 'submitted';

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

-- What was used up, by job and day. A row is only ever added to, which leaves the index on its day as it is. Days were
-- not counted before: what there is goes to a day without a name.
-- name: schema-4
CREATE TABLE spending (
    job INTEGER NOT NULL,
    day TEXT NOT NULL,
    turns INTEGER NOT NULL,
    tokens INTEGER NOT NULL,
    micros INTEGER NOT NULL,
    millis INTEGER NOT NULL,
    PRIMARY KEY (job, day)
) WITHOUT ROWID;
INSERT INTO spending SELECT job, '', count(*), 0, 0, 0 FROM turns GROUP BY job;
UPDATE spending SET (tokens, micros) = (
    SELECT coalesce(sum(
        CAST(coalesce(json_extract(extra, '$.usage.input_tokens'), 0) AS INTEGER)
        + CAST(coalesce(json_extract(extra, '$.usage.output_tokens'), 0) AS INTEGER)
        + CAST(coalesce(json_extract(extra, '$.usage.cache_creation_tokens'), 0) AS INTEGER)), 0),
    coalesce(sum(CAST(coalesce(json_extract(extra, '$.usage.cost_usd'), 0) * 1000000 + 0.5 AS INTEGER)), 0)
    FROM steps WHERE id > (spending.job << 40) AND id < (spending.job << 40) + 549755813888
        AND rule IN ('send-step', 'ask-step', 'nosend-step') AND extra LIKE '%"usage"%' AND json_valid(extra)
);
CREATE INDEX spending_by_day ON spending (day);

-- What a message is to its recipient. Those of jobs that followed earlier rules have none, and those jobs are refused.
-- name: schema-5
ALTER TABLE messages ADD COLUMN kind TEXT NOT NULL DEFAULT '';

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
INSERT INTO commits (id, time, epoch, steps, messages, head, digests)
SELECT ?, ?, ?, ?, ?, ?, ? FROM owners WHERE job = ? AND epoch = ?

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
SELECT number, time, epoch, steps, messages, head, digests FROM commits WHERE id > ? AND id < ? ORDER BY id DESC LIMIT 1

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
    j.needs_human - (SELECT count(*) FROM inputs i WHERE i.job = j.job AND i.taken = 0 AND i.kind = 'answer'),
    j.held,
    (SELECT group_concat(m.slot, char(10)) FROM molecules m WHERE m.job = j.serial
        AND m.slot >= 'hold ' AND m.slot < 'hold!')
FROM jobs j JOIN charters c ON c.job = j.job ORDER BY j.created, j.job
