-- The board: tables beside the bus, in a schema of their own, by which the coordinator and the hosts of its turns meet.
-- It is no part of the hash chain: all that counts is on the bus. A host's role has no right on any table, and may call
-- the functions that are granted to it; each looks who calls, and whether the turn is still that caller's.
--
-- Run with the board's schema as the search path. Every statement can be run again.
--
-- A host's session may keep a transaction open for ever, with all that it has locked. So a function locks nothing that is
-- another host's, and the coordinator never waits for a lock on a turn: what it can't lock, it tries again later.

CREATE TABLE IF NOT EXISTS board_meta (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    protocol integer NOT NULL,
    version text NOT NULL,
    script text NOT NULL,          -- the digest of this file, as it was last run
    lost_seconds double precision NOT NULL
);

CREATE TABLE IF NOT EXISTS board_hosts (
    name text PRIMARY KEY,
    worker text NOT NULL,          -- which process: a random id
    role name NOT NULL,            -- the database role that it came with: no other may speak for it
    slots integer NOT NULL,
    used integer NOT NULL DEFAULT 0,
    labels text[] NOT NULL,
    version text NOT NULL,
    boundary text NOT NULL,
    seen timestamptz NOT NULL,
    draining boolean NOT NULL DEFAULT false,
    gone boolean NOT NULL DEFAULT false  -- it said that it ends
);

CREATE TABLE IF NOT EXISTS board_orders (
    job text NOT NULL,
    turn text NOT NULL,
    epoch bigint NOT NULL,
    agent text NOT NULL,
    thread text NOT NULL,
    document text NOT NULL,
    shipped text NOT NULL,
    label text NOT NULL DEFAULT '',     -- only hosts that have it may claim the turn; empty: all may
    state text NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'claimed', 'begun', 'over')),
    how text NOT NULL DEFAULT '' CHECK (how IN ('', 'ended', 'dead', 'lost', 'handed back')),
    host text NOT NULL DEFAULT '',
    worker text NOT NULL DEFAULT '',
    attempt integer NOT NULL DEFAULT 0,
    cancelled boolean NOT NULL DEFAULT false,
    told bigint NOT NULL DEFAULT 0,     -- the number of its last event: they are numbered without gaps
    weight bigint NOT NULL DEFAULT 0,   -- of all its events, in bytes
    PRIMARY KEY (job, turn, epoch)
);

CREATE TABLE IF NOT EXISTS board_events (
    job text NOT NULL,
    turn text NOT NULL,
    epoch bigint NOT NULL,
    number bigint NOT NULL,
    body text NOT NULL,
    ends boolean NOT NULL DEFAULT false,  -- it came along with the turn's end
    PRIMARY KEY (job, turn, epoch, number),
    FOREIGN KEY (job, turn, epoch) REFERENCES board_orders ON DELETE CASCADE
);

CREATE TABLE IF NOT EXISTS board_replies (
    job text NOT NULL,
    turn text NOT NULL,
    epoch bigint NOT NULL,
    number bigint NOT NULL,
    body text NOT NULL,
    PRIMARY KEY (job, turn, epoch, number),
    FOREIGN KEY (job, turn, epoch) REFERENCES board_orders ON DELETE CASCADE
);

-- How often a job was to rest: any role may notify, so what is notified is looked up here.
CREATE TABLE IF NOT EXISTS board_rests (job text PRIMARY KEY, times bigint NOT NULL);

-- ---- what both sides use ---------------------------------------------------------------------------

-- Whether the process that has claimed a turn is alive, by the server's clock.
CREATE OR REPLACE FUNCTION board_lives(a_host text, a_worker text) RETURNS boolean
LANGUAGE sql STABLE SET search_path FROM CURRENT AS $$
    SELECT EXISTS (
        SELECT FROM board_hosts h, board_meta m
        WHERE h.name = a_host AND h.worker = a_worker AND NOT h.gone
          AND h.seen > clock_timestamp() - make_interval(secs => m.lost_seconds)
    )
$$;

-- Tell the coordinators, or the hosts, that something of a turn has changed. Ids only: any role may listen.
CREATE OR REPLACE FUNCTION board_ring(whom text, a_job text, a_turn text) RETURNS void
LANGUAGE sql SET search_path FROM CURRENT AS $$
    SELECT pg_notify(current_schema() || whom, a_job || '/' || a_turn)
