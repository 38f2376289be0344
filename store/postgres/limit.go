package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"pawl/store"
	"pawl/store/internal/rules"
)

const (
	lockNamed  = `SELECT pg_advisory_xact_lock($1)`
	readPlaces = `
SELECT count(*), coalesce(bool_or(holder = $2), false), coalesce(min(until), 0) FROM holder WHERE name = $1 AND until > (SELECT clock())`
	readRate   = `SELECT coalesce((SELECT tat FROM rate WHERE name = $1), 0), clock()`
	dropPlaces = `DELETE FROM holder WHERE name = $1 AND until <= $2`
	savePlace  = `INSERT INTO holder (name, holder, until) VALUES ($1, $2, $3) ON CONFLICT (name, holder) DO UPDATE SET until = excluded.until`
	saveRate   = `INSERT INTO rate (name, tat) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET tat = excluded.tat`
)

// Take uses a shared limit. One who holds a place renews it, which uses no rate.
func (s *Store) Take(ctx context.Context, sl store.Slot) (wait time.Duration, err error) {
	err = s.change(ctx, "take", func(ctx context.Context, c *pgxpool.Conn) (err error) {
		wait, err = s.take(ctx, c, &sl)
		return err
	})
	if err != nil {
		return 0, err
	}
	return wait, nil
}

func (s *Store) take(ctx context.Context, c *pgxpool.Conn, sl *store.Slot) (time.Duration, error) {
	defer rollback(ctx, c)
	var count int
	var mine bool
	var first, old, now int64
	b := &pgx.Batch{}
	b.Queue(begin)
	b.Queue(lockNamed, lockNumber("limit", s.conf.schema, sl.Limit))
	if sl.Max > 0 {
		b.Queue(readPlaces, value(sl.Limit), value(sl.Holder)).QueryRow(func(r pgx.Row) error { return r.Scan(&count, &mine, &first) })
	}
	b.Queue(readRate, value(sl.Limit)).QueryRow(func(r pgx.Row) error { return r.Scan(&old, &now) })
	if err := c.SendBatch(ctx, b).Close(); err != nil {
		return 0, err
	}
	b = &pgx.Batch{}
	if !mine {
		tat, wait := rules.Rate(old, now, *sl)
		if sl.Max > 0 && count >= sl.Max {
			wait = max(wait, rules.Full(first, now))
		}
		if wait > 0 {
			return wait, nil
		}
		if tat != old {
			b.Queue(saveRate, value(sl.Limit), tat)
		}
	}
	if sl.Max > 0 {
		b.Queue(dropPlaces, value(sl.Limit), now)
		b.Queue(savePlace, value(sl.Limit), value(sl.Holder), rules.After(now, sl.Hold))
	}
	if b.Len() == 0 {
		return 0, nil
	}
	b.Queue("COMMIT")
	return 0, sendAll(ctx, c, b, true)
}

// Give returns a place.
func (s *Store) Give(ctx context.Context, limit, holder string) error {
	return s.change(ctx, "give", func(ctx context.Context, c *pgxpool.Conn) error {
		b := &pgx.Batch{}
		b.Queue(`DELETE FROM holder WHERE name = $1 AND holder = $2`, value(limit), value(holder))
		return sendAll(ctx, c, b, false)
	})
}
