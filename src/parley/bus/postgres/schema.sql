-- The first schema of a bus on PostgreSQL. It stays as it is: what changes later is a migration in postgres_schema.py.
-- It is run inside a PostgreSQL schema of the bus's own, which is the first of the search path in every session.
--
-- The tables are those of the SQLite bus. A row's key is its job's serial and its number. Text compares byte by byte, as it
-- does in SQLite; NUL, which PostgreSQL can't hold, is escaped (bus_text.py).

CREATE TABLE meta (
    name text COLLATE "C" PRIMARY KEY,
    value text COLLATE "C" NOT NULL
);

-- What changes of a job is small and written often; what is long is written once, in charters.
CREATE TABLE jobs (
    serial bigint PRIMARY KEY,
    job text COLLATE "C" NOT NULL UNIQUE,
    decider text COLLATE "C" NOT NULL,
    created double precision NOT NULL,
    updated double precision NOT NULL,
    state text COLLATE "C" NOT NULL,
    visit bigint NOT NULL,
    backtracks bigint NOT NULL,
    needs_human bigint NOT NULL,
    held bigint NOT NULL,
    agent text COLLATE "C" NOT NULL
) WITH (fillfactor = 50);

CREATE TABLE charters (
    job text COLLATE "C" PRIMARY KEY,
    request text COLLATE "C" NOT NULL,
    settings text COLLATE "C" NOT NULL
);

-- A store that owns jobs has one lease for all of them, which ends by the server's clock. `generation` counts the store's
-- connections: what an earlier connection had sent and the server had not yet begun is refused.
CREATE TABLE leases (
    owner text COLLATE "C" PRIMARY KEY,
    generation integer NOT NULL,
    expires timestamptz NOT NULL
) WITH (fillfactor = 50);

-- An owner that is no longer in leases, or whose lease has ended, is none.
CREATE TABLE owners (
    job bigint PRIMARY KEY,
    epoch bigint NOT NULL,
    owner text COLLATE "C" NOT NULL
) WITH (fillfactor = 50);

CREATE TABLE commits (
    job bigint NOT NULL,
    number bigint NOT NULL,
    time double precision NOT NULL,
    epoch bigint NOT NULL,
    steps bigint NOT NULL,
    messages bigint NOT NULL,
    head text COLLATE "C" NOT NULL,
    digests text COLLATE "C" NOT NULL,
    seal text COLLATE "C" NOT NULL,
    PRIMARY KEY (job, number)
);

CREATE TABLE steps (
    job bigint NOT NULL,
    number bigint NOT NULL,
    txn bigint NOT NULL,
    rule text COLLATE "C" NOT NULL,
    who text COLLATE "C" NOT NULL,
    time double precision NOT NULL,
    at text COLLATE "C" NOT NULL,
    choice text COLLATE "C" NOT NULL,
    consumed text COLLATE "C" NOT NULL,
    produced text COLLATE "C" NOT NULL,
    extra text COLLATE "C" NOT NULL,
    PRIMARY KEY (job, number)
);

CREATE TABLE messages (
    job bigint NOT NULL,
    number bigint NOT NULL,
    txn bigint NOT NULL,
    sender text COLLATE "C" NOT NULL,
    sender_thread text COLLATE "C" NOT NULL,
    agent text COLLATE "C" NOT NULL,
    thread text COLLATE "C" NOT NULL,
    seq bigint NOT NULL,
    key text COLLATE "C" NOT NULL,
    time double precision NOT NULL,
    body text COLLATE "C" NOT NULL,
    meta text COLLATE "C" NOT NULL,
    kind text COLLATE "C" NOT NULL,
    PRIMARY KEY (job, number),
    UNIQUE (job, key)
);

-- The number of the last message to each recipient, compared and set.
CREATE TABLE recipients (
    job bigint NOT NULL,
    agent text COLLATE "C" NOT NULL,
    thread text COLLATE "C" NOT NULL,
    seq bigint NOT NULL,
    PRIMARY KEY (job, agent, thread)
) WITH (fillfactor = 70);

CREATE TABLE molecules (
    job bigint NOT NULL,
    slot text COLLATE "C" NOT NULL,
    body text COLLATE "C" NOT NULL,
    PRIMARY KEY (job, slot)
) WITH (fillfactor = 70);

