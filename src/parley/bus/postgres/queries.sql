-- Every statement of the PostgreSQL bus, by name, but for those inside the functions of schema.sql.

-- name: get_meta
SELECT value FROM meta WHERE name = %s

-- name: set_meta
INSERT INTO meta (name, value) VALUES (%s, %s) ON CONFLICT (name) DO UPDATE SET value = excluded.value

-- name: create_job
SELECT create_job(%s, %s, %s::jsonb)

-- name: own_job
SELECT serial, epoch, holder, remains FROM own_job(%s, %s, %s, %s, %s)

-- name: leave_input
SELECT leave_input(%s, %s, %s, %s, %s, %s, %s, %s, %s)

-- name: commit_jobs
SELECT commit_jobs(%s, %s, %s::integer[], %s::bigint[], %s::double precision[], %s, %s::jsonb)

-- name: alone
LOCK TABLE writing IN EXCLUSIVE MODE

-- Waits for what the store's earlier connection had begun, and keeps what it had not begun from being done. The server may
-- have been away for longer than the lease: it is renewed, and counts for those jobs that no other has taken since.
-- name: next_generation
WITH mine AS (SELECT owner FROM leases WHERE owner = %s FOR UPDATE)
UPDATE leases SET generation = generation + 1, expires = clock_timestamp() + make_interval(secs => %s)
FROM mine WHERE leases.owner = mine.owner RETURNING generation

-- name: renew
UPDATE leases SET expires = clock_timestamp() + make_interval(secs => %s) WHERE owner = %s

-- name: disown
WITH gone AS (UPDATE owners SET owner = '' WHERE owner = %s AND job = %s RETURNING job)
SELECT pg_notify(current_schema(), %s) FROM gone

-- name: disown_all
WITH gone AS (UPDATE owners SET owner = '' WHERE owner = %s RETURNING job), over AS (DELETE FROM leases WHERE owner = %s)
SELECT pg_notify(current_schema(), %s) FROM gone LIMIT 1

-- A lease that ended long ago: its store died.
-- name: drop_leases
DELETE FROM leases WHERE expires < clock_timestamp() - interval '1 day'

-- name: get_owner
SELECT o.owner FROM jobs j JOIN owners o ON o.job = j.serial JOIN leases l ON l.owner = o.owner
WHERE j.job = %s AND l.expires > clock_timestamp()

-- name: list_owned
SELECT j.job FROM jobs j JOIN owners o ON o.job = j.serial JOIN leases l ON l.owner = o.owner
WHERE l.expires > clock_timestamp() ORDER BY j.serial

-- name: list_jobs
SELECT job, request, decider, created, updated, state, visit, backtracks, needs_human, held, agent, settings
FROM jobs JOIN charters USING (job) ORDER BY created, job

-- name: get_job
SELECT job, request, decider, created, updated, state, visit, backtracks, needs_human, held, agent, settings
FROM jobs JOIN charters USING (job) WHERE job = %s

-- name: list_unfinished
SELECT job, held FROM jobs WHERE state NOT IN ('DONE', 'WITHDRAWN', 'FAILURE') ORDER BY created, job

-- name: get_serial
SELECT serial FROM jobs WHERE job = %s

-- name: get_epoch
SELECT epoch FROM owners WHERE job = %s

-- name: get_head
SELECT head, seal FROM commits WHERE job = %s AND number = %s

-- Jobs whose last transaction is not the one that a store knows: by their serials, and its number and head.
-- name: find_lost
SELECT j.job FROM unnest(%s::bigint[], %s::bigint[], %s::text[]) k (serial, number, head) JOIN jobs j ON j.serial = k.serial
WHERE NOT EXISTS (SELECT 1 FROM commits c WHERE c.job = k.serial AND c.number = k.number AND c.head = k.head)

-- name: list_inputs
SELECT number, job, kind, key, time, by, body, taken, note, signature FROM inputs WHERE job = %s ORDER BY number

-- name: list_waiting
SELECT number, job, kind, key, time, by, body, taken, note, signature FROM inputs
WHERE job = %s AND taken = 0 ORDER BY number

-- name: list_all_waiting
SELECT number, job, kind, key, time, by, body, taken, note, signature FROM inputs
WHERE job = ANY (%s::text[]) AND taken = 0 ORDER BY number

-- name: list_answers
SELECT job, kind, key, time, by, body, signature FROM inputs WHERE taken = 0 AND kind = 'answer'

-- name: find_input
SELECT number, signature FROM inputs WHERE job = %s AND key = %s

-- name: list_molecules
SELECT slot, body FROM molecules WHERE job = %s ORDER BY slot

-- name: last_commit
SELECT number, time, epoch, steps, messages, head, digests FROM commits WHERE job = %s ORDER BY number DESC LIMIT 1

-- name: list_seals
SELECT number, head, seal FROM commits WHERE job = %s AND number > %s ORDER BY number LIMIT %s

-- name: list_sequences
SELECT agent, thread, seq FROM recipients WHERE job = %s

