package postgres

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"

	"github.com/jackc/pgx/v5"
)

// Pending lists what Open would do to bring a database up to date, as SQL in the order in which it would run; none: it is.
func Pending(ctx context.Context, address string, o Options) ([]string, error) {
	c, err := configure(address, o)
	if err != nil {
		return nil, c.fault("pending", err)
	}
	var texts []string
	err = c.alone(ctx, func(tx pgx.Tx) error {
		texts, err = c.missing(ctx, tx)
		return err
	})
	return texts, c.fault("pending", err)
}

// migrate brings the database up to date, one process at a time.
func (c *config) migrate(ctx context.Context) error {
	return c.alone(ctx, func(tx pgx.Tx) error {
		texts, err := c.missing(ctx, tx)
		if err != nil || len(texts) == 0 {
			return err
		}
		if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock($1)", lockNumber("migrate", c.schema)); err != nil {
			return err
		}
		if texts, err = c.missing(ctx, tx); err != nil { // another process may have been faster
			return err
		}
		for _, text := range texts {
			if _, err := tx.Exec(ctx, text, pgx.QueryExecModeSimpleProtocol); err != nil {
				return fmt.Errorf("migration: %w", err)
			}
		}
		return nil
	})
}

// alone runs f in a transaction on a connection of its own, without the limits in time of the others.
func (c *config) alone(ctx context.Context, f func(pgx.Tx) error) error {
	cc := c.pool.ConnConfig.Copy()
	delete(cc.RuntimeParams, "statement_timeout")
	delete(cc.RuntimeParams, "lock_timeout")
	conn, err := pgx.ConnectConfig(ctx, cc)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	return pgx.BeginFunc(ctx, conn, f)
}

// missing are the statements that the schema lacks.
func (c *config) missing(ctx context.Context, tx pgx.Tx) ([]string, error) {
	var there bool
	err := tx.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = $1)", c.schema).Scan(&there)
	if err != nil {
		return nil, err
	}
	version, err := c.version(ctx, tx)
	if err != nil || version == len(migrations) {
		return nil, err
	}
	if version > len(migrations) {
		return nil, ours(version)
	}
	var texts []string
	if !there {
		texts = append(texts, "CREATE SCHEMA "+c.quoted())
	}
	if version == 0 {
		texts = append(texts, "CREATE TABLE "+c.quoted()+".about (program text NOT NULL, version int NOT NULL)",
			"INSERT INTO "+c.quoted()+".about (program, version) VALUES ('pawl', 0)")
	}
	for n := version; n < len(migrations); n++ {
		texts = append(texts, "SET LOCAL search_path = "+c.quoted()+";\n"+migrations[n])
	}
	return append(texts,
		fmt.Sprintf("UPDATE %s.about SET version = %d", c.quoted(), len(migrations)),
		fmt.Sprintf("SELECT pg_notify('%s', '%s')", channel(c.schema), migrated)), nil
}

type querier interface {
	QueryRow(ctx context.Context, text string, args ...any) pgx.Row
}

// version is how many migrations the schema has had; 0: there is nothing of ours.
func (c *config) version(ctx context.Context, q querier) (version int, err error) {
	var tables int
	err = q.QueryRow(ctx, "SELECT count(*) FROM pg_class t JOIN pg_namespace s ON s.oid = t.relnamespace WHERE s.nspname = $1 AND t.relname IN ('about', 'run', 'state', 'log')", c.schema).Scan(&tables)
	if err != nil || tables == 0 {
		return 0, err
	}
	var program string
	err = q.QueryRow(ctx, "SELECT program, version FROM "+c.quoted()+".about").Scan(&program, &version)
	others := fmt.Sprintf("the schema %s belongs to another program: name another one with ?search_path=NAME", c.quoted())
	switch {
	case errors.Is(err, pgx.ErrNoRows), coded(err, "42P01", "42703"): // no such table or column
		return 0, fmt.Errorf("%s: %w", others, err)
	case err == nil && program != "pawl":
		return 0, errors.New(others)
	}
	return version, err
}

// ours refuses a database of another version than this program's.
func ours(version int) error {
	switch {
	case version > len(migrations):
		return fmt.Errorf("the database has version %d, this program knows %d: use a newer program", version, len(migrations))
	case version < len(migrations):
		return fmt.Errorf("the database has version %d, this program needs %d: have it migrated", version, len(migrations))
	}
	return nil
}

// lockNumber is the advisory lock of a thing in a schema.
func lockNumber(what, schema string, name ...string) int64 {
	h := fnv.New64a()
	for _, part := range append([]string{"pawl", what, schema}, name...) {
		_, _ = h.Write([]byte(part))
		_, _ = h.Write([]byte{0})
	}
	return int64(h.Sum64())
}