-- A turn is named after its number: `t17`. Those still out are few, and have an index of their own.
CREATE TABLE turns (
    job bigint NOT NULL,
    number bigint NOT NULL,
    agent text COLLATE "C" NOT NULL,
    thread text COLLATE "C" NOT NULL,
    message text COLLATE "C" NOT NULL,
    epoch bigint NOT NULL,
    host text COLLATE "C" NOT NULL,
    status text COLLATE "C" NOT NULL,
    started double precision NOT NULL,
    PRIMARY KEY (job, number)
);
CREATE INDEX turns_submitted ON turns (job, number) WHERE status = 'submitted';

-- The signature says that a process with this bus's key left the input: nothing is taken without it.
CREATE TABLE inputs (
    number bigint PRIMARY KEY,
    job text COLLATE "C" NOT NULL,
    kind text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    time double precision NOT NULL,
    by text COLLATE "C" NOT NULL,
    body text COLLATE "C" NOT NULL,
    taken bigint NOT NULL DEFAULT 0,
    note text COLLATE "C" NOT NULL DEFAULT '',
    signature text COLLATE "C" NOT NULL DEFAULT '',
    UNIQUE (job, key)
);
CREATE INDEX inputs_waiting ON inputs (job, number) WHERE taken = 0;
CREATE INDEX inputs_by_job ON inputs (job, number);

-- What was used up, by job and day.
CREATE TABLE spending (
    job bigint NOT NULL,
    day text COLLATE "C" NOT NULL,
    turns bigint NOT NULL,
    tokens bigint NOT NULL,
    micros bigint NOT NULL,
    millis bigint NOT NULL,
    PRIMARY KEY (job, day)
) WITH (fillfactor = 70);
CREATE INDEX spending_by_day ON spending (day);

-- Rows of the record are only ever added.
CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% are append-only', TG_TABLE_NAME USING ERRCODE = 'integrity_constraint_violation';
END $$;
CREATE TRIGGER steps_are_not_changed BEFORE UPDATE OR DELETE OR TRUNCATE ON steps
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER messages_are_not_changed BEFORE UPDATE OR DELETE OR TRUNCATE ON messages
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER commits_are_not_changed BEFORE UPDATE OR DELETE OR TRUNCATE ON commits
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

CREATE FUNCTION refuse_second_take() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'an input is taken once' USING ERRCODE = 'integrity_constraint_violation';
END $$;
CREATE TRIGGER inputs_are_taken_once BEFORE UPDATE ON inputs
    FOR EACH ROW WHEN (OLD.taken <> 0) EXECUTE FUNCTION refuse_second_take();

-- ---- what a store calls: one call is one transaction, unless the store is alone ------------------------------------
--
-- Every writer shares a lock of the table `writing`, which a store that is alone has to itself; so does a migration.
-- What is numbered across jobs is numbered under that of `numbering`. No advisory lock will do: any role of the database
-- may take it. A fault has a code of its own, which postgres_errors.py explains: PY001 ownership lost, PY002 message out
-- of order, PY003 turn not out, PY004 input not there, PY005 another schema, PY006 no such job, PY007 job known, PY008
-- key used. The channel of notices is the schema's name, and a notice says which store wrote.

CREATE TABLE writing ();
CREATE TABLE numbering ();

CREATE FUNCTION begin_write(p_version integer) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    LOCK TABLE writing IN ROW SHARE MODE;
    PERFORM 1 FROM meta WHERE name = 'version' AND value = p_version::text;
    IF NOT FOUND THEN
        RAISE EXCEPTION '%', coalesce((SELECT value FROM meta WHERE name = 'version'), '?') USING ERRCODE = 'PY005';
    END IF;
END $$;

CREATE FUNCTION create_job(p_version integer, p_sender text, p_row jsonb) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    made bigint;
BEGIN
    PERFORM begin_write(p_version);
    LOCK TABLE numbering IN EXCLUSIVE MODE;
    PERFORM 1 FROM jobs WHERE job = p_row->>'job';
    IF FOUND THEN
        RAISE EXCEPTION 'known' USING ERRCODE = 'PY007';
    END IF;
    SELECT coalesce(max(serial), 0) + 1 INTO made FROM jobs;
    INSERT INTO jobs (serial, job, decider, created, updated, state, visit, backtracks, needs_human, held, agent)
    VALUES (made, p_row->>'job', p_row->>'decider', (p_row->>'created')::double precision,
        (p_row->>'updated')::double precision, p_row->>'state', (p_row->>'visit')::bigint, (p_row->>'backtracks')::bigint,
        (p_row->>'needs_human')::bigint, (p_row->>'held')::bigint, p_row->>'agent');
    INSERT INTO charters (job, request, settings) VALUES (p_row->>'job', p_row->>'request', p_row->>'settings');
    INSERT INTO owners (job, epoch, owner) VALUES (made, 0, '');
    PERFORM pg_notify(current_schema(), p_sender);
