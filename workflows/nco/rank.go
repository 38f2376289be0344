package nco

import (
	"context"

	"pawl/ports/index"
)

// Rank gives the k entries that come nearest to a description, best first, as they stand before anything is asked. A
// description that names no work has none.
func (a Agent) Rank(ctx context.Context, description string, k int) ([]Candidate, error) {
	a = a.settled()
	e, err := a.Expander.Expand(ctx, Turn{Messages: []Message{{Role: RoleUser, Text: description}}})
	if err != nil {
		return nil, err
	}
	query := e.Query
	if query == "" { // a question comes first, but there may be something to rank by all the same
		query = description
	}
	r, err := a.Index.Search(ctx, index.Query{Text: searchText(query), K: k})
	if err != nil {
		return nil, err
	}
	return a.accept(query, r, k).Candidates, nil
}
