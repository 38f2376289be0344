package faults

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// Harm is one kind of thing that a storm does.
type Harm string

// The harms.
const (
	ServerCrash   Harm = "server stopped at once and started"
	BackendsEnded Harm = "backends terminated"
	AnswerLost    Harm = "answer of a commit lost"
	CommitLost    Harm = "commit lost on its way"
	LineCut       Harm = "connections cut"
	LinePaused    Harm = "connections stood still"
	WorkerKilled  Harm = "worker killed"
	WorkerStopped Harm = "worker stood still"
)

// Harms are all of them, in the order in which they are told.
var Harms = []Harm{ServerCrash, BackendsEnded, AnswerLost, CommitLost, LineCut, LinePaused, WorkerKilled, WorkerStopped}

// Server is a Postgres.
type Server struct {
	URL       string       // with sslmode=disable
	Crash, Up func() error // stops it without a goodbye, and starts it; nil: it is not ours to stop
}

// Victim is a process on a Postgres, behind a line of its own.
type Victim struct {
	Line  *Proxy
	Kill  func()                 // nil: it is not killed
	Stop  func() (goOn func())   // has it stand still; nil: it does not
	Pause func() (opened func()) // told when its line stands still, and before it goes on; nil: nobody asks
}

// Storm does harm to processes on a Postgres, one after the other, by a schedule that its seed gives: what, to whom, and with what
// pauses in between. What the processes are at just then it does not give.
type Storm struct {
	Seed    uint64
	Lease   time.Duration
	Least   int // so many runs must be in somebody's hands at each harm
	Server  Server
	Victims []Victim
	Held    func() (int, error) // how many runs are
	Name    string              // by which the connections of the victims go on the server
	Calm    func()              // told when what was broken is whole again; nil: nobody asks

	Made map[Harm]int
	Idle int // harms that were not done, as nothing was in hand any more
}

// plan is the schedule: every storm stops the server if it may, and has one worker stand still, in one way or the other; the rest
// is chance. A visit that is begun too often ends its run, as it should: so there is not much that takes runs out of hands.
func (s *Storm) plan(rng *rand.Rand) []Harm {
	var still []Harm
	can := func(h Harm, is func(Victim) bool) {
		if slices.ContainsFunc(s.Victims, is) {
			still = append(still, h)
		}
	}
	can(LinePaused, func(Victim) bool { return true })
	can(WorkerStopped, func(v Victim) bool { return v.Stop != nil })
	all := []Harm{still[rng.IntN(len(still))], AnswerLost, AnswerLost, []Harm{AnswerLost, CommitLost}[rng.IntN(2)], CommitLost}
	if s.Server.Crash != nil {
		all = append(all, ServerCrash)
	}
	still = []Harm{BackendsEnded, LineCut}
	can(WorkerKilled, func(v Victim) bool { return v.Kill != nil })
	all = append(all, still[rng.IntN(len(still))])
	rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all
}

// Rage does all the harm of the schedule, or as much as there is something in hand for before over is closed.
func (s *Storm) Rage(ctx context.Context, over <-chan struct{}) error {
	rng := rand.New(rand.NewPCG(s.Seed, 6))
	s.Made = map[Harm]int{}
	plan := s.plan(rng)
	for i, h := range plan {
		if err := wait(ctx, time.Duration(100+rng.IntN(500))*time.Millisecond); err != nil {
			return err
		}
		busy, err := s.busy(ctx, over)
		if err != nil {
			return err
		}
		if !busy {
			s.Idle = len(plan) - i
			return nil
		}
		done, err := s.harm(ctx, h, rng)
		if err != nil {
			return fmt.Errorf("%s: %w", h, err)
		}
		if done {
			s.Made[h]++
		}
		if s.Calm != nil {
			s.Calm()
		}
	}
	return nil
}

// busy waits until enough is in hand; false: it will not be any more.
func (s *Storm) busy(ctx context.Context, over <-chan struct{}) (bool, error) {
	for {
		select {
		case <-over:
			return false, nil
		default:
		}
		if n, err := s.Held(); err == nil && n >= s.Least {
			return true, nil
		}
		if err := wait(ctx, 20*time.Millisecond); err != nil {
			return false, err
		}
	}
}

// long is how long somebody stands still: until its leases have long run out.
func (s *Storm) long() time.Duration { return 2*s.Lease + s.Lease/4 }

// any is somebody to whom a harm can be done.
func (s *Storm) any(rng *rand.Rand, can func(Victim) bool) Victim {
	var them []Victim
	for _, v := range s.Victims {
		if can(v) {
			them = append(them, v)
		}
	}
	return them[rng.IntN(len(them))]
}

// harm does one. false: it came to nothing.
func (s *Storm) harm(ctx context.Context, h Harm, rng *rand.Rand) (done bool, err error) {
	works := func(v Victim) bool { return v.Kill != nil }
	switch h {
	case ServerCrash:
		down := time.Duration(rng.IntN(300)) * time.Millisecond
		if err := s.Server.Crash(); err != nil {
			return false, err
		}
		return true, errors.Join(wait(ctx, down), s.Server.Up())
	case BackendsEnded:
		return s.terminate(ctx, rng)
	case AnswerLost, CommitLost:
		return s.lose(ctx, h, s.any(rng, func(Victim) bool { return true }))
	case LineCut:
		s.any(rng, func(Victim) bool { return true }).Line.Cut()
	case LinePaused:
		v := s.any(rng, works)
		resume := v.Line.Pause()
		defer resume()
		if v.Pause != nil {
			defer v.Pause()()
		}
		return true, wait(ctx, s.long())
	case WorkerKilled:
		s.any(rng, works).Kill()
	case WorkerStopped:
		goOn := s.any(rng, func(v Victim) bool { return v.Stop != nil }).Stop()
		defer goOn()
		return true, wait(ctx, s.long())
	}
	return true, nil
}

// terminate ends backends of the processes, as an administrator would: all of them, or those whose number is odd.
func (s *Storm) terminate(ctx context.Context, rng *rand.Rand) (bool, error) {
	conn, err := pgx.Connect(ctx, s.Server.URL)
	if err != nil {
		return false, err
	}
	defer func() { _ = conn.Close(ctx) }()
	var n int
	err = conn.QueryRow(ctx, `SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
WHERE pid <> pg_backend_pid() AND application_name = $1 AND ($2 OR pid % 2 = 1)`, s.Name, rng.IntN(2) == 0).Scan(&n)
	return n > 0, err
}

// lose waits for a victim's next commit, and for what becomes of it.
func (s *Storm) lose(ctx context.Context, h Harm, v Victim) (bool, error) {
	done := make(chan outcome, 1)
	takeBack := v.Line.strike(h, done)
	late := time.NewTimer(s.Lease) // its owner may have nothing to do
	defer late.Stop()
	select {
	case o := <-done:
		return o.committed == (h == AnswerLost), nil
	case <-late.C:
	case <-ctx.Done():
		return false, ctx.Err()
	}
	if takeBack() {
		return false, nil
	}
	select { // it is just being done
	case o := <-done:
		return o.committed == (h == AnswerLost), nil
	case <-time.After(s.Lease): // its connection broke off by itself
		return false, nil
	}
}

// told is a storm's sums in words.
func told(made map[Harm]int) string {
	var words []string
	for _, h := range Harms {
		if made[h] > 0 {
			words = append(words, fmt.Sprintf("%s %d", h, made[h]))
		}
	}
	return strings.Join(words, ", ")
}
