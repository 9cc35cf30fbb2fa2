-- The board: tables beside the bus, in a schema of their own, by which the coordinator and the hosts of its turns meet.
-- It is no part of the hash chain: all that counts is on the bus. A host's role has no right on any table, and may call
-- the functions that are granted to it; each looks who calls, and whether the turn is still that caller's.
--
-- Run with the board's schema as the search path. Every statement can be run again.

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
    state text NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'claimed', 'begun', 'over')),
    how text NOT NULL DEFAULT '' CHECK (how IN ('', 'ended', 'dead', 'lost', 'handed back')),
    host text NOT NULL DEFAULT '',
    worker text NOT NULL DEFAULT '',
    attempt integer NOT NULL DEFAULT 0,
    cancelled boolean NOT NULL DEFAULT false,
    PRIMARY KEY (job, turn, epoch)
);

CREATE TABLE IF NOT EXISTS board_events (
    job text NOT NULL,
    turn text NOT NULL,
    epoch bigint NOT NULL,
    number bigint NOT NULL,
    body text NOT NULL,
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

-- Give up the claim of a process that is lost: a turn that had begun is lost, any other is open again.
CREATE OR REPLACE FUNCTION board_let_go(a_job text, a_turn text, an_epoch bigint) RETURNS void
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    o board_orders;
BEGIN
    SELECT * INTO o FROM board_orders WHERE job = a_job AND turn = a_turn AND epoch = an_epoch FOR UPDATE;
    IF o.state NOT IN ('claimed', 'begun') OR board_lives(o.host, o.worker) THEN
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
BEGIN
    SELECT * INTO STRICT m FROM board_meta;
    lost_seconds := m.lost_seconds;
    problem := '';
    IF its_protocol <> m.protocol OR its_version <> m.version THEN
        problem := 'version ' || m.version || ' ' || m.protocol;
        RETURN;
    END IF;
    IF a_name !~ '^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$' OR length(a_worker) > 64 OR its_slots NOT BETWEEN 1 AND 1000
       OR length(its_boundary) > 300 OR cardinality(its_labels) > 32 OR length(array_to_string(its_labels, '')) > 2000 THEN
        problem := 'odd';
        RETURN;
    END IF;
    INSERT INTO board_hosts (name, worker, role, slots, labels, version, boundary, seen)
    VALUES (a_name, a_worker, session_user, its_slots, its_labels, its_version, its_boundary, clock_timestamp())
    ON CONFLICT (name) DO NOTHING;
    SELECT * INTO STRICT h FROM board_hosts WHERE name = a_name FOR UPDATE;
    IF h.worker <> a_worker THEN
        IF h.role <> session_user THEN
            problem := 'role';
            RETURN;
        END IF;
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
    UPDATE board_hosts h SET seen = clock_timestamp(), used = its_used, draining = is_draining
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

-- Claim a turn, and get its order. Codes: yours, over, held (a living host has it), lost (the host that had it is).
CREATE OR REPLACE FUNCTION board_claim(
    a_job text, a_turn text, an_epoch bigint, a_name text, a_worker text,
    OUT code text, OUT its_attempt integer, OUT its_document text, OUT its_shipped text
) LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    o board_orders;
BEGIN
    PERFORM board_caller(a_name, a_worker);
    PERFORM board_let_go(a_job, a_turn, an_epoch);
    SELECT * INTO o FROM board_orders WHERE job = a_job AND turn = a_turn AND epoch = an_epoch FOR UPDATE;
    IF NOT FOUND OR (o.state = 'over' AND o.how <> 'lost') THEN
        code := 'over';
    ELSIF o.state = 'over' THEN
        code := 'lost';
    ELSIF o.state = 'claimed' AND o.host = a_name AND o.worker = a_worker THEN
        code := 'yours';  -- the answer to its first call did not arrive
        its_attempt := o.attempt;
    ELSIF o.state <> 'open' THEN
        code := 'held';
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
        FOR UPDATE;
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

-- Add events to a turn. False: it is not the caller's any more.
CREATE OR REPLACE FUNCTION board_tell(
    a_job text, a_turn text, an_epoch bigint, an_attempt integer, a_name text, a_worker text, first bigint,
    bodies text[]
) RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    o board_orders;
BEGIN
    SELECT * INTO o FROM board_own(a_job, a_turn, an_epoch, an_attempt, a_name, a_worker);
    IF NOT FOUND OR o.state <> 'begun' THEN
        RETURN false;
    END IF;
    IF (SELECT max(length(body)) FROM unnest(bodies) body) > 8388608 THEN
        RAISE EXCEPTION 'too long' USING ERRCODE = '22001';
    END IF;
    INSERT INTO board_events
    SELECT a_job, a_turn, an_epoch, first + at - 1, body FROM unnest(bodies) WITH ORDINALITY told(body, at)
    ON CONFLICT DO NOTHING;
    PERFORM board_ring('_told', a_job, a_turn);
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

-- Every turn that a worker has claimed: whether it is still its own, and not cancelled.
CREATE OR REPLACE FUNCTION board_mine(a_name text, a_worker text)
RETURNS TABLE (its_job text, its_turn text, its_epoch bigint, goes_on boolean)
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    PERFORM board_caller(a_name, a_worker);
    RETURN QUERY
        SELECT job, turn, epoch, state IN ('claimed', 'begun') AND NOT cancelled
        FROM board_orders WHERE host = a_name AND worker = a_worker;
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
    IF length(body) > 8388608 OR (its_how = 'ended' AND (o.state <> 'begun' OR o.cancelled)) THEN
        RETURN false;
    END IF;
    IF body <> '' THEN
        INSERT INTO board_events VALUES (a_job, a_turn, an_epoch, number, body);
    END IF;
    IF its_how = 'handed back' AND o.state = 'claimed' AND NOT o.cancelled THEN
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

DO $$
DECLARE
    f regprocedure;
BEGIN
    FOR f IN SELECT p.oid::regprocedure FROM pg_proc p
             WHERE p.pronamespace = current_schema()::regnamespace AND p.proname LIKE 'board\_%' LOOP
        EXECUTE format('REVOKE ALL ON FUNCTION %s FROM PUBLIC', f);
    END LOOP;
    REVOKE ALL ON board_meta, board_hosts, board_orders, board_events, board_replies FROM PUBLIC;
END
$$;
