-- What is remembered of the human's decisions, on a PostgreSQL server. Each statement has a name; the names and the values
-- are those of decision_store.sql.

-- name: schema
CREATE TABLE decisions (
    number bigint PRIMARY KEY,
    id text COLLATE "C" NOT NULL UNIQUE,
    time double precision NOT NULL,
    human text COLLATE "C" NOT NULL,
    repository text COLLATE "C" NOT NULL,
    job text COLLATE "C" NOT NULL,
    question text COLLATE "C" NOT NULL,
    framing text COLLATE "C" NOT NULL,
    state text COLLATE "C" NOT NULL,
    kind text COLLATE "C" NOT NULL,
    asked text COLLATE "C" NOT NULL,
    artifact text COLLATE "C" NOT NULL,
    digest text COLLATE "C" NOT NULL,
    excerpt text COLLATE "C" NOT NULL,
    before_verdict text COLLATE "C",
    before_confidence double precision,
    after_verdict text COLLATE "C",
    after_confidence double precision,
    after_reason text COLLATE "C",
    after_text text COLLATE "C",
    verdict text COLLATE "C",
    said text COLLATE "C" NOT NULL,
    how text COLLATE "C" NOT NULL,
    agreed integer NOT NULL,
    UNIQUE (job, question, framing)
);
CREATE INDEX of_kind ON decisions (human, state, kind, number) WHERE verdict IS NOT NULL;
CREATE INDEX of_state ON decisions (state, number);
-- What a correction took the place of.
CREATE TABLE corrected (
    id text COLLATE "C" NOT NULL,
    time double precision NOT NULL,
    verdict text COLLATE "C",
    said text COLLATE "C" NOT NULL,
    how text COLLATE "C" NOT NULL,
    agreed integer NOT NULL
);
CREATE INDEX corrections ON corrected (id);
-- In which decisions a word stands, and how often; `words`: how many words the decision has.
CREATE TABLE postings (
    word text COLLATE "C" NOT NULL,
    number bigint NOT NULL,
    times integer NOT NULL,
    words integer NOT NULL,
    PRIMARY KEY (word, number)
);
CREATE INDEX posted ON postings (number);
CREATE TABLE terms (term text COLLATE "C" PRIMARY KEY, seen bigint NOT NULL);
CREATE TABLE meta (version integer NOT NULL);
INSERT INTO meta VALUES (1);

-- name: version
SELECT version FROM meta

-- Writers wait for each other: decisions are numbered without gaps.
-- name: lock
LOCK TABLE meta IN EXCLUSIVE MODE

-- name: add
INSERT INTO decisions (
    number, id, time, human, repository, job, question, framing, state, kind, asked, artifact, digest, excerpt,
    before_verdict, before_confidence, after_verdict, after_confidence, after_reason, after_text,
    verdict, said, how, agreed
) VALUES (
    (SELECT coalesce(max(number), 0) + 1 FROM decisions),
    %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s
) ON CONFLICT DO NOTHING RETURNING number

-- name: add_words
INSERT INTO postings (word, number, times, words)
SELECT key, %s, value::integer, %s FROM jsonb_each_text(%s::jsonb)

-- name: drop_words
DELETE FROM postings WHERE number = %s

-- name: count_terms
INSERT INTO terms AS t (term, seen) SELECT value, 1 FROM jsonb_array_elements_text(%s::jsonb)
ON CONFLICT (term) DO UPDATE SET seen = t.seen + 1

-- name: discount_terms
UPDATE terms SET seen = seen - 1 WHERE term IN (SELECT value FROM jsonb_array_elements_text(%s::jsonb))

-- name: drop_terms
DELETE FROM terms WHERE seen <= 0

-- name: seen
SELECT term, seen FROM terms WHERE term IN (SELECT value FROM jsonb_array_elements_text(%s::jsonb))

-- name: count
SELECT count(*) AS count FROM decisions

-- name: newest
SELECT coalesce(max(number), 0) AS newest FROM decisions

-- What the proxy answered by itself is passed over: however much there is of it, it is no word of the human's.
-- name: holding
SELECT d.number FROM (SELECT p.number AS held FROM postings p WHERE p.word = %s ORDER BY p.number DESC LIMIT %s) h
JOIN decisions d ON d.number = h.held
WHERE d.human = %s AND d.verdict IS NOT NULL ORDER BY d.number DESC LIMIT %s

-- name: numbered
SELECT * FROM decisions WHERE number IN (SELECT value::bigint FROM jsonb_array_elements_text(%s::jsonb))

-- name: of_kind
SELECT number, id, time, human, state, kind, after_verdict, after_confidence, verdict, how, agreed
FROM decisions WHERE human = %s AND state = %s AND kind = %s AND verdict IS NOT NULL ORDER BY number DESC LIMIT %s

-- name: of_late
SELECT number, id, time, human, state, kind, after_verdict, after_confidence, verdict, how, agreed
FROM decisions WHERE number > %s AND human = %s AND verdict IS NOT NULL ORDER BY number DESC LIMIT %s

-- name: all
SELECT * FROM decisions WHERE number > %s ORDER BY number LIMIT %s

-- name: last
SELECT * FROM decisions ORDER BY number DESC LIMIT %s

-- name: last_of_state
SELECT * FROM decisions WHERE state = %s ORDER BY number DESC LIMIT %s

-- name: named
SELECT * FROM decisions WHERE id >= %s AND id < %s ORDER BY id LIMIT %s

-- name: of_job
SELECT * FROM decisions WHERE job = %s ORDER BY number

-- name: search
SELECT d.* FROM decisions d JOIN (
    SELECT p.number, sum(p.times * 2.2 / (p.times + 1.2 * (0.25 + 0.75 * p.words / 60.0))) AS rank
    FROM postings p WHERE p.word IN (SELECT value FROM jsonb_array_elements_text(%s::jsonb))
    GROUP BY p.number HAVING count(*) = jsonb_array_length(%s::jsonb)
) f ON f.number = d.number ORDER BY f.rank DESC, d.number DESC LIMIT %s

-- name: keep_old
INSERT INTO corrected (id, time, verdict, said, how, agreed)
SELECT id, %s, verdict, said, how, agreed FROM decisions WHERE id = %s

-- name: correct
UPDATE decisions SET verdict = %s, said = %s, how = 'corrected', agreed = %s WHERE id = %s

-- name: corrections
SELECT time, verdict, said, how, agreed FROM corrected WHERE id = %s ORDER BY time

-- name: forget
DELETE FROM decisions WHERE id = %s

-- name: forget_corrections
DELETE FROM corrected WHERE id = %s