$$;

-- Give up the claim of a process that is lost: a turn that had begun is lost, any other is open again. Nothing happens
-- where another session has the turn locked.
CREATE OR REPLACE FUNCTION board_let_go(a_job text, a_turn text, an_epoch bigint) RETURNS void
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    o board_orders;
BEGIN
    SELECT * INTO o FROM board_orders WHERE job = a_job AND turn = a_turn AND epoch = an_epoch
    FOR NO KEY UPDATE SKIP LOCKED;
    IF NOT FOUND OR o.state NOT IN ('claimed', 'begun') OR board_lives(o.host, o.worker) THEN
        RETURN;
    END IF;
    IF o.state = 'begun' OR o.cancelled THEN
        UPDATE board_orders SET state = 'over', how = 'lost'
        WHERE job = a_job AND turn = a_turn AND epoch = an_epoch;
    ELSE
        UPDATE board_orders SET state = 'open', host = '', worker = ''
        WHERE job = a_job AND turn = a_turn AND epoch = an_epoch;
    END IF;
    PERFORM board_ring('_told', a_job, a_turn);
END
$$;

-- ---- what the coordinator alone calls ---------------------------------------------------------------

-- End a turn: at once where no host has it; else its host hears of it. False: a session has it locked.
CREATE OR REPLACE FUNCTION board_cancel(a_job text, a_turn text, an_epoch bigint) RETURNS boolean
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    INSERT INTO board_orders (job, turn, epoch, agent, thread, document, shipped, state, how, cancelled)
    SELECT a_job, a_turn, an_epoch, '', '', '', '', 'over', 'dead', true
    WHERE NOT EXISTS (SELECT FROM board_orders WHERE job = a_job AND turn = a_turn AND epoch = an_epoch)
    ON CONFLICT DO NOTHING;  -- which alone would wait for a session that has it locked
    IF NOT FOUND THEN
        PERFORM FROM board_orders WHERE job = a_job AND turn = a_turn AND epoch = an_epoch
        FOR NO KEY UPDATE SKIP LOCKED;
        IF NOT FOUND THEN
            RETURN false;
        END IF;
        UPDATE board_orders SET cancelled = true, how = CASE state WHEN 'open' THEN 'dead' ELSE how END,
            state = CASE state WHEN 'open' THEN 'over' ELSE state END
        WHERE job = a_job AND turn = a_turn AND epoch = an_epoch;
    END IF;
    PERFORM board_ring('_asked', a_job, a_turn);
    RETURN true;
END
$$;

-- ---- what a host may call --------------------------------------------------------------------------

-- Refuse a caller that is not the process which it says it is.
CREATE OR REPLACE FUNCTION board_caller(a_name text, a_worker text) RETURNS void
LANGUAGE plpgsql STABLE SET search_path FROM CURRENT AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM board_hosts WHERE name = a_name AND worker = a_worker AND role = session_user) THEN
        RAISE EXCEPTION 'no such worker' USING ERRCODE = '42501';
    END IF;
END
$$;

-- A worker starts. The answer: why it can't, or nothing; and after how many seconds of silence it counts as lost.
CREATE OR REPLACE FUNCTION board_hello(
    a_name text, a_worker text, its_slots integer, its_labels text[], its_version text, its_protocol integer,
    its_boundary text, OUT problem text, OUT lost_seconds double precision
) LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    m board_meta;
    h board_hosts;
    o board_orders;
    named CONSTANT text := '^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$';
