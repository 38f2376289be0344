package sqlite

// applicationID marks a file as ours ("pawl").
const applicationID = 0x7061776c

// migrations are applied in order, all that are missing in one transaction, with their number in user_version. A published one
// never changes.
//
// Tables are cut by how often they are written: who a run is (run, head), what it does (progress: every step), who holds it
// (lease: small rows, so that heartbeats do not write states), and what it has left (log: append only).
var migrations = []string{schema1, schema2, schema3}

const schema1 = `
CREATE TABLE run (
	n INTEGER PRIMARY KEY AUTOINCREMENT, -- never used twice, so that a slow reader cannot meet another run's rows
	id TEXT NOT NULL UNIQUE,
	tenant TEXT NOT NULL,
	user TEXT NOT NULL,
	workflow TEXT NOT NULL,
	version TEXT NOT NULL,
	key TEXT NOT NULL,
	parent TEXT NOT NULL,
	root TEXT NOT NULL,
	priority INTEGER NOT NULL,
	created INTEGER NOT NULL -- all times: nanoseconds since 1970, 0: none
);
CREATE UNIQUE INDEX run_key ON run (tenant, workflow, key) WHERE key <> '';
CREATE INDEX run_tenant ON run (tenant, id);
CREATE INDEX run_parent ON run (parent) WHERE parent <> '';
CREATE INDEX run_root ON run (root) WHERE root <> id;

CREATE TABLE head (n INTEGER PRIMARY KEY, data BLOB);

CREATE TABLE state (
	n INTEGER PRIMARY KEY,
	status TEXT NOT NULL,
	node TEXT NOT NULL,
	outcome TEXT NOT NULL,
	updated INTEGER NOT NULL,
	tails BLOB,
	row BLOB
);

CREATE TABLE kind (n INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE); -- workflow@version

CREATE TABLE lease (
	n INTEGER PRIMARY KEY,
	kind INTEGER NOT NULL,
	priority INTEGER NOT NULL,
	root TEXT NOT NULL, -- empty: the run is its own
	ended INTEGER NOT NULL,
	epoch INTEGER NOT NULL,
	inbox INTEGER NOT NULL,
	worker TEXT NOT NULL,
	until INTEGER NOT NULL,
	due INTEGER NOT NULL,
	expires INTEGER NOT NULL,
	tails BLOB,
	ready INTEGER -- due, while nobody holds the run; a lease that has run out is noticed by the next claim
);
CREATE INDEX lease_ready ON lease (kind, priority DESC, ready) WHERE ready IS NOT NULL;
CREATE INDEX lease_held ON lease (until) WHERE until <> 0 AND ready IS NULL;
CREATE INDEX lease_root ON lease (root) WHERE root <> '' AND ended = 0;
CREATE INDEX lease_expires ON lease (expires) WHERE expires <> 0;

-- The log takes rows in the order in which they come, so that a commit of many runs writes few pages. Each row points to the
-- one before it in its stream; where a stream ends stands in tails, of state or of lease, whichever knows more (see tails.go).
CREATE TABLE log (
	id INTEGER PRIMARY KEY,
	prev INTEGER NOT NULL,
	run INTEGER NOT NULL,
	stream INTEGER NOT NULL,
	seq INTEGER NOT NULL,
	key TEXT NOT NULL,
	at INTEGER NOT NULL,
	data BLOB
);
CREATE TABLE mark (run INTEGER, stream INTEGER, seq INTEGER, id INTEGER NOT NULL, PRIMARY KEY (run, stream, seq)) WITHOUT ROWID; -- every 64th row
CREATE TABLE blob (run INTEGER, key TEXT, seq INTEGER NOT NULL, id INTEGER NOT NULL, PRIMARY KEY (run, key)) WITHOUT ROWID;
CREATE TABLE counter (run INTEGER, meter TEXT, used INTEGER NOT NULL, cap INTEGER NOT NULL, PRIMARY KEY (run, meter)) WITHOUT ROWID;

CREATE TABLE question (
	n INTEGER PRIMARY KEY,
	id TEXT NOT NULL UNIQUE,
	run INTEGER NOT NULL,
	tenant TEXT NOT NULL,
	closed INTEGER NOT NULL,
	asked INTEGER NOT NULL,
	due INTEGER NOT NULL,
	row BLOB
);
CREATE INDEX question_run ON question (run);
CREATE INDEX question_tenant ON question (tenant, id);
CREATE INDEX question_open ON question (tenant, id) WHERE closed = 0;

CREATE TABLE rate (name TEXT PRIMARY KEY, tat INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE holder (name TEXT, holder TEXT, until INTEGER NOT NULL, PRIMARY KEY (name, holder)) WITHOUT ROWID;
CREATE TABLE worker (id TEXT PRIMARY KEY, kinds TEXT NOT NULL, until INTEGER NOT NULL) WITHOUT ROWID;
`

// A row of the step log that tells watchers of its step is part of the event stream too: told is the id of the event before it.
//
// A program of version 1 that has the file open does not look at the version again, and would take such a step for an event.
// Everything that it does with a run needs the table state: under another name it is not found, and the program says so.
const schema2 = `
ALTER TABLE log ADD COLUMN told INTEGER;
ALTER TABLE state RENAME TO progress;
`

// What stays of a run that was deleted: that it was there, whose it was, and the row that says who deleted it.
const schema3 = `
CREATE TABLE grave (id TEXT PRIMARY KEY, tenant TEXT NOT NULL, user TEXT NOT NULL, at INTEGER NOT NULL, row BLOB) WITHOUT ROWID;
`
