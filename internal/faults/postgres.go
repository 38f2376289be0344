package faults

import (
	"context"
	"errors"
	"fmt"

	"pawl/internal/pgclock"
	"pawl/store"
	"pawl/store/postgres"
)

// shears is a trigger on each table that fails its COMMIT while that is cut.
const shears = `
CREATE SEQUENCE shears MINVALUE 0;
CREATE FUNCTION shear() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF pg_sequence_last_value('shears') > 0 THEN RAISE 'cut before the commit'; END IF;
	RETURN NULL;
END $$;
DO $$
DECLARE name text;
BEGIN
	FOR name IN SELECT tablename FROM pg_tables WHERE schemaname = current_schema() LOOP
		EXECUTE format('CREATE CONSTRAINT TRIGGER shear AFTER INSERT OR UPDATE OR DELETE ON %I
			DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION shear()', name);
	END LOOP;
END $$`

// onPostgres is a store in a schema of its own, which goes when it is closed.
type onPostgres struct {
	*postgres.Store
	clock *pgclock.Clock
}

// OpenPostgres opens a fresh store in the database at an address, whose clock is that of the process: where it is opened in a
// bubble of testing/synctest, time stands still while the server works.
func OpenPostgres(ctx context.Context, address string) (s store.Store, cut func(on bool), err error) {
	o := new(onPostgres)
	if o.clock, err = pgclock.New(address); err != nil {
		return nil, nil, err
	}
	// Few connections: each one plans all statements anew, which takes longer than a trial does.
	o.Store, err = postgres.Open(ctx, address, postgres.Options{Schema: o.clock.Schema, Conns: 4, Dial: o.clock.Dial})
	if err != nil {
		return nil, nil, errors.Join(err, o.clock.Close())
	}
	if err = errors.Join(o.clock.Rule(), o.clock.Exec(shears)); err != nil {
		return nil, nil, errors.Join(err, o.Close())
	}
	return o, o.cut, nil
}

// Close closes the store and removes its schema.
func (o *onPostgres) Close() error { return errors.Join(o.Store.Close(), o.clock.Close()) }

// cut makes the server refuse each COMMIT while it is on, with all of its transaction carried out.
func (o *onPostgres) cut(on bool) {
	if err := o.clock.Exec(fmt.Sprintf("SELECT setval('shears', %d)", map[bool]int{true: 1}[on])); err != nil {
		panic(fmt.Errorf("faults: %w", err)) // a trial that does not break what it says it breaks must not pass
	}
}
