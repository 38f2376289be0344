package postgres

// migrations are applied in order, all that are missing in one transaction; how many there are stands in the table about. A
// published one never changes. They run with the store's schema as the search path.
//
// Names are bytea, since text takes neither NUL nor what is not UTF-8, and so that they are ordered byte by byte.
var migrations = []string{schema1}

// The tables are cut by how often they are written: who a run is (run, with its head), what it does and who holds it (state:
// every step, in place where its page has room), and what it has left (log: append only).
const schema1 = `
CREATE FUNCTION clock() RETURNS bigint LANGUAGE sql VOLATILE
	AS 'SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint * 1000';

CREATE SEQUENCE run_n; -- no number is used twice, so that a slow reader cannot meet another run's rows
CREATE TABLE run (
	n bigint PRIMARY KEY,
	id bytea NOT NULL UNIQUE,
	tenant bytea NOT NULL,
	person bytea NOT NULL,
	workflow bytea NOT NULL,
	key bytea NOT NULL,
	parent bytea NOT NULL,
	root bytea NOT NULL,
	priority bigint NOT NULL,
	created bigint NOT NULL, -- all times: nanoseconds since 1970, 0: none
	head bytea
);
CREATE UNIQUE INDEX run_key ON run (tenant, workflow, key) WHERE key <> '';
CREATE INDEX run_tenant ON run (tenant, id);
CREATE INDEX run_parent ON run (parent) WHERE parent <> '';
CREATE INDEX run_root ON run (root) WHERE root <> id;

CREATE TABLE state (
	n bigint PRIMARY KEY,
	rev bigint NOT NULL, -- goes up with each change but a renewal: who remembers a run can tell whether he is right
	version bytea NOT NULL,
	kind bytea NOT NULL, -- workflow@version
	priority bigint NOT NULL,
	root bytea NOT NULL, -- empty: the run is its own
	status bytea NOT NULL,
	node bytea NOT NULL,
	outcome bytea NOT NULL,
	updated bigint NOT NULL,
	ended boolean NOT NULL,
	epoch bigint NOT NULL,
	worker bytea NOT NULL,
	until bigint NOT NULL,
	due bigint NOT NULL,
	expires bigint NOT NULL,
	ready bigint, -- due, while nobody holds the run; a lease that has run out is noticed by the next claim
	steps bigint NOT NULL, -- the last number in each stream
	events bigint NOT NULL,
	calls bigint NOT NULL,
	inbox bigint NOT NULL,
	blobs bigint NOT NULL,
	audits bigint NOT NULL,
	row bytea
) WITH (fillfactor = 40, toast_tuple_target = 4080, autovacuum_vacuum_scale_factor = 0.05);
CREATE INDEX state_ready ON state (kind, priority DESC, ready) WHERE ready IS NOT NULL;
CREATE INDEX state_held ON state (until) WHERE until <> 0 AND ready IS NULL;
CREATE INDEX state_root ON state (root) WHERE root <> '' AND NOT ended;
CREATE INDEX state_expires ON state (expires) WHERE expires <> 0;

CREATE TABLE log (
	run bigint,
	stream smallint,
	seq bigint,
	at bigint NOT NULL,
	told bigint, -- of a step that watchers are told by its own row: its number in the event stream
	key bytea NOT NULL,
	data bytea,
	PRIMARY KEY (run, stream, seq)
);
CREATE UNIQUE INDEX log_told ON log (run, told) WHERE told IS NOT NULL;
CREATE UNIQUE INDEX log_blob ON log (run, key) WHERE stream = 4;

CREATE TABLE counter (run bigint, meter bytea, used bigint NOT NULL, cap bigint NOT NULL, PRIMARY KEY (run, meter));

CREATE TABLE question (
	id bytea PRIMARY KEY,
	run bigint NOT NULL,
	tenant bytea NOT NULL,
	closed boolean NOT NULL,
	asked bigint NOT NULL,
	due bigint NOT NULL,
	row bytea
);
CREATE INDEX question_run ON question (run);
CREATE INDEX question_tenant ON question (tenant, id);
CREATE INDEX question_open ON question (tenant, id) WHERE NOT closed;

CREATE TABLE rate (name bytea PRIMARY KEY, tat bigint NOT NULL);
CREATE TABLE holder (name bytea, holder bytea, until bigint NOT NULL, PRIMARY KEY (name, holder));
CREATE TABLE worker (id bytea PRIMARY KEY, kinds bytea NOT NULL, until bigint NOT NULL);

-- What stays of a run that was deleted: who did it, in words that the store does not know.
CREATE TABLE deleted (id bytea PRIMARY KEY, tenant bytea NOT NULL, person bytea NOT NULL, at bigint NOT NULL, row bytea);
`
