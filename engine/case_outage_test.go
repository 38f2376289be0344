package engine_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"pawl"
	"pawl/engine"
	"pawl/internal/pgtest"
	"pawl/store"
)

// stopped is a store as a process sees it that is stopped: no call goes on before it is let go on.
type stopped struct {
	store.Store
	until atomic.Int64
}

func (s *stopped) stop(long time.Duration) { s.until.Store(time.Now().Add(long).UnixNano()) }

func (s *stopped) wait() { time.Sleep(time.Until(time.Unix(0, s.until.Load()))) }

func (s *stopped) Claim(ctx context.Context, c store.Claim) ([]store.Run, time.Duration, error) {
	s.wait()
	return s.Store.Claim(ctx, c)
}

func (s *stopped) Renew(ctx context.Context, worker string, ls []store.Lease, hold time.Duration) ([]store.Held, error) {
	s.wait()
	return s.Store.Renew(ctx, worker, ls, hold)
}

func (s *stopped) Apply(ctx context.Context, cs ...store.Change) error {
	s.wait()
	return s.Store.Apply(ctx, cs...)
}

func (s *stopped) Append(ctx context.Context, l store.Lease, b store.Batch) (store.Receipt, error) {
	s.wait()
	return s.Store.Append(ctx, l, b)
}

// TestCase23ADeadWorkersRunsAndPlacesComeBack: its run is taken over within two leases, and its place in the limit is free. One that
// was only stopped comes back late, and its writes are refused: the end stays what it was. Real processes die and stand still in
// internal/faults.
func TestCase23ADeadWorkersRunsAndPlacesComeBack(t *testing.T) {
	onStores(t, func(t *testing.T, open opener) {
		n := &tally{}
		g := one(func(ctx context.Context, w work) (work, error) {
			w.N = n.add("execution")
			time.Sleep(2 * time.Second)
			return w, second(do(ctx, "call", n))
		}, pawl.Options{})
		open.virtual(t, func(r *rig) {
			c := short()
			c.Concurrency = map[string]int{"one": 1}
			s := &stopped{Store: r.store}
			defer r.worker(r.engine(s, c))()
			run := r.start("one", 1)
			for n.of("execution") == 0 {
				time.Sleep(10 * time.Millisecond)
			}
			s.stop(time.Minute) // in the middle of the node
			defer r.worker(r.engine(r.store, c))()
			began := time.Now()
			end := r.ends(run.ID, pawl.StatusSucceeded)
			if d := time.Since(began); d > 2*c.Lease+3*time.Second {
				t.Errorf("taken over and ended after %s", d)
			}
			time.Sleep(2 * time.Minute) // the first one comes back
			if again := r.get(run.ID); again.Steps != end.Steps || again.Status != pawl.StatusSucceeded || output(t, again).N != 2 {
				t.Errorf("the run moved after its end: %+v", again)
			}
			if ev := r.events(run.ID); ev["pawl.ended"] != 1 || r.steps(run.ID, "node") != 1 || n.of("execution") != 2 {
				t.Errorf("events %v, made %v", ev, n.n)
			}
		}, build(t, g))
	})
}