BEGIN
    SELECT * INTO STRICT m FROM board_meta;
    lost_seconds := m.lost_seconds;
    problem := '';
    IF its_protocol IS DISTINCT FROM m.protocol OR its_version IS DISTINCT FROM m.version THEN
        problem := 'version ' || m.version || ' ' || m.protocol;
        RETURN;
    END IF;
    IF (a_name ~ named AND length(a_worker) BETWEEN 1 AND 64 AND its_slots BETWEEN 1 AND 1000
        AND length(its_boundary) <= 300 AND cardinality(its_labels) <= 32 AND coalesce(array_ndims(its_labels), 1) = 1
        AND (SELECT coalesce(bool_and(label ~ named), true) AND count(*) = count(label) FROM unnest(its_labels) label)
       ) IS NOT TRUE THEN
        problem := 'odd';
        RETURN;
    END IF;
    SELECT * INTO h FROM board_hosts WHERE name = a_name;
    IF NOT FOUND THEN
        DELETE FROM board_hosts WHERE name IN (
            SELECT b.name FROM board_hosts b WHERE b.role = session_user
              AND b.seen < clock_timestamp() - interval '30 days'
              AND NOT EXISTS (SELECT FROM board_orders b_o WHERE b_o.host = b.name AND b_o.state IN ('claimed', 'begun'))
            FOR UPDATE SKIP LOCKED);
        IF (SELECT count(*) FROM board_hosts WHERE role = session_user) >= 1000 THEN
            problem := 'many';
            RETURN;
        END IF;
        INSERT INTO board_hosts (name, worker, role, slots, labels, version, boundary, seen)
        VALUES (a_name, a_worker, session_user, its_slots, its_labels, its_version, its_boundary, clock_timestamp())
        ON CONFLICT (name) DO NOTHING;
        SELECT * INTO STRICT h FROM board_hosts WHERE name = a_name;
    END IF;
    IF h.role <> session_user THEN  -- before it is locked: it is another's
        problem := 'role';
        RETURN;
    END IF;
    SELECT * INTO STRICT h FROM board_hosts WHERE name = a_name FOR NO KEY UPDATE;
    IF h.worker <> a_worker THEN
        IF board_lives(h.name, h.worker) THEN
            problem := 'lives';
            RETURN;
        END IF;
        UPDATE board_hosts
        SET worker = a_worker, slots = its_slots, used = 0, labels = its_labels, version = its_version,
            boundary = its_boundary, seen = clock_timestamp(), draining = false, gone = false
        WHERE name = a_name;
    END IF;
    -- what an earlier process of this name had claimed is lost
    FOR o IN SELECT * FROM board_orders WHERE host = a_name AND worker <> a_worker AND state IN ('claimed', 'begun') LOOP
        PERFORM board_let_go(o.job, o.turn, o.epoch);
    END LOOP;
END
$$;

-- A worker lives. False: it counts as another's by now, or the coordinator has another version: it has to end.
CREATE OR REPLACE FUNCTION board_alive(a_name text, a_worker text, its_used integer, is_draining boolean)
RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    UPDATE board_hosts h SET seen = clock_timestamp(), used = least(greatest(its_used, 0), h.slots),
        draining = is_draining
    FROM board_meta m
    WHERE h.name = a_name AND h.worker = a_worker AND h.role = session_user AND h.version = m.version;
    RETURN FOUND;
END
$$;

