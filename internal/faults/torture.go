package faults

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	_ "github.com/ncruces/go-sqlite3/driver" // the second driver: it can be opened on another disk

	"pawl/store"
	"pawl/store/memory"
	"pawl/store/sqlite"
)

// Score is what a layer has come to.
type Score struct {
	Layer      string   `json:"layer"`
	Store      string   `json:"store"`
	Trials     int      `json:"trials"`
	Faults     int      `json:"faults"`
	Invalid    int      `json:"invalid"`
	Violations int      `json:"violations"`
	Told       []string `json:"told,omitempty"` // the violations, with their seeds; the first few
}

// broke notes violations.
func (s *Score) broke(seed uint64, broken ...string) {
	for _, b := range broken {
		if s.Violations++; len(s.Told) < 20 {
			s.Told = append(s.Told, fmt.Sprintf("%s on %s, seed %d: %s", s.Layer, s.Store, seed, b))
		}
	}
}

// Torture plays layers again and again with fresh seeds. Bubble plays a function in virtual time; what is played is as long as
// the developer likes, so nothing here knows a test.
type Torture struct {
	Folder   string
	Stores   []string // memory, sqlite, postgres
	Postgres Server   // where postgres is one of them
	Bubble   func(func())

	scores []*Score
	calm   map[string]*SceneResult
	empty  []byte
}

// Scores are what the layers have come to.
func (x *Torture) Scores() []*Score { return x.scores }

func (x *Torture) score(layer, store string) *Score {
	for _, s := range x.scores {
		if s.Layer == layer && s.Store == store {
			return s
		}
	}
	s := &Score{Layer: layer, Store: store}
	x.scores = append(x.scores, s)
	return s
}

// open opens a fresh store, in the bubble where there is one.
func (x *Torture) open(kind string, seed uint64) (store.Store, func(bool), error) {
	switch kind {
	case "memory":
		return memory.New(), nil, nil
	case "postgres":
		return OpenPostgres(context.Background(), x.Postgres.URL)
	}
	name, d, err := Wired("sqlite")
	if err != nil {
		return nil, nil, err
	}
	path := filepath.Join(x.Folder, fmt.Sprint(seed), "x.db")
	line := d.Lay(path, &Line{})
	s, err := sqlite.Open(context.Background(), path, sqlite.Options{Driver: name})
	return s, line.Cut, err
}

// Round plays every layer once with a seed, the cheap ones several times.
func (x *Torture) Round(seed uint64) error {
	defer func() { _ = os.RemoveAll(filepath.Join(x.Folder, fmt.Sprint(seed))) }()
	for _, kind := range x.Stores {
		if kind == "postgres" {
			if err := x.chaos(seed); err != nil {
				return err
			}
		}
		plays := uint64(20)
		if kind != "memory" {
			plays = 3
		}
		for i := range plays {
			x.simulate(kind, seed*1000+i)
		}
		if err := x.matrix(kind, seed); err != nil {
			return err
		}
		x.history(kind, seed)
		if kind != "sqlite" {
			continue
		}
		for i := range uint64(20) {
			if err := x.power(seed*1000 + i); err != nil {
				return err
			}
		}
	}
	return nil
}

func (x *Torture) simulate(kind string, seed uint64) {
	s := x.score("simulation", kind)
	var r Report
	var err error
	x.Bubble(func() {
		r, err = Simulate(seed, Options{Store: func() (store.Store, func(bool), error) { return x.open(kind, seed) }})
	})
	_ = os.RemoveAll(filepath.Join(x.Folder, fmt.Sprint(seed)))
	if s.Trials++; r.Invalid != "" {
		s.Invalid++
	}
	if s.Faults += r.Faults; err != nil {
		r.Broken = append(r.Broken, err.Error())
	}
	s.broke(seed, r.Broken...)
}

// scene plays the scene once.
func (x *Torture) scene(kind string, seed uint64, p Plan) (out *SceneResult, broken []string, err error) {
	x.Bubble(func() {
		s, cut, oerr := x.open(kind, seed)
		if err = oerr; err != nil {
			return
		}
		out, broken, err = (&Scene{Store: s, Cut: cut, Plan: p, Want: x.calm[kind]}).Play()
		err = errors.Join(err, s.Close())
	})
	_ = os.RemoveAll(filepath.Join(x.Folder, fmt.Sprint(seed)))
	return out, broken, err
}

