-- Every statement of the SQLite bus, by name. queries.py reads them.

-- name: set_meta
INSERT OR REPLACE INTO meta (name, value) VALUES (?, ?)

-- name: get_meta
SELECT value FROM meta WHERE name = ?

-- name: add_job
INSERT INTO jobs (job, decider, created, updated, state, visit, backtracks, needs_human, held, agent)
VALUES (:job, :decider, :created, :updated, :state, :visit, :backtracks, :needs_human, :held, :agent)

-- name: add_charter
INSERT INTO charters (job, request, settings) VALUES (:job, :request, :settings)

-- name: set_progress
UPDATE jobs SET updated = ?, state = ?, visit = ?, backtracks = ?, needs_human = ?, held = ? WHERE serial = ?

-- name: list_jobs
SELECT job, request, decider, created, updated, state, visit, backtracks, needs_human, held, agent, settings
FROM jobs JOIN charters USING (job) ORDER BY created, job

-- name: get_job
SELECT job, request, decider, created, updated, state, visit, backtracks, needs_human, held, agent, settings
FROM jobs JOIN charters USING (job) WHERE job = ?

-- name: list_names
SELECT job FROM jobs

-- name: list_unfinished
SELECT job, held FROM jobs WHERE state NOT IN ('DONE', 'WITHDRAWN', 'FAILURE') ORDER BY created, job

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

-- name: list_triggers
SELECT name, sql FROM sqlite_schema WHERE type = 'trigger' AND tbl_name = ?

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
SELECT coalesce(sum(turns), 0) AS turns, coalesce(sum(tokens), 0) AS tokens, coalesce(sum(micros), 0) AS micros,
    coalesce(sum(millis), 0) AS millis
FROM spending INDEXED BY spending_by_day WHERE day = ?

-- name: list_submitted
SELECT 't' || number AS turn, agent, thread, message, epoch, host, status, started FROM turns INDEXED BY turns_submitted
WHERE id > ? AND id < ? AND status = 'submitted' ORDER BY id

-- name: list_turns
SELECT 't' || number AS turn, agent, thread, message, epoch, host, status, started FROM turns
WHERE id > ? AND id < ? ORDER BY id

-- name: list_steps
SELECT number, txn AS "transaction", rule, who, time, at, choice, consumed, produced, extra FROM steps
WHERE id > ? AND id < ? ORDER BY id LIMIT ?

-- name: list_messages
SELECT number, txn AS "transaction", sender, sender_thread, agent, thread, seq, key, time, body, meta, kind FROM messages
WHERE id > ? AND id < ? ORDER BY id LIMIT ?

-- name: list_commits
SELECT number, time, epoch, steps, messages, head, digests FROM commits
WHERE id > ? AND id < ? ORDER BY id LIMIT ?

-- name: get_message
SELECT number, txn AS "transaction", sender, sender_thread, agent, thread, seq, key, time, body, meta, kind FROM messages WHERE id = ?

-- For who watches many jobs: how far each has come, without reading any of them.
-- name: list_versions
SELECT j.job, coalesce((SELECT c.number FROM commits c WHERE c.id > (j.serial << 40) AND c.id < (j.serial << 40) + 549755813888
        ORDER BY c.id DESC LIMIT 1), 0) AS commits,
    coalesce((SELECT i.number FROM inputs i WHERE i.job = j.job ORDER BY i.number DESC LIMIT 1), 0) AS inputs
FROM jobs j ORDER BY j.serial

-- name: list_spending
SELECT j.job, s.day, s.turns, s.tokens, s.micros, s.millis FROM spending s JOIN jobs j ON j.serial = s.job
WHERE s.day >= ? ORDER BY s.day, j.serial

-- name: glance_jobs
SELECT j.job AS job, substr(c.request, 1, 400) AS request, j.updated AS updated, j.state AS state,
    j.backtracks AS backtracks, j.needs_human AS needs_human, j.held AS held,
    j.decider AS decider, j.created AS created,
    (SELECT group_concat(m.slot, char(10)) FROM molecules m WHERE m.job = j.serial
        AND m.slot >= 'hold ' AND m.slot < 'hold!') AS holds
FROM jobs j JOIN charters c ON c.job = j.job ORDER BY j.created, j.job

-- name: glance_answers
SELECT job, kind, key, time, by, body, signature FROM inputs INDEXED BY inputs_waiting
WHERE taken = 0 AND kind = 'answer'
