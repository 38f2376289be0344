CREATE FUNCTION clock() RETURNS bigint
LANGUAGE sql
AS $$SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint * 1000$$;
CREATE TABLE about (
program text NOT NULL,
version integer NOT NULL
);
CREATE TABLE counter (
run bigint NOT NULL,
meter bytea NOT NULL,
used bigint NOT NULL,
cap bigint NOT NULL
);
CREATE TABLE deleted (
id bytea NOT NULL,
tenant bytea NOT NULL,
person bytea NOT NULL,
at bigint NOT NULL,
"row" bytea
);
CREATE TABLE holder (
name bytea NOT NULL,
holder bytea NOT NULL,
until bigint NOT NULL
);
CREATE TABLE log (
run bigint NOT NULL,
stream smallint NOT NULL,
seq bigint NOT NULL,
at bigint NOT NULL,
told bigint,
key bytea NOT NULL,
data bytea
);
CREATE TABLE question (
id bytea NOT NULL,
run bigint NOT NULL,
tenant bytea NOT NULL,
closed boolean NOT NULL,
asked bigint NOT NULL,
due bigint NOT NULL,
"row" bytea
);
CREATE TABLE rate (
name bytea NOT NULL,
tat bigint NOT NULL
);
CREATE TABLE run (
n bigint NOT NULL,
id bytea NOT NULL,
tenant bytea NOT NULL,
person bytea NOT NULL,
workflow bytea NOT NULL,
key bytea NOT NULL,
parent bytea NOT NULL,
root bytea NOT NULL,
priority bigint NOT NULL,
created bigint NOT NULL,
head bytea
);
CREATE SEQUENCE run_n
START WITH 1
INCREMENT BY 1
NO MINVALUE
NO MAXVALUE
CACHE 1;
CREATE TABLE state (
n bigint NOT NULL,
rev bigint NOT NULL,
version bytea NOT NULL,
kind bytea NOT NULL,
priority bigint NOT NULL,
root bytea NOT NULL,
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
ready bigint,
steps bigint NOT NULL,
events bigint NOT NULL,
calls bigint NOT NULL,
inbox bigint NOT NULL,
blobs bigint NOT NULL,
audits bigint NOT NULL,
"row" bytea
)
WITH (fillfactor='40', toast_tuple_target='4080', autovacuum_vacuum_scale_factor='0.05');
CREATE TABLE worker (
id bytea NOT NULL,
kinds bytea NOT NULL,
until bigint NOT NULL
);
INSERT INTO about VALUES ('pawl', 1);
INSERT INTO counter VALUES (1, '\x6c6c6d', 2, 5);
INSERT INTO counter VALUES (2, '\x6c6c6d', 2, 5);
INSERT INTO counter VALUES (3, '\x6c6c6d', 2, 5);
INSERT INTO log VALUES (1, 0, 1, 1795851814483959000, 1, '\x', '\x746f6c64');
INSERT INTO log VALUES (1, 1, 2, 1795851814483959000, NULL, '\x', '\x6576656e74');
INSERT INTO log VALUES (1, 4, 1, 1795851814483959000, NULL, '\x62', NULL);
INSERT INTO log VALUES (2, 0, 1, 1795851814491026000, 1, '\x', '\x746f6c64');
INSERT INTO log VALUES (2, 1, 2, 1795851814491026000, NULL, '\x', '\x6576656e74');
INSERT INTO log VALUES (2, 4, 1, 1795851814491026000, NULL, '\x62', NULL);
INSERT INTO log VALUES (3, 0, 1, 1795851814494113000, 1, '\x', '\x746f6c64');
INSERT INTO log VALUES (3, 1, 2, 1795851814494113000, NULL, '\x', '\x6576656e74');
INSERT INTO log VALUES (3, 4, 1, 1795851814494113000, NULL, '\x62', NULL);
INSERT INTO question VALUES ('\x71', 1, '\x74', false, 1795851814486788000, 0, '\x3f');
INSERT INTO run VALUES (1, '\x61736b73', '\x74', '\x75', '\x77', '\x6b6579206f662061736b73', '\x', '\x61736b73', 0, 1795851814471124000, '\x6865616400');
INSERT INTO run VALUES (2, '\x656e646564', '\x74', '\x75', '\x77', '\x6b6579206f6620656e646564', '\x', '\x656e646564', 0, 1795851814488374000, '\x6865616400');
INSERT INTO run VALUES (3, '\x68656c64', '\x74', '\x75', '\x77', '\x6b6579206f662068656c64', '\x', '\x68656c64', 0, 1795851814493108000, '\x6865616400');
INSERT INTO state VALUES (1, 4, '\x31', '\x774031', 0, '\x', '\x77616974696e67', '\x', '\x', 1795851814486788000, false, 1, '\x', 0, 0, 0, NULL, 1, 2, 0, 0, 1, 0, '\x726f77');
INSERT INTO state VALUES (2, 4, '\x31', '\x774031', 0, '\x', '\x646f6e65', '\x', '\x', 1795851814492532000, true, 1, '\x', 0, 0, 0, NULL, 1, 2, 0, 0, 1, 0, '\x726f77');
INSERT INTO state VALUES (3, 4, '\x31', '\x774031', 0, '\x', '\x72756e6e696e67', '\x', '\x', 1795851814494839000, false, 1, '\x77', 1795855414493599000, 1795851814493108000, 0, NULL, 1, 2, 0, 0, 1, 0, '\x726f77');
INSERT INTO worker VALUES ('\x77', '\x', 1795855414473868000);
SELECT pg_catalog.setval('run_n', 3, true);
ALTER TABLE ONLY counter
ADD CONSTRAINT counter_pkey PRIMARY KEY (run, meter);
ALTER TABLE ONLY deleted
ADD CONSTRAINT deleted_pkey PRIMARY KEY (id);
ALTER TABLE ONLY holder
ADD CONSTRAINT holder_pkey PRIMARY KEY (name, holder);
ALTER TABLE ONLY log
ADD CONSTRAINT log_pkey PRIMARY KEY (run, stream, seq);
ALTER TABLE ONLY question
ADD CONSTRAINT question_pkey PRIMARY KEY (id);
ALTER TABLE ONLY rate
ADD CONSTRAINT rate_pkey PRIMARY KEY (name);
ALTER TABLE ONLY run
ADD CONSTRAINT run_id_key UNIQUE (id);
ALTER TABLE ONLY run
ADD CONSTRAINT run_pkey PRIMARY KEY (n);
ALTER TABLE ONLY state
ADD CONSTRAINT state_pkey PRIMARY KEY (n);
ALTER TABLE ONLY worker
ADD CONSTRAINT worker_pkey PRIMARY KEY (id);
CREATE UNIQUE INDEX log_blob ON log USING btree (run, key) WHERE (stream = 4);
CREATE UNIQUE INDEX log_told ON log USING btree (run, told) WHERE (told IS NOT NULL);
CREATE INDEX question_open ON question USING btree (tenant, id) WHERE (NOT closed);
CREATE INDEX question_run ON question USING btree (run);
CREATE INDEX question_tenant ON question USING btree (tenant, id);
CREATE UNIQUE INDEX run_key ON run USING btree (tenant, workflow, key) WHERE (key <> '\x'::bytea);
CREATE INDEX run_parent ON run USING btree (parent) WHERE (parent <> '\x'::bytea);
CREATE INDEX run_root ON run USING btree (root) WHERE (root <> id);
CREATE INDEX run_tenant ON run USING btree (tenant, id);
CREATE INDEX state_expires ON state USING btree (expires) WHERE (expires <> 0);
CREATE INDEX state_held ON state USING btree (until) WHERE ((until <> 0) AND (ready IS NULL));
CREATE INDEX state_ready ON state USING btree (kind, priority DESC, ready) WHERE (ready IS NOT NULL);
CREATE INDEX state_root ON state USING btree (root) WHERE ((root <> '\x'::bytea) AND (NOT ended));
