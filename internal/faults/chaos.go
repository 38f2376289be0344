package faults

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"pawl"
	"pawl/store"
	"pawl/store/memory"
	"pawl/store/postgres"
)

// Chaos is a batch of runs of random graphs on one real Postgres, which several workers work through lines of their own while a
// storm goes on. The seed gives graphs, runs and the storm's schedule; what is under way when it strikes is up to real time.
type Chaos struct {
	Seed    uint64
	Runs    int // 0: 16
	Workers int // 0: 4
	Server  Server

	schema string
	rng    *rand.Rand
	plans  []*GraphPlan
	orders []*Order
	calm   []*Result // of each order
	lines  []*Proxy  // of the workers, and the client's
}

// What a trial of chaos must come to: with fewer harms it is invalid, and no harm is done with fewer runs in hand.
const (
	leastHarms  = 4
	leastInHand = 4
)

// Lapse is the lease of workers in chaos: a pause is longer than two of them.
const Lapse = time.Second

// haste is what the times of random graphs are divided by in real time.
const haste = 60

// ChaosReport is what came of one trial.
type ChaosReport struct {
	Seed             uint64
	Runs             int // children counted
	Steps            int
	Harms            map[Harm]int
	Idle             int // harms that found nothing to break
	Unknown, Refused int // writes of unknown outcome, and refused as stale
	Stale            int // writes asked after their run had been given to somebody else
	Loose, Worn      int // orders whose end may be another than on a calm day, and those of them of which a visit was begun too often
	Invalid          string
	Broken           []string
}

// Calm plans the batch and plays it with nothing broken and nothing cancelled, on a store in memory: what each order comes to is
// what it must come to in the storm. It takes no time in virtual time.
func (c *Chaos) Calm() error {
	c.Runs, c.Workers = cmp.Or(c.Runs, 16), cmp.Or(c.Workers, 4)
	c.rng, c.schema = rand.New(rand.NewPCG(c.Seed, 7)), fmt.Sprintf("chaos_%d", c.Seed)
	c.draft()
	if err := c.calmly(); err != nil {
		return fmt.Errorf("on a calm day: %w", err)
	}
	return nil
}

// Play plays the batch in the storm, after Calm.
func (c *Chaos) Play(ctx context.Context) (r ChaosReport, err error) {
	r.Seed = c.Seed
	if err := c.drop(ctx); err != nil {
		return r, err
	}
	real, err := c.open(c.Server.URL, "faults")
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, real.Close(), c.drop(ctx)) }()
	for range c.Workers + 1 {
		p, err := NewProxy(c.Server.URL)
		if err != nil {
			return r, err
		}
		defer p.Close()
		c.lines = append(c.lines, p)
	}
	err = c.stormy(ctx, real, &r)
	return r, err
}

// draft plans graphs, and runs of them: each begins when chance will have it, and some are cancelled.
func (c *Chaos) draft() {
	for i := range max(c.Runs/3, 1) {
		g := randomGraph(c.rng, fmt.Sprint("g", i), 1+c.rng.IntN(8), 0).hurried(haste)
		g.tight = false // by how often calls are made again it may come to another end
		c.plans = append(c.plans, g)
	}
	for i := range c.Runs {
		o := &Order{Flow: i % len(c.plans), Job: Job{Path: fmt.Sprint("run", i), Sum: c.rng.Uint32()}, After: time.Duration(c.rng.IntN(4000)) * time.Millisecond}
		if i > 0 && c.rng.IntN(8) == 0 {
			o.Cancel = time.Duration(1 + c.rng.IntN(int(2*time.Second)))
		}
		c.orders = append(c.orders, o)
	}
	for i := range min(2*leastInHand, len(c.orders)) {
		c.orders[i].After = 0
	}
}

// flows builds the graphs on a world. Of each the first workflow is what runs are started of; it stands at the place of its plan.
func (c *Chaos) flows(w *World) (out []*pawl.Workflow, err error) {
	var later []*pawl.Workflow
	for _, p := range c.plans {
		ws, err := p.Workflows(w)
		if err != nil {
			return nil, err
		}
		out, later = append(out, ws[0]), append(later, ws[1:]...)
	}
	return append(out, later...), nil
}

func (c *Chaos) calmly() error {
	t := &Trial{Store: memory.New(), Seen: NewWitness(), Workers: Calm{}, Client: Calm{}, Staff: c.Workers}
	for _, o := range c.orders {
		t.Orders = append(t.Orders, &Order{Flow: o.Flow, Job: o.Job})
	}
	t.World = NewWorld(t.Seen)
	var err error
	if t.Flows, err = c.flows(t.World); err == nil {
		err = t.Play()
	}
	if err != nil {
		return err
	}
	l, err := leftOf(t)
	if err != nil {
		return err
	}
	for _, o := range t.Orders {
		c.calm = append(c.calm, l.result(func(path string) bool { return !o.owns(path) }))
	}
	l.want = l.result(t.loose)
	if broken := l.all(l.want); len(broken) > 0 {
		return fmt.Errorf("%v", broken)
	}
	return t.Store.Close()
}

// open opens the store; on the server its connections go by a name.
func (c *Chaos) open(address, name string) (store.Store, error) {
	return postgres.Open(context.Background(), address+"&application_name="+name, postgres.Options{Schema: c.schema, Conns: 6})
}