func (x *Torture) matrix(kind string, seed uint64) error {
	s := x.score("crash matrix", kind)
	if x.calm == nil {
		x.calm = map[string]*SceneResult{}
	}
	if x.calm[kind] == nil {
		out, broken, err := x.scene(kind, seed, &Passes{})
		if err != nil {
			return err
		}
		x.calm[kind] = out
		s.broke(seed, broken...)
	}
	all := Points()
	for i := range uint64(5) {
		p := all[(seed*5+i)%uint64(len(all))]
		a := &Armed{Point: p, Skip: int(seed*7919+i) % max(x.calm[kind].Made[p.Operation], 1)}
		out, broken, err := x.scene(kind, seed*10+i, a)
		if err != nil {
			broken = append(broken, err.Error())
		}
		s.Trials++
		if out != nil {
			faults, _, flight := out.Trial.Seen.Faults()
			if s.Faults += faults; flight < minFlight {
				s.Invalid++
			}
		}
		for _, b := range broken {
			s.broke(seed, fmt.Sprintf("%s, pass %d: %s", p, a.Skip, b))
		}
	}
	return nil
}

func (x *Torture) history(kind string, seed uint64) {
	s := x.score("linearisability", kind)
	var broken string
	var err error
	x.Bubble(func() {
		var real store.Store
		if real, _, err = x.open(kind, seed); err == nil {
			broken, err = History(seed, real, 200)
			err = errors.Join(err, real.Close())
		}
	})
	_ = os.RemoveAll(filepath.Join(x.Folder, fmt.Sprint(seed)))
	s.Trials++
	if err != nil {
		broken = err.Error()
	}
	if broken != "" {
		s.broke(seed, broken)
	}
}

func (x *Torture) chaos(seed uint64) (err error) {
	s := x.score("chaos", "postgres")
	c := &Chaos{Seed: seed, Server: x.Postgres}
	if x.Bubble(func() { err = c.Calm() }); err != nil {
		return err
	}
	r, err := c.Play(context.Background())
	if err != nil {
		return err
	}
	if s.Trials++; r.Invalid != "" {
		s.Invalid++
	}
	for _, n := range r.Harms {
		s.Faults += n
	}
	s.broke(seed, r.Broken...)
	return nil
}

func (x *Torture) power(seed uint64) error {
	s := x.score("power cut", "sqlite")
	name, d, err := Wired("sqlite3")
	if err != nil {
		return err
	}
	if x.empty == nil {
		path := filepath.Join(x.Folder, "empty", "x.db")
		db, err := sqlite.Open(context.Background(), path, sqlite.Options{})
		if err != nil {
			return err
		}
		if err := db.Close(); err != nil {
			return err
		}
		if x.empty, err = os.ReadFile(path); err != nil {
			return err
		}
	}
	p := &Power{Seed: seed, Empty: x.empty, Folder: filepath.Join(x.Folder, fmt.Sprint("power", seed)), Driver: d, Name: name,
		Full: seed%5 == 3, Fsync: seed%5 == 4}
	defer os.RemoveAll(p.Folder)
	c, err := p.Play()
	s.Trials++
	s.Faults++
	if c.Acked == 0 {
		s.Invalid++
	}
	if err != nil {
		c.Broken = append(c.Broken, err.Error())
	}
	if c.Lost > 0 {
		c.Broken = append(c.Broken, fmt.Sprintf("%d of %d acknowledged writes are lost", c.Lost, c.Acked))
	}
	s.broke(seed, c.Broken...)
	return nil
}

// Until plays rounds until the time is over, or ctx is done.
func (x *Torture) Until(ctx context.Context, end time.Time, first uint64) error {
	for seed := first; time.Now().Before(end) && ctx.Err() == nil; seed++ {
		if err := x.Round(seed); err != nil {
			return err
		}
	}
	return nil
}
