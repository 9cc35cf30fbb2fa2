-- What is remembered of the human's decisions. Each statement has a name.

-- name: schema-1
CREATE TABLE decisions (
    number INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    time REAL NOT NULL,
    human TEXT NOT NULL,
    repository TEXT NOT NULL,
    job TEXT NOT NULL,
    question TEXT NOT NULL,
    framing TEXT NOT NULL,
    state TEXT NOT NULL,
    kind TEXT NOT NULL,
    asked TEXT NOT NULL,
    artifact TEXT NOT NULL,
    digest TEXT NOT NULL,
    excerpt TEXT NOT NULL,
    before_verdict TEXT,
    before_confidence REAL,
    after_verdict TEXT,
    after_confidence REAL,
    after_reason TEXT,
    after_text TEXT,
    verdict TEXT,
    said TEXT NOT NULL,
    how TEXT NOT NULL,
    agreed INTEGER NOT NULL,
    UNIQUE (job, question, framing)
) STRICT;
-- All that a record is made of, so that the rows themselves, with their long texts, are not read for it.
CREATE INDEX of_kind ON decisions (
    human, state, kind, number, id, time, after_verdict, after_confidence, verdict, how, agreed
) WHERE verdict IS NOT NULL;
CREATE INDEX of_state ON decisions (state, number);
CREATE INDEX spoken ON decisions (number, human) WHERE verdict IS NOT NULL;
-- What a correction took the place of.
CREATE TABLE corrected (
    id TEXT NOT NULL,
    time REAL NOT NULL,
    verdict TEXT,
    said TEXT NOT NULL,
    how TEXT NOT NULL,
    agreed INTEGER NOT NULL
) STRICT;
CREATE INDEX corrections ON corrected (id);
CREATE VIRTUAL TABLE words USING fts5 (asked, excerpt, said, content = 'decisions', content_rowid = 'number');
-- In how many decisions a word stands: the rare ones tell decisions apart, and are few to look through.
CREATE TABLE terms (term TEXT PRIMARY KEY, seen INTEGER NOT NULL) STRICT, WITHOUT ROWID;

-- name: add
INSERT INTO decisions (
    id, time, human, repository, job, question, framing, state, kind, asked, artifact, digest, excerpt,
    before_verdict, before_confidence, after_verdict, after_confidence, after_reason, after_text,
    verdict, said, how, agreed
) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT DO NOTHING RETURNING number

-- name: add_words
INSERT INTO words (rowid, asked, excerpt, said) VALUES (?, ?, ?, ?)

-- name: drop_words
INSERT INTO words (words, rowid, asked, excerpt, said) VALUES ('delete', ?, ?, ?, ?)

-- name: count_term
INSERT INTO terms (term, seen) VALUES (?, 1) ON CONFLICT DO UPDATE SET seen = seen + 1

-- name: discount_term
UPDATE terms SET seen = seen - 1 WHERE term = ?

-- name: drop_terms
DELETE FROM terms WHERE seen <= 0

-- name: seen
SELECT term, seen FROM terms WHERE term IN (SELECT value FROM json_each(?))

-- name: count
SELECT count(*) AS count FROM decisions

-- name: newest
SELECT coalesce(max(number), 0) AS newest FROM decisions

-- name: holding
-- What the proxy answered by itself is passed over: however much there is of it, it is no word of the human's.
SELECT number FROM (SELECT rowid AS held FROM words WHERE words MATCH ? ORDER BY rowid DESC LIMIT ?)
JOIN decisions INDEXED BY spoken ON number = held
WHERE human = ? AND verdict IS NOT NULL ORDER BY held DESC LIMIT ?

-- name: numbered
SELECT * FROM decisions WHERE number IN (SELECT value FROM json_each(?))

-- name: of_kind
SELECT number, id, time, human, state, kind, after_verdict, after_confidence, verdict, how, agreed
FROM decisions WHERE human = ? AND state = ? AND kind = ? AND verdict IS NOT NULL ORDER BY number DESC LIMIT ?

-- name: of_late
-- The newest lie together at the table's end: no index leads there as fast.
SELECT number, id, time, human, state, kind, after_verdict, after_confidence, verdict, how, agreed
FROM decisions NOT INDEXED WHERE number > ? AND human = ? AND verdict IS NOT NULL ORDER BY number DESC LIMIT ?

-- name: all
SELECT * FROM decisions WHERE number > ? ORDER BY number LIMIT ?

-- name: last
SELECT * FROM decisions ORDER BY number DESC LIMIT ?

-- name: last_of_state
SELECT * FROM decisions WHERE state = ? ORDER BY number DESC LIMIT ?

-- name: named
SELECT * FROM decisions WHERE id >= ? AND id < ? ORDER BY id LIMIT ?

-- name: of_job
SELECT * FROM decisions WHERE job = ? ORDER BY number

-- name: search
SELECT decisions.* FROM words JOIN decisions ON decisions.number = words.rowid
WHERE words MATCH ? ORDER BY bm25(words), decisions.number DESC LIMIT ?

-- name: keep_old
INSERT INTO corrected (id, time, verdict, said, how, agreed)
SELECT id, ?, verdict, said, how, agreed FROM decisions WHERE id = ?

-- name: correct
UPDATE decisions SET verdict = ?, said = ?, how = 'corrected', agreed = ? WHERE id = ?

-- name: corrections
SELECT time, verdict, said, how, agreed FROM corrected WHERE id = ? ORDER BY time

-- name: forget
DELETE FROM decisions WHERE id = ?

-- name: forget_corrections
DELETE FROM corrected WHERE id = ?

-- name: rebuild
INSERT INTO words (words) VALUES ('rebuild')