-- name: list_spent
SELECT day, turns, tokens, micros, millis FROM spending WHERE job = %s

-- name: get_spent
SELECT coalesce(sum(turns), 0)::bigint AS turns, coalesce(sum(tokens), 0)::bigint AS tokens,
    coalesce(sum(micros), 0)::bigint AS micros, coalesce(sum(millis), 0)::bigint AS millis
FROM spending WHERE day = %s

-- name: list_submitted
SELECT 't' || number AS turn, agent, thread, message, epoch, host, status, started FROM turns
WHERE job = %s AND status = 'submitted' ORDER BY number

-- name: has_board
SELECT coalesce(has_table_privilege(to_regclass(%s), 'SELECT'), false)

-- name: list_hosts
-- {board} is the schema of the board, beside that of the bus
SELECT turn, host FROM {board}.board_orders WHERE job = %s AND host <> '' ORDER BY epoch

-- name: list_turns
SELECT 't' || number AS turn, agent, thread, message, epoch, host, status, started FROM turns
WHERE job = %s ORDER BY number

-- name: list_steps
SELECT number, txn AS "transaction", rule, who, time, at, choice, consumed, produced, extra FROM steps
WHERE job = %s AND number > %s ORDER BY number LIMIT %s

-- name: list_messages
SELECT number, txn AS "transaction", sender, sender_thread, agent, thread, seq, key, time, body, meta, kind FROM messages
WHERE job = %s AND number > %s ORDER BY number LIMIT %s

-- name: list_commits
SELECT number, time, epoch, steps, messages, head, digests FROM commits
WHERE job = %s AND number > %s ORDER BY number LIMIT %s

-- name: get_message
SELECT number, txn AS "transaction", sender, sender_thread, agent, thread, seq, key, time, body, meta, kind FROM messages
WHERE job = %s AND number = %s

-- For who watches many jobs: how far each has come, without reading any of them.
-- name: list_versions
SELECT j.job, coalesce((SELECT c.number FROM commits c WHERE c.job = j.serial ORDER BY c.number DESC LIMIT 1), 0) AS commits,
    coalesce((SELECT i.number FROM inputs i WHERE i.job = j.job ORDER BY i.number DESC LIMIT 1), 0) AS inputs
FROM jobs j ORDER BY j.serial

-- name: list_spending
SELECT j.job, s.day, s.turns, s.tokens, s.micros, s.millis FROM spending s JOIN jobs j ON j.serial = s.job
WHERE s.day >= %s ORDER BY s.day, j.serial

-- name: list_glimpses
SELECT j.job AS job, left(c.request, 400) AS request, j.updated AS updated, j.state AS state,
    j.backtracks AS backtracks, j.needs_human AS needs_human, j.held AS held,
    j.decider AS decider, j.created AS created,
    (SELECT string_agg(m.slot, chr(10)) FROM molecules m WHERE m.job = j.serial
        AND m.slot >= 'hold ' AND m.slot < 'hold!') AS holds
FROM jobs j JOIN charters c ON c.job = j.job ORDER BY j.created, j.job

-- name: get_size
SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint FROM pg_class c
WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind = 'r'

-- Everything in the bus's PostgreSQL schema that can answer a question or do anything by itself.
-- name: list_objects
SELECT 'column' AS kind, c.relname || '.' || a.attname AS name,
    format_type(a.atttypid, a.atttypmod) || CASE WHEN a.attnotnull THEN ' not null' ELSE '' END
    || coalesce(' default ' || pg_get_expr(d.adbin, d.adrelid), '') AS what
FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum
WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind NOT IN ('i', 't')
UNION ALL
SELECT 'relation', c.relname, c.relkind::text || CASE WHEN c.relrowsecurity OR c.relhassubclass THEN ' changed' ELSE '' END
FROM pg_class c WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind <> 't'
UNION ALL
SELECT 'index', c.relname, regexp_replace(pg_get_indexdef(c.oid), ' ON \S+ ', ' ')
FROM pg_class c WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind = 'i'
UNION ALL
SELECT 'trigger', c.relname || '.' || t.tgname,
    concat_ws(' ', p.proname, t.tgtype, t.tgenabled, t.tgqual IS NOT NULL, p.pronamespace = c.relnamespace)
FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid JOIN pg_proc p ON p.oid = t.tgfoid
WHERE c.relnamespace = current_schema()::regnamespace AND NOT t.tgisinternal
UNION ALL
SELECT 'rule', c.relname || '.' || r.rulename, r.ev_type::text
FROM pg_rewrite r JOIN pg_class c ON c.oid = r.ev_class WHERE c.relnamespace = current_schema()::regnamespace
UNION ALL
SELECT 'function', p.proname, encode(sha256(convert_to(concat_ws(' ', pg_get_function_identity_arguments(p.oid),
    p.prosecdef, p.proconfig::text, l.lanname, p.prosrc), 'UTF8')), 'hex')
FROM pg_proc p JOIN pg_language l ON l.oid = p.prolang WHERE p.pronamespace = current_schema()::regnamespace
ORDER BY 1, 2
