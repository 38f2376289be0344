package imagesearchtest

import (
	"context"
	"slices"
	"sync"

	"pawl/ports/imagesearch"
)

// Script is a searcher that answers as it is told, and remembers what it was asked. It is free to lie: what uses a searcher has to be
// tested against one that does.
type Script struct {
	Answer func(q imagesearch.Query) ([]imagesearch.Result, error) // nil: nothing is found

	mu      sync.Mutex
	queries []imagesearch.Query
}

var _ imagesearch.Searcher = (*Script)(nil)

// Name is "script".
func (s *Script) Name() string { return "script" }

// Search asks the script.
func (s *Script) Search(ctx context.Context, q imagesearch.Query) ([]imagesearch.Result, error) {
	s.mu.Lock()
	s.queries = append(s.queries, q)
	s.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if s.Answer == nil {
		return nil, nil
	}
	return s.Answer(q)
}

// Queries are what was asked so far, in order.
func (s *Script) Queries() []imagesearch.Query {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.queries)
}
