package indextest

import (
	"context"
	"slices"
	"sync"

	"pawl/ports/index"
)

// Script is an index that answers as it is told, and remembers what it was asked. It is free to lie: what uses an index
// has to be tested against one that does.
type Script struct {
	Answer func(q index.Query) (index.Result, error) // nil: nothing is found

	mu      sync.Mutex
	queries []index.Query
}

var _ index.Index = (*Script)(nil)

// Search asks the script.
func (s *Script) Search(ctx context.Context, q index.Query) (index.Result, error) {
	s.mu.Lock()
	s.queries = append(s.queries, q)
	s.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return index.Result{}, err
	}
	if s.Answer == nil {
		return index.Result{}, nil
	}
	return s.Answer(q)
}

// Queries are what was asked so far, in order.
func (s *Script) Queries() []index.Query {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.queries)
}

// Partial is empty.
func (s *Script) Partial() []string { return nil }

// Close does nothing.
func (s *Script) Close() error { return nil }
