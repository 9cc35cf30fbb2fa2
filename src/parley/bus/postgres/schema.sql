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
-- Every writer shares an advisory lock on the bus (1), which a store that is alone has to itself; so does a migration.
-- What is numbered across jobs is numbered under another (2). A fault has a code of its own, which postgres_errors.py
-- explains: PY001 ownership lost, PY002 message out of order, PY003 turn not out, PY004 input not there, PY005 another
-- schema, PY006 no such job, PY007 job known, PY008 key used. The channel of notices is the schema's name, and a notice
-- says which store wrote.

CREATE FUNCTION begin_write(p_version integer) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock_shared('meta'::regclass::oid::integer, 1);
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
    PERFORM pg_advisory_xact_lock('meta'::regclass::oid::integer, 2);
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
        SELECT l.expires INTO ends FROM leases l WHERE l.owner = holder FOR UPDATE;
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
    PERFORM pg_advisory_xact_lock('meta'::regclass::oid::integer, 2);
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
-- A wave is a list of lists of rows, each with its job's serial first; postgres_writes.py makes it.
CREATE FUNCTION commit_jobs(p_sender text, p_generation integer, p_waves jsonb) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    wave jsonb;
    part jsonb;
    done bigint;
BEGIN
    PERFORM pg_advisory_xact_lock_shared('meta'::regclass::oid::integer, 1);
    -- Locked until the commit: another process that finds the lease ended waits for it.
    PERFORM 1 FROM leases
    WHERE owner = p_sender AND generation = p_generation AND expires > clock_timestamp() FOR KEY SHARE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'lease' USING ERRCODE = 'PY001';
    END IF;
    FOR wave IN SELECT value FROM jsonb_array_elements(p_waves) LOOP
        part := wave->0;
        INSERT INTO commits (job, number, time, epoch, steps, messages, head, digests, seal)
        SELECT o.job, (r->>1)::bigint, (r->>2)::double precision, (r->>3)::bigint, (r->>4)::bigint, (r->>5)::bigint,
            r->>6, r->>7, r->>8
        FROM jsonb_array_elements(part) e (r)
        JOIN owners o ON o.job = (r->>0)::bigint AND o.epoch = (r->>9)::bigint AND o.owner = p_sender;
        GET DIAGNOSTICS done = ROW_COUNT;
        IF done <> jsonb_array_length(part) THEN
            RAISE EXCEPTION 'epoch' USING ERRCODE = 'PY001';
        END IF;

        part := wave->1;
        IF part <> '[]' THEN
            INSERT INTO steps (job, number, txn, rule, who, time, at, choice, consumed, produced, extra)
            SELECT (r->>0)::bigint, (r->>1)::bigint, (r->>2)::bigint, r->>3, r->>4, (r->>5)::double precision,
                r->>6, r->>7, r->>8, r->>9, r->>10
            FROM jsonb_array_elements(part) e (r);
        END IF;

        part := wave->2;
        IF part <> '[]' THEN
            INSERT INTO messages (
                job, number, txn, sender, sender_thread, agent, thread, seq, key, time, body, meta, kind
            )
            SELECT (r->>0)::bigint, (r->>1)::bigint, (r->>2)::bigint, r->>3, r->>4, r->>5, r->>6, (r->>7)::bigint,
                r->>8, (r->>9)::double precision, r->>10, r->>11, r->>12
            FROM jsonb_array_elements(part) e (r);

            -- Each recipient once: the first of its new numbers has to lie beyond its last, and the last is kept.
            part := wave->3;
            PERFORM 1 FROM jsonb_array_elements(part) e (r)
            JOIN recipients c ON c.job = (r->>0)::bigint AND c.agent = r->>1 AND c.thread = r->>2
            WHERE c.seq >= (r->>3)::bigint;
            IF FOUND THEN
                RAISE EXCEPTION 'order' USING ERRCODE = 'PY002';
            END IF;
            INSERT INTO recipients (job, agent, thread, seq)
            SELECT (r->>0)::bigint, r->>1, r->>2, (r->>4)::bigint FROM jsonb_array_elements(part) e (r)
            ON CONFLICT (job, agent, thread) DO UPDATE SET seq = excluded.seq;
        END IF;

        part := wave->4;
        IF part <> '[]' THEN
            DELETE FROM molecules m USING jsonb_array_elements(part) e (r)
            WHERE m.job = (r->>0)::bigint AND m.slot = r->>1;
        END IF;
        part := wave->5;
        IF part <> '[]' THEN
            INSERT INTO molecules (job, slot, body)
            SELECT (r->>0)::bigint, r->>1, r->>2 FROM jsonb_array_elements(part) e (r)
            ON CONFLICT (job, slot) DO UPDATE SET body = excluded.body;
        END IF;

        part := wave->6;
        IF part <> '[]' THEN
            INSERT INTO turns (job, number, agent, thread, message, epoch, host, status, started)
            SELECT (r->>0)::bigint, (r->>1)::bigint, r->>2, r->>3, r->>4, (r->>5)::bigint, r->>6, r->>7,
                (r->>8)::double precision
            FROM jsonb_array_elements(part) e (r);
        END IF;
        part := wave->7;
        IF part <> '[]' THEN
            UPDATE turns t SET status = r->>3 FROM jsonb_array_elements(part) e (r)
            WHERE t.job = (r->>0)::bigint AND t.number = (r->>1)::bigint AND t.epoch = (r->>2)::bigint
                AND t.status = 'submitted';
            GET DIAGNOSTICS done = ROW_COUNT;
            IF done <> jsonb_array_length(part) THEN
                RAISE EXCEPTION 'turn' USING ERRCODE = 'PY003';
            END IF;
        END IF;

        part := wave->8;
        IF part <> '[]' THEN
            INSERT INTO spending AS s (job, day, turns, tokens, micros, millis)
            SELECT (r->>0)::bigint, r->>1, (r->>2)::bigint, (r->>3)::bigint, (r->>4)::bigint, (r->>5)::bigint
            FROM jsonb_array_elements(part) e (r)
            ON CONFLICT (job, day) DO UPDATE SET turns = s.turns + excluded.turns, tokens = s.tokens + excluded.tokens,
                micros = s.micros + excluded.micros, millis = s.millis + excluded.millis;
        END IF;

        part := wave->9;
        IF part <> '[]' THEN
            UPDATE inputs i SET taken = (r->>2)::bigint, note = r->>3 FROM jsonb_array_elements(part) e (r)
            WHERE i.number = (r->>1)::bigint AND i.job = r->>0 AND i.taken = 0;
            GET DIAGNOSTICS done = ROW_COUNT;
            IF done <> jsonb_array_length(part) THEN
                RAISE EXCEPTION 'input' USING ERRCODE = 'PY004';
            END IF;
        END IF;

        part := wave->10;
        IF part <> '[]' THEN
            UPDATE jobs j SET updated = (r->>1)::double precision, state = r->>2, visit = (r->>3)::bigint,
                backtracks = (r->>4)::bigint, needs_human = (r->>5)::bigint, held = (r->>6)::bigint
            FROM jsonb_array_elements(part) e (r) WHERE j.serial = (r->>0)::bigint;
        END IF;
    END LOOP;
    PERFORM pg_notify(current_schema(), p_sender);
END $$;