// drop removes what the trial has on the server.
func (c *Chaos) drop(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, c.Server.URL)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }()
	_, err = conn.Exec(ctx, `DROP SCHEMA IF EXISTS "`+c.schema+`" CASCADE`)
	return err
}

// stormy plays the batch in the storm, and looks at what is left.
func (c *Chaos) stormy(ctx context.Context, real store.Store, r *ChaosReport) error {
	t := &Trial{
		Store: real, Seen: NewWitness(), Workers: Calm{}, Client: Calm{}, Staff: c.Workers, Orders: c.orders, Follow: true,
		Lease: Lapse, Slack: 5 * time.Second, Within: 5 * time.Minute,
		Open: func(place int) (store.Store, error) { return c.open(c.lines[place].URL, c.schema) },
	}
	t.World = NewWorld(t.Seen)
	var err error
	if t.Flows, err = c.flows(t.World); err != nil {
		return err
	}
	storm, over, ended := c.storm(t), make(chan struct{}), make(chan error, 1)
	t.During = func(*Trial) error {
		go func() { ended <- storm.Rage(ctx, over) }()
		return nil
	}
	fork := c.rng.IntN(3) == 0
	t.After = func(t *Trial) error {
		close(over)
		if err := <-ended; err != nil {
			return err
		}
		l, err := leftOf(t)
		if err != nil {
			return err
		}
		l.wear()
		if r.Broken = l.all(c.want()); len(r.Broken) > 0 || !fork {
			return nil
		}
		if err := Forked(t, c.rng.IntN); err != nil {
			return err
		}
		r.Broken = Check(t, nil) // its effects are made again
		return nil
	}
	if err := t.Play(); err != nil {
		return err
	}
	if len(r.Broken) == 0 {
		r.Broken = t.Seen.Broken() // by those who were let go last
	}
	c.sum(t, storm, r)
	return c.connections(ctx, r)
}

// want is what the orders have come to on a calm day, without the loose ones.
func (c *Chaos) want() *Result {
	want := &Result{Effects: map[string]int{}}
	for i, o := range c.orders {
		if !o.loose() {
			want.Ends = append(want.Ends, c.calm[i].Ends...)
			maps.Copy(want.Effects, c.calm[i].Effects)
		}
	}
	slices.Sort(want.Ends)
	return want
}

// storm is the storm on the workers of a trial and on its client.
func (c *Chaos) storm(t *Trial) *Storm {
	s := &Storm{
		Seed: c.Seed, Lease: Lapse, Least: leastInHand, Server: c.Server, Name: c.schema, Calm: t.Seen.calmed,
		Held: func() (int, error) { return held(t.Store) },
	}
	none := func() {}
	for place, line := range c.lines {
		v := Victim{Line: line}
		if place < c.Workers {
			v.Kill = func() {
				if w := t.at(place); w != nil {
					t.Seen.died(w)
					w.Die()
					line.Cut()
				}
			}
			v.Stop = func() func() {
				if w := t.at(place); w != nil {
					w.stop()
				}
				return none
			}
			v.Pause = func() func() {
				if w := t.at(place); w != nil {
					return t.Seen.paused(w)
				}
				return none
			}
		}
		s.Victims = append(s.Victims, v)
	}
	return s
}

// held is how many runs are in somebody's hands.
func held(s store.Store) (int, error) {
	yes := true
	rs, err := s.List(context.Background(), everything, store.Filter{Held: &yes}, store.Page{})
	return len(rs), err
}

func (c *Chaos) sum(t *Trial, s *Storm, r *ChaosReport) {
	r.Harms, r.Idle, r.Stale = s.Made, s.Idle, t.Seen.Stale()
	r.Unknown, r.Refused = t.Seen.Outcomes()
	for _, o := range c.orders {
		if o.loose() {
			r.Loose++
		}
		if o.worn {
			r.Worn++
		}
	}
	if l, err := leftOf(t); err == nil {
		r.Runs, r.Steps = len(l.runs), l.result(func(string) bool { return false }).Path
	}
	made := 0
	for _, n := range s.Made {
		made += n
	}
	switch {
	case r.Worn*4 > len(c.orders):
		r.Invalid = fmt.Sprintf("visits of %d of %d runs were begun too often: the machine is too slow", r.Worn, len(c.orders))
	case made < leastHarms:
		r.Invalid = fmt.Sprintf("%d harms with at least %d runs in hand, want %d", made, leastInHand, leastHarms)
	}
}

// connections sees to it that the workers and the client have left none: I11. The server takes a moment to notice.
func (c *Chaos) connections(ctx context.Context, r *ChaosReport) error {
	conn, err := pgx.Connect(ctx, c.Server.URL)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }()
	var n int
	for range 500 {
		err = conn.QueryRow(ctx, `SELECT count(*) FROM pg_stat_activity WHERE application_name = $1`, c.schema).Scan(&n)
		if err != nil || n == 0 {
			return err
		}
		if err := wait(ctx, 10*time.Millisecond); err != nil {
			return err
		}
	}
	r.Broken = append(r.Broken, fmt.Sprintf("I11: %d connections are left", n))
	return nil
}