-- A worker ends; its turns are over.
CREATE OR REPLACE FUNCTION board_bye(a_name text, a_worker text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    o board_orders;
BEGIN
    PERFORM board_caller(a_name, a_worker);
    UPDATE board_hosts SET gone = true, used = 0 WHERE name = a_name AND worker = a_worker;
    FOR o IN SELECT * FROM board_orders WHERE host = a_name AND worker = a_worker AND state IN ('claimed', 'begun') LOOP
        PERFORM board_let_go(o.job, o.turn, o.epoch);
    END LOOP;
END
$$;

-- Claim a turn, and get its order. Codes: yours, over, held (another host has it), lost (the host that had it is), busy
-- (it is for hosts with a label, or the caller has as many as it has slots). Of a turn that has begun only the coordinator
-- says that its host is lost: it knows whether hosts could show themselves.
CREATE OR REPLACE FUNCTION board_claim(
    a_job text, a_turn text, an_epoch bigint, a_name text, a_worker text,
    OUT code text, OUT its_attempt integer, OUT its_document text, OUT its_shipped text
) LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    o board_orders;
    h board_hosts;
BEGIN
    PERFORM board_caller(a_name, a_worker);
    SELECT * INTO o FROM board_orders WHERE job = a_job AND turn = a_turn AND epoch = an_epoch;
    IF o.state IN ('claimed', 'begun') AND NOT (o.host = a_name AND o.worker = a_worker) THEN
        IF o.state = 'begun' OR board_lives(o.host, o.worker) THEN
            code := 'held';  -- before it is locked: it is another's
            RETURN;
        END IF;
        PERFORM board_let_go(a_job, a_turn, an_epoch);
        SELECT * INTO o FROM board_orders WHERE job = a_job AND turn = a_turn AND epoch = an_epoch;
    END IF;
    IF o.state = 'open' OR (o.state = 'claimed' AND o.host = a_name AND o.worker = a_worker) THEN
        SELECT * INTO o FROM board_orders WHERE job = a_job AND turn = a_turn AND epoch = an_epoch
        FOR NO KEY UPDATE SKIP LOCKED;
        IF NOT FOUND THEN
            code := 'held';
            RETURN;
        END IF;
    END IF;
    SELECT * INTO STRICT h FROM board_hosts WHERE name = a_name;
    IF o.state IS NULL OR (o.state = 'over' AND o.how <> 'lost') THEN
        code := 'over';
    ELSIF o.state = 'over' THEN
        code := 'lost';
    ELSIF o.state = 'claimed' AND o.host = a_name AND o.worker = a_worker THEN
        code := 'yours';  -- the answer to its first call did not arrive
        its_attempt := o.attempt;
    ELSIF o.state <> 'open' THEN
        code := 'held';
    ELSIF (o.label <> '' AND o.label <> ALL (h.labels)) OR h.slots <= (
        SELECT count(*) FROM board_orders WHERE host = a_name AND worker = a_worker AND state IN ('claimed', 'begun')
    ) THEN
        code := 'busy';
    ELSE
        code := 'yours';
        its_attempt := o.attempt + 1;
        UPDATE board_orders SET state = 'claimed', host = a_name, worker = a_worker, attempt = its_attempt
        WHERE job = a_job AND turn = a_turn AND epoch = an_epoch;
    END IF;
    IF code = 'yours' THEN
        its_document := o.document;
        its_shipped := o.shipped;
    END IF;
END
$$;

-- The turn of a caller that still has it, locked; no row if it is not the caller's any more.
CREATE OR REPLACE FUNCTION board_own(
    a_job text, a_turn text, an_epoch bigint, an_attempt integer, a_name text, a_worker text
) RETURNS SETOF board_orders LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    PERFORM board_caller(a_name, a_worker);
    RETURN QUERY
        SELECT * FROM board_orders
        WHERE job = a_job AND turn = a_turn AND epoch = an_epoch AND attempt = an_attempt
          AND host = a_name AND worker = a_worker
        FOR NO KEY UPDATE;
END
$$;

-- The agent is about to be started: from here on the turn is never given to another host. False: it must not be.
CREATE OR REPLACE FUNCTION board_begin(
    a_job text, a_turn text, an_epoch bigint, an_attempt integer, a_name text, a_worker text
) RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    o board_orders;
BEGIN
    SELECT * INTO o FROM board_own(a_job, a_turn, an_epoch, an_attempt, a_name, a_worker);
    IF NOT FOUND OR o.cancelled OR o.state NOT IN ('claimed', 'begun') THEN
        RETURN false;
    END IF;
    UPDATE board_orders SET state = 'begun' WHERE job = a_job AND turn = a_turn AND epoch = an_epoch;
    PERFORM board_ring('_told', a_job, a_turn);
    RETURN true;
END
$$;

-- Take events into a turn, which are numbered from `first`. Refused where there are gaps, or more than a turn may tell.
CREATE OR REPLACE FUNCTION board_take(o board_orders, first bigint, bodies text[], is_end boolean) RETURNS void
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    many bigint;
    longest bigint;
    weighs bigint;
BEGIN
    SELECT count(*), max(octet_length(body)), sum(octet_length(body) + 100) INTO many, longest, weighs
    FROM unnest(bodies) body WHERE body <> '';
    IF many <> cardinality(bodies) OR many = 0 OR first IS DISTINCT FROM o.told + 1 THEN
        RAISE EXCEPTION 'events out of order' USING ERRCODE = '22023';
    END IF;
    IF longest > 8388608 OR (weighs + o.weight > 100663296 AND NOT is_end) THEN
        RAISE EXCEPTION 'more than a turn may tell' USING ERRCODE = '22001';
    END IF;
    INSERT INTO board_events
    SELECT o.job, o.turn, o.epoch, first + at - 1, body, is_end FROM unnest(bodies) WITH ORDINALITY e(body, at);
    UPDATE board_orders SET told = told + many, weight = weight + weighs
    WHERE job = o.job AND turn = o.turn AND epoch = o.epoch;
END
$$;

-- Add events to a turn. False: it is not the caller's any more, or it is to end.
CREATE OR REPLACE FUNCTION board_tell(
    a_job text, a_turn text, an_epoch bigint, an_attempt integer, a_name text, a_worker text, first bigint,
    bodies text[]
) RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    o board_orders;
BEGIN
    SELECT * INTO o FROM board_own(a_job, a_turn, an_epoch, an_attempt, a_name, a_worker);
    IF NOT FOUND OR o.state <> 'begun' OR o.cancelled THEN
        RETURN false;
    END IF;
    IF first + cardinality(bodies) - 1 > o.told THEN  -- else they are here: the answer to the first call did not arrive
        PERFORM board_take(o, first, bodies, false);
        PERFORM board_ring('_told', a_job, a_turn);
    END IF;
    RETURN true;
END
$$;

-- The replies to those calls of a turn that wait for one.
CREATE OR REPLACE FUNCTION board_heard(
    a_job text, a_turn text, an_epoch bigint, an_attempt integer, a_name text, a_worker text, waiting bigint[]
) RETURNS TABLE (its_number bigint, its_body text)
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    IF EXISTS (SELECT FROM board_own(a_job, a_turn, an_epoch, an_attempt, a_name, a_worker)) THEN
        RETURN QUERY
            SELECT number, body FROM board_replies
            WHERE job = a_job AND turn = a_turn AND epoch = an_epoch AND number = ANY (waiting);
    END IF;
END
$$;

-- Every turn that a worker has: whether it goes on, or was cancelled.
CREATE OR REPLACE FUNCTION board_mine(a_name text, a_worker text)
RETURNS TABLE (its_job text, its_turn text, its_epoch bigint, goes_on boolean, its_attempt integer)
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    PERFORM board_caller(a_name, a_worker);
    RETURN QUERY
        SELECT job, turn, epoch, NOT cancelled, attempt
        FROM board_orders WHERE host = a_name AND worker = a_worker AND state IN ('claimed', 'begun');
END
$$;

-- A turn is over, and every process of it is gone. `its_how`: ended, with the event that says so; dead, since it was
-- cancelled; or handed back, since the host ends. False: it is not the caller's any more.
CREATE OR REPLACE FUNCTION board_end(
    a_job text, a_turn text, an_epoch bigint, an_attempt integer, a_name text, a_worker text, its_how text,
    number bigint, body text
) RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    o board_orders;
BEGIN
    SELECT * INTO o FROM board_own(a_job, a_turn, an_epoch, an_attempt, a_name, a_worker);
    IF NOT FOUND OR its_how NOT IN ('ended', 'dead', 'handed back') THEN
        RETURN false;
    END IF;
    IF o.state = 'over' THEN
        RETURN o.how = its_how;  -- the answer to its first call did not arrive
    END IF;
    IF its_how = 'ended' AND (o.state <> 'begun' OR o.cancelled) THEN
        RETURN false;
    END IF;
    IF body <> '' OR its_how = 'ended' THEN
        PERFORM board_take(o, number, ARRAY[body], true);
    END IF;
    IF its_how = 'handed back' AND o.state = 'claimed' AND NOT o.cancelled AND o.attempt < 20 THEN
        UPDATE board_orders SET state = 'open', host = '', worker = ''
        WHERE job = a_job AND turn = a_turn AND epoch = an_epoch;
    ELSE
        UPDATE board_orders SET state = 'over', how = its_how
        WHERE job = a_job AND turn = a_turn AND epoch = an_epoch;
    END IF;
    PERFORM board_ring('_told', a_job, a_turn);
    RETURN true;
END
$$;

-- How often a job was to rest.
CREATE OR REPLACE FUNCTION board_rested(a_name text, a_worker text, a_job text) RETURNS bigint
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    PERFORM board_caller(a_name, a_worker);
    RETURN coalesce((SELECT times FROM board_rests WHERE job = a_job), 0);
END
$$;

DO $$
DECLARE
    f regprocedure;
BEGIN
    FOR f IN SELECT p.oid::regprocedure FROM pg_proc p
             WHERE p.pronamespace = current_schema()::regnamespace AND p.proname LIKE 'board\_%' LOOP
        EXECUTE format('REVOKE ALL ON FUNCTION %s FROM PUBLIC', f);
    END LOOP;
    REVOKE ALL ON board_meta, board_hosts, board_orders, board_events, board_replies, board_rests FROM PUBLIC;
END
$$;
