// Package memory is a store that lives and ends with the process: for tests, trials and runs that nobody needs to keep.
//
// It never touches a disk, starts no goroutine and has no clock but the process's, so it works in the virtual time of
// testing/synctest. Nothing in it may scan all runs on the way of a claim or a change.
//
// Start reading at Store, then tx in change.go, which makes a change or takes it back.
package memory

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"

	"pawl/store"
	"pawl/store/internal/notice"
	"pawl/store/internal/rules"
)

var _ store.Store = (*Store)(nil)

// Store remembers runs in maps behind one lock, which is held for microseconds.
type Store struct {
	mu     sync.Mutex
	start  time.Time
	closed bool
	hub    notice.Hub

	runs      map[string]*run
	keys      map[key]*run
	order     sorted[*run]
	graves    map[string]grave
	questions map[string]*store.Question
	asked     sorted[string]
	queues    map[string]*queue // by kind
	roots     map[string][]*run // runs that have not ended, by root
	expiry    heap
	limits    map[string]*limit
	workers   map[string]worker
	tx        tx
}

type key struct{ tenant, workflow, key string }

type worker struct {
	kinds []string
	until int64
}

type limit struct {
	tat     int64
	holders map[string]int64
}

// run is a run with its streams and its places in the indexes.
type run struct {
	rules.Lease
	id, tenant, user       string
	workflow, version, key string
	parent, root           string
	status, node, outcome  string
	priority               int
	created, updated       int64
	head, row              []byte
	counters               []store.Counter
	logs                   [len(rules.Streams)][]entry
	blobs                  map[string]int64

	kind   string
	in     *heap // the one heap that it is in, and where
	at     int
	placed placed
	rooted bool
	rootAt int
}

// placed is what the heaps compare runs by, as it was when the run was put in: a run that has changed since stays in order.
type placed struct{ due, ready, expires int64 }

type entry struct {
	key  string
	data []byte
	at   int64
}

// New makes an empty store.
func New() *Store {
	s := &Store{
		start:     time.Now(),
		runs:      map[string]*run{},
		keys:      map[key]*run{},
		graves:    map[string]grave{},
		questions: map[string]*store.Question{},
		queues:    map[string]*queue{},
		roots:     map[string][]*run{},
		expiry:    heap{less: func(a, b *run) bool { return a.placed.expires < b.placed.expires }},
		limits:    map[string]*limit{},
		workers:   map[string]worker{},
	}
	s.order.id = func(r *run) string { return r.id }
	s.asked.id = func(id string) string { return id }
	s.tx.s = s
	return s
}

// now never goes back, whatever happens to the wall clock: it counts from the start of the store.
func (s *Store) now() int64 { return s.start.Add(time.Since(s.start)).UnixNano() }

var errClosed = errors.New("the store is closed")

// enter locks the store for an operation.
func (s *Store) enter(ctx context.Context, op string) error {
	if ctx.Err() != nil {
		return fmt.Errorf("memory: %s: %w: %w", op, store.ErrUnavailable, context.Cause(ctx))
	}
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return fmt.Errorf("memory: %s: %w: %w", op, store.ErrUnavailable, errClosed)
	}
	return nil
}

func wrap(op string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("memory: %s: %w", op, err)
}

// Now is the process's clock.
func (s *Store) Now(ctx context.Context) (time.Time, error) {
	if err := s.enter(ctx, "now"); err != nil {
		return time.Time{}, err
	}
	defer s.mu.Unlock()
	return rules.Time(s.now()), nil
}

// Watch tells of changes as they are made.
func (s *Store) Watch(ctx context.Context) iter.Seq2[string, error] {
	return s.hub.Watch(ctx, 0, nil)
}

// Check has little to examine in memory.
func (s *Store) Check(ctx context.Context) ([]store.Finding, error) {
	if err := s.enter(ctx, "check"); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	return []store.Finding{
		{Name: "store", Value: "memory: nothing outlives the process"},
		{Name: "runs", Value: fmt.Sprint(len(s.runs))},
		{Name: "questions", Value: fmt.Sprint(len(s.questions))},
	}, nil
}

// Close forgets everything.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	s.runs, s.keys, s.graves, s.questions, s.queues, s.roots, s.limits, s.workers = nil, nil, nil, nil, nil, nil, nil, nil
	s.order.all, s.asked.all, s.expiry.rs, s.tx = nil, nil, nil, tx{}
	s.hub.Close(fmt.Errorf("memory: watch: %w: %w", store.ErrUnavailable, errClosed))
	return nil
}