END $$;

-- The lease that the job has is locked first, which waits for a commit that its owner has begun. An owner that asks again
-- because it did not hear the answer has the job already, and gets a new epoch.
CREATE FUNCTION own_job(
    p_version integer, p_sender text, p_job text, p_generation integer, p_seconds double precision,
    OUT serial bigint, OUT epoch bigint, OUT holder text, OUT remains double precision
) LANGUAGE plpgsql AS $$
DECLARE
    ends timestamptz;
BEGIN
    PERFORM begin_write(p_version);
    SELECT o.job, o.epoch, o.owner INTO serial, epoch, holder
    FROM jobs j JOIN owners o ON o.job = j.serial WHERE j.job = p_job FOR UPDATE OF o;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'unknown' USING ERRCODE = 'PY006';
    END IF;
    IF holder <> p_sender THEN
        -- Its own lease too, in one order: two owners whose leases have ended may take over each other's jobs.
        PERFORM 1 FROM leases l WHERE l.owner IN (holder, p_sender) ORDER BY l.owner FOR UPDATE;
        SELECT l.expires INTO ends FROM leases l WHERE l.owner = holder;
        remains := extract(epoch FROM ends - clock_timestamp());
        IF remains > 0 THEN
            RETURN;
        END IF;
    END IF;
    INSERT INTO leases AS l (owner, generation, expires)
    VALUES (p_sender, p_generation, clock_timestamp() + make_interval(secs => p_seconds))
    ON CONFLICT (owner) DO UPDATE SET expires = excluded.expires;
    UPDATE owners o SET epoch = o.epoch + 1, owner = p_sender WHERE o.job = serial RETURNING o.epoch INTO epoch;
    holder := p_sender;
    remains := p_seconds;
    PERFORM pg_notify(current_schema(), p_sender);
END $$;

CREATE FUNCTION leave_input(
    p_version integer, p_sender text, p_job text, p_kind text, p_key text, p_time double precision, p_by text,
    p_body text, p_signature text
) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    made bigint;
BEGIN
    PERFORM begin_write(p_version);
    PERFORM 1 FROM jobs WHERE job = p_job;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'unknown' USING ERRCODE = 'PY006';
    END IF;
    LOCK TABLE numbering IN EXCLUSIVE MODE;
    PERFORM 1 FROM inputs WHERE job = p_job AND key = p_key;
    IF FOUND THEN
        RAISE EXCEPTION 'used' USING ERRCODE = 'PY008';
    END IF;
    INSERT INTO inputs (number, job, kind, key, time, by, body, signature)
    SELECT coalesce(max(number), 0) + 1, p_job, p_kind, p_key, p_time, p_by, p_body, p_signature FROM inputs
    RETURNING number INTO made;
    PERFORM pg_notify(current_schema(), p_sender);
    RETURN made;
END $$;

-- All commits of a group. They come in waves: no job is twice in one wave, so that each table is written by one statement.
-- postgres_writes.py lays them out. p_counts has, for each wave, how many rows each of the lists below has; all their numbers
-- are in p_numbers, their times in p_times, and their texts in p_texts, with U+001F between them, or in p_json where a text has
-- that itself. n, f and t say after which of them the next list begins, i, k and j the same for one of its rows.
--
-- A plan that is made while the tables are small is kept when they are large, so that each statement leaves no choice: rows
-- are looked up one by one by their key, in a subquery that no join can be made of.
CREATE FUNCTION commit_jobs(
    p_sender text, p_generation integer, p_counts integer[], p_numbers bigint[], p_times double precision[], p_texts text,
    p_json jsonb
) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    texts text[] := string_to_array(p_texts, E'\x1f');
    counts integer[];
    n integer := 0;
    f integer := 0;
    t integer := 0;
    many integer;
    done integer;