// TestCase23ADatabaseThatStandsStill for 40 seconds, four leases, while 20 runs are in hand: all end, each once. Of Postgres it is
// the server that is stopped.
func TestCase23ADatabaseThatStandsStill(t *testing.T) {
	var server *pgtest.Server
	ofItsOwn := func(t *testing.T) func() store.Store {
		server = pgtest.Start(t, false)
		return clockedAt(t, server.URL())
	}
	for name, open := range map[string]opener{"memory": onMemory, "sqlite": onSQLite, "postgres": ofItsOwn} {
		t.Run(name, func(t *testing.T) {
			n := &tally{}
			g := one(func(ctx context.Context, w work) (work, error) {
				time.Sleep(15 * time.Second)
				return w, second(do(ctx, pawl.Info(ctx).Run, n))
			}, pawl.Options{})
			open.virtual(t, func(r *rig) {
				b := &blackout{Store: r.store, long: 40 * time.Second}
				for range 2 {
					defer r.worker(r.engine(b, engine.Config{Trace: engine.Trace{Fault: func(string, error) {}}}))()
				}
				var ids []string
				for i := range 20 {
					ids = append(ids, r.start("one", i).ID)
				}
				time.Sleep(10 * time.Second)
				if _, real := r.store.(*clocked); real {
					err := server.Crash()
					time.Sleep(b.long)
					if err = errors.Join(err, server.Up()); err != nil {
						t.Fatal(err)
					}
				} else {
					b.until.Store(time.Now().Add(b.long).UnixNano())
					time.Sleep(b.long)
				}
				for _, id := range ids {
					run := r.untilEnd(id, 5*time.Minute)
					if ev := r.events(id); run.Status != pawl.StatusSucceeded || ev["pawl.ended"] != 1 || r.steps(id, "node") != 1 || n.of(id) < 1 || n.of(id) > 2 {
						t.Errorf("run %+v: events %v, made %d times", run, ev, n.of(id))
					}
				}
			}, build(t, g))
		})
	}
}

// TestCase26NoConnectionIsHeldDuringACall: while 30 models think for 20 seconds nothing of the store is locked or in a transaction.
// All of Postgres's connections are cut meanwhile, and no answer is lost; there are four for 100 runs.
func TestCase26NoConnectionIsHeldDuringACall(t *testing.T) {
	onStores(t, func(t *testing.T, open opener) {
		made := &tally{}
		g := one(func(ctx context.Context, w work) (work, error) {
			n, err := pawl.Do(ctx, "model", func(ctx context.Context) (int, error) {
				time.Sleep(20 * time.Second)
				return made.add(pawl.Info(ctx).Run), nil
			})
			w.N = n
			return w, err
		}, pawl.Options{})
		open.virtual(t, func(r *rig) {
			defer r.worker(r.engine(r.store, engine.Config{Slots: 30}))()
			var ids []string
			for i := range 100 {
				ids = append(ids, r.start("one", i).ID)
			}
			for range 3 {
				time.Sleep(10 * time.Second) // in the middle of 30 calls, and again of the next 30
				r.unheld()
				time.Sleep(10 * time.Second)
			}
			for _, id := range ids {
				run := r.untilEnd(id, 10*time.Minute)
				if run.Status != pawl.StatusSucceeded || made.of(id) != 1 || r.steps(id, "node") != 1 {
					t.Errorf("run %+v, made %d times", run, made.of(id))
				}
			}
		}, build(t, g))
	})
}

// unheld demands that nobody holds anything of the database, and cuts Postgres's connections.
func (r *rig) unheld() {
	r.Helper()
	switch s := r.store.(type) {
	case *filed:
		db, err := sql.Open("sqlite", s.path)
		if err == nil {
			defer db.Close()
			db.SetMaxOpenConns(1)
			_, err = db.Exec("PRAGMA busy_timeout = 2000; BEGIN IMMEDIATE; ROLLBACK") // a renewal of this very moment is waited for
		}
		if err != nil {
			r.Errorf("the file is locked: %v", err)
		}
	case *clocked:
		busy := func() int {
			return r.sum("SELECT count(*) FROM pg_stat_activity WHERE application_name = current_schema() AND state <> 'idle'")
		}
		n := busy()
		for end := 0; n > 0 && end < 100; end++ { // a question of this very moment is waited for, while the bubble's time stands still
			if err := s.clock.Exec("SELECT pg_sleep(0.02)"); err != nil {
				r.Fatal(err)
			}
			n = busy()
		}
		if n > 0 {
			r.Errorf("%d connections are in use", n)
		}
		if n := r.sum("SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = current_schema()"); n < 1 {
			r.Error("there is no connection to cut")
		}
	}
}

