-- The readable files of jobs whose bus is on this server, so that every coordinator of the home has them. They lie in a
-- PostgreSQL schema of their own beside the bus's: the bus's own holds what the audit proves, and nothing else.

-- name: schema
-- A stream grows by rows; of any other file the last version is kept. Numbers count a job's writes, so that a reader asks
-- for what came after the last one it has.
CREATE TABLE IF NOT EXISTS writes (
    job text COLLATE "C" NOT NULL,
    number bigint NOT NULL,
    name text COLLATE "C" NOT NULL,
    appended boolean NOT NULL,
    body bytea NOT NULL,
    signature text COLLATE "C" NOT NULL,
    PRIMARY KEY (job, number)
);
CREATE UNIQUE INDEX IF NOT EXISTS writes_whole ON writes (job, name) WHERE NOT appended;
CREATE TABLE IF NOT EXISTS counters (
    job text COLLATE "C" PRIMARY KEY,
    number bigint NOT NULL DEFAULT 0,
    published text COLLATE "C" NOT NULL DEFAULT ''  -- the job's state on the git remote; a hint for those who look
);
-- Only the job's owner writes, and it knows which number is next: a call that is made again does nothing. The lease is
-- locked until the write is committed, so that the next owner sees it, or keeps it from being made.
CREATE OR REPLACE FUNCTION keep_write(
    p_owner text, p_job text, p_number bigint, p_name text, p_appended boolean, p_body bytea, p_signature text
) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    last bigint;
BEGIN
    PERFORM 1 FROM {bus}.leases l JOIN {bus}.owners o ON o.owner = l.owner JOIN {bus}.jobs j ON j.serial = o.job
    WHERE l.owner = p_owner AND j.job = p_job AND l.expires > clock_timestamp() FOR KEY SHARE OF l;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'lease' USING ERRCODE = 'PY001';
    END IF;
    INSERT INTO counters (job, number) VALUES (p_job, 0) ON CONFLICT DO NOTHING;
    SELECT c.number INTO last FROM counters c WHERE c.job = p_job FOR UPDATE;
    IF last >= p_number THEN
        RETURN;
    END IF;
    IF NOT p_appended THEN
        DELETE FROM writes w WHERE w.job = p_job AND w.name = p_name AND NOT w.appended;
    END IF;
    INSERT INTO writes (job, number, name, appended, body, signature)
    VALUES (p_job, p_number, p_name, p_appended, p_body, p_signature);
    UPDATE counters c SET number = p_number WHERE c.job = p_job;
END $$;

-- name: keep
SELECT keep_write(%s, %s, %s, %s, %s, %s, %s)

-- name: together
SELECT 1

-- name: last
SELECT number FROM counters WHERE job = %s

-- name: publish
INSERT INTO counters (job, published) VALUES (%s, %s) ON CONFLICT (job) DO UPDATE SET published = excluded.published

-- name: published
SELECT published FROM counters WHERE job = %s

-- name: list
SELECT number, name, appended, body, signature FROM writes WHERE job = %s AND number > %s ORDER BY number LIMIT %s

-- name: forget
WITH gone AS (DELETE FROM writes WHERE job = %s) DELETE FROM counters WHERE job = %s