BEGIN
    LOCK TABLE writing IN ROW SHARE MODE;
    -- Locked until the commit: another process that finds the lease ended waits for it.
    PERFORM 1 FROM leases
    WHERE owner = p_sender AND generation = p_generation AND expires > clock_timestamp() FOR KEY SHARE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'lease' USING ERRCODE = 'PY001';
    END IF;
    IF p_json IS NOT NULL THEN
        texts := ARRAY(SELECT e.value FROM jsonb_array_elements_text(p_json) WITH ORDINALITY e (value, place) ORDER BY e.place);
    END IF;
    FOREACH counts SLICE 1 IN ARRAY p_counts LOOP
        many := counts[1];
        INSERT INTO commits (job, number, time, epoch, steps, messages, head, digests, seal)
        SELECT p_numbers[i + 1], p_numbers[i + 2], p_times[k + 1], p_numbers[i + 3], p_numbers[i + 4], p_numbers[i + 5],
            texts[j + 1], texts[j + 2], texts[j + 3]
        FROM ROWS FROM (
            generate_series(n, n + 6 * many - 6, 6), generate_series(f, f + many - 1), generate_series(t, t + 3 * many - 3, 3)
        ) r (i, k, j)
        WHERE (SELECT o.epoch = p_numbers[i + 6] AND o.owner = p_sender FROM owners o WHERE o.job = p_numbers[i + 1]);
        GET DIAGNOSTICS done = ROW_COUNT;
        IF done <> many THEN
            RAISE EXCEPTION 'epoch' USING ERRCODE = 'PY001';
        END IF;
        n := n + 6 * many;
        f := f + many;
        t := t + 3 * many;

        many := counts[2];
        IF many > 0 THEN
            INSERT INTO steps (job, number, txn, rule, who, time, at, choice, consumed, produced, extra)
            SELECT p_numbers[i + 1], p_numbers[i + 2], p_numbers[i + 3], texts[j + 1], texts[j + 2], p_times[k + 1],
                texts[j + 3], texts[j + 4], texts[j + 5], texts[j + 6], texts[j + 7]
            FROM ROWS FROM (
                generate_series(n, n + 3 * many - 3, 3), generate_series(f, f + many - 1),
                generate_series(t, t + 7 * many - 7, 7)
            ) r (i, k, j);
            n := n + 3 * many;
            f := f + many;
            t := t + 7 * many;
        END IF;

        many := counts[3];
        IF many > 0 THEN
            INSERT INTO messages (
                job, number, txn, sender, sender_thread, agent, thread, seq, key, time, body, meta, kind
            )
            SELECT p_numbers[i + 1], p_numbers[i + 2], p_numbers[i + 3], texts[j + 1], texts[j + 2], texts[j + 3],
                texts[j + 4], p_numbers[i + 4], texts[j + 5], p_times[k + 1], texts[j + 6], texts[j + 7], texts[j + 8]
            FROM ROWS FROM (
                generate_series(n, n + 4 * many - 4, 4), generate_series(f, f + many - 1),
                generate_series(t, t + 8 * many - 8, 8)
            ) r (i, k, j);
            n := n + 4 * many;
            f := f + many;
            t := t + 8 * many;
        END IF;

        -- Each recipient once: the first of its new numbers has to lie beyond its last, and the last is kept.
        many := counts[4];
        IF many > 0 THEN
            PERFORM 1
            FROM ROWS FROM (generate_series(n, n + 3 * many - 3, 3), generate_series(t, t + 2 * many - 2, 2)) r (i, j)
            WHERE (
                SELECT c.seq FROM recipients c
                WHERE c.job = p_numbers[i + 1] AND c.agent = texts[j + 1] AND c.thread = texts[j + 2]
            ) >= p_numbers[i + 2];
            IF FOUND THEN
                RAISE EXCEPTION 'order' USING ERRCODE = 'PY002';
            END IF;
            INSERT INTO recipients (job, agent, thread, seq)
            SELECT p_numbers[i + 1], texts[j + 1], texts[j + 2], p_numbers[i + 3]
            FROM ROWS FROM (generate_series(n, n + 3 * many - 3, 3), generate_series(t, t + 2 * many - 2, 2)) r (i, j)
            ON CONFLICT (job, agent, thread) DO UPDATE SET seq = excluded.seq;
            n := n + 3 * many;
            t := t + 2 * many;
        END IF;

        many := counts[5];
        IF many > 0 THEN
            DELETE FROM molecules WHERE ctid = ANY (ARRAY(
                SELECT (SELECT m.ctid FROM molecules m WHERE m.job = p_numbers[i + 1] AND m.slot = texts[j + 1])
                FROM ROWS FROM (generate_series(n, n + many - 1), generate_series(t, t + many - 1)) r (i, j)
            ));
            n := n + many;
            t := t + many;
        END IF;
        many := counts[6];
        IF many > 0 THEN
            INSERT INTO molecules (job, slot, body)
            SELECT p_numbers[i + 1], texts[j + 1], texts[j + 2]
            FROM ROWS FROM (generate_series(n, n + many - 1), generate_series(t, t + 2 * many - 2, 2)) r (i, j)
            ON CONFLICT (job, slot) DO UPDATE SET body = excluded.body;
            n := n + many;
            t := t + 2 * many;
        END IF;

        many := counts[7];
        IF many > 0 THEN
            INSERT INTO turns (job, number, agent, thread, message, epoch, host, status, started)
            SELECT p_numbers[i + 1], p_numbers[i + 2], texts[j + 1], texts[j + 2], texts[j + 3], p_numbers[i + 3],
                texts[j + 4], texts[j + 5], p_times[k + 1]
            FROM ROWS FROM (
                generate_series(n, n + 3 * many - 3, 3), generate_series(f, f + many - 1),
                generate_series(t, t + 5 * many - 5, 5)
            ) r (i, k, j);
            n := n + 3 * many;
            f := f + many;
            t := t + 5 * many;
        END IF;
        many := counts[8];
        IF many > 0 THEN
            UPDATE turns SET status = e.status FROM (
                SELECT texts[j + 1] AS status, (
                    SELECT o.ctid FROM turns o WHERE o.job = p_numbers[i + 1] AND o.number = p_numbers[i + 2]
                        AND o.epoch = p_numbers[i + 3] AND o.status = 'submitted'
                ) AS place
                FROM ROWS FROM (generate_series(n, n + 3 * many - 3, 3), generate_series(t, t + many - 1)) r (i, j)
                OFFSET 0
            ) e WHERE turns.ctid = e.place;
            GET DIAGNOSTICS done = ROW_COUNT;
            IF done <> many THEN
                RAISE EXCEPTION 'turn' USING ERRCODE = 'PY003';
            END IF;
            n := n + 3 * many;
            t := t + many;
        END IF;

        many := counts[9];
        IF many > 0 THEN
            INSERT INTO spending AS s (job, day, turns, tokens, micros, millis)
            SELECT p_numbers[i + 1], texts[j + 1], p_numbers[i + 2], p_numbers[i + 3], p_numbers[i + 4], p_numbers[i + 5]
            FROM ROWS FROM (generate_series(n, n + 5 * many - 5, 5), generate_series(t, t + many - 1)) r (i, j)
            ON CONFLICT (job, day) DO UPDATE SET turns = s.turns + excluded.turns, tokens = s.tokens + excluded.tokens,
                micros = s.micros + excluded.micros, millis = s.millis + excluded.millis;
            n := n + 5 * many;
            t := t + many;
        END IF;

        many := counts[10];
        IF many > 0 THEN
            UPDATE inputs SET taken = e.taken, note = e.note FROM (
                SELECT p_numbers[i + 2] AS taken, texts[j + 2] AS note, (
                    SELECT o.ctid FROM inputs o
                    WHERE o.number = p_numbers[i + 1] AND o.job = texts[j + 1] AND o.taken = 0
                ) AS place
                FROM ROWS FROM (generate_series(n, n + 2 * many - 2, 2), generate_series(t, t + 2 * many - 2, 2)) r (i, j)
                OFFSET 0
            ) e WHERE inputs.ctid = e.place;
            GET DIAGNOSTICS done = ROW_COUNT;
            IF done <> many THEN
                RAISE EXCEPTION 'input' USING ERRCODE = 'PY004';
            END IF;
            n := n + 2 * many;
            t := t + 2 * many;
        END IF;

        many := counts[11];
        IF many > 0 THEN
            UPDATE jobs SET updated = e.updated, state = e.state, visit = e.visit, backtracks = e.backtracks,
                needs_human = e.needs_human, held = e.held
            FROM (
                SELECT p_times[k + 1] AS updated, texts[j + 1] AS state, p_numbers[i + 2] AS visit,
                    p_numbers[i + 3] AS backtracks, p_numbers[i + 4] AS needs_human, p_numbers[i + 5] AS held,
                    (SELECT o.ctid FROM jobs o WHERE o.serial = p_numbers[i + 1]) AS place
                FROM ROWS FROM (
                    generate_series(n, n + 5 * many - 5, 5), generate_series(f, f + many - 1), generate_series(t, t + many - 1)
                ) r (i, k, j)
                OFFSET 0
            ) e WHERE jobs.ctid = e.place;
            n := n + 5 * many;
            f := f + many;
            t := t + many;
        END IF;
    END LOOP;
    PERFORM pg_notify(current_schema(), p_sender);
END $$;