// TestCase27WritesGoToTheNewPrimary: every connection that there is leads to one that only reads by now. They are given up, and
// nobody notices.
func TestCase27WritesGoToTheNewPrimary(t *testing.T) {
	server := pgtest.Start(t, false)
	n := &tally{}
	g := two(func(ctx context.Context, w work) (work, error) {
		time.Sleep(2 * time.Second)
		return w, second(do(ctx, "first", n))
	}, func(ctx context.Context, w work) (work, error) { return w, second(do(ctx, "second", n)) }, pawl.Options{})
	opener(func(t *testing.T) func() store.Store { return clockedAt(t, server.URL()) }).virtual(t, func(r *rig) {
		var faults atomic.Int64
		defer r.worker(r.engine(r.store, engine.Config{Trace: engine.Trace{Fault: func(op string, err error) { t.Log(op, err); faults.Add(1) }}}))()
		run := r.start("two", 1)
		r.becomes(run.ID, pawl.StatusRunning)
		for _, sql := range []string{ // new sessions go by what is set for the database, those that are there by the server's file
			"ALTER DATABASE postgres SET default_transaction_read_only = off",
			"ALTER SYSTEM SET default_transaction_read_only = on", "SELECT pg_reload_conf()",
		} {
			if err := r.store.(*clocked).clock.Exec(sql); err != nil {
				t.Error(err)
			}
		}
		r.ends(run.ID, pawl.StatusSucceeded)
		if n.of("first") != 1 || n.of("second") != 1 || r.steps(run.ID, "first") != 1 || faults.Load() > 0 {
			t.Errorf("made %v, %d faults", n.n, faults.Load())
		}
	}, build(t, g))
}

// TestCase27AFileThatOthersWrite for three seconds in the middle of a node: what is recorded meanwhile waits, and nobody notices.
func TestCase27AFileThatOthersWrite(t *testing.T) {
	n := &tally{}
	g := one(func(ctx context.Context, w work) (work, error) {
		time.Sleep(2 * time.Second)
		return w, second(do(ctx, "call", n))
	}, pawl.Options{})
	opener(onSQLite).virtual(t, func(r *rig) {
		defer r.worker(r.engine(r.store, engine.Config{}))()
		run := r.start("one", 1)
		r.becomes(run.ID, pawl.StatusRunning)
		db, err := sql.Open("sqlite", r.store.(*filed).path+"?_pragma=busy_timeout(60000)") // the worker may be writing
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		db.SetMaxOpenConns(1)
		for _, text := range []string{"BEGIN IMMEDIATE", "COMMIT"} {
			if _, err := db.Exec(text); err != nil {
				t.Fatal(err)
			}
			time.Sleep(3 * time.Second)
		}
		r.ends(run.ID, pawl.StatusSucceeded)
		if n.of("call") != 1 || r.steps(run.ID, "node") != 1 {
			t.Errorf("made %v", n.n)
		}
	}, build(t, g))
}

// TestCase27AnUnknownCommitIsLookedUp and not repeated, whichever commit it is; the store is away for a while behind it.
func TestCase27AnUnknownCommitIsLookedUp(t *testing.T) {
	onStores(t, func(t *testing.T, open opener) {
		for at := int64(1); at <= 5; at++ {
			open.virtual(t, func(r *rig) {
				c := engine.Config{Trace: engine.Trace{Fault: func(string, error) {}}}
				defer r.worker(r.engine(&blackout{Store: r.store, at: at, long: 5 * time.Second}, c))()
				run := r.untilEnd(r.start("relay", 1).ID, time.Hour)
				for _, name := range []string{"a", "b", "c", "retry"} {
					if n := r.steps(run.ID, name); n != 1 {
						t.Errorf("commit %d: %d rows of %s", at, n, name)
					}
				}
				if w := output(t, run); run.Status != pawl.StatusSucceeded || fmt.Sprint(w.Log) != "[a b c]" {
					t.Errorf("commit %d: output %+v", at, w)
				}
			}, build(t, relay()))
		}
	})
}
