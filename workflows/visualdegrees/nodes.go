package visualdegrees

import (
	"context"
	"fmt"
	"slices"

	"pawl"
)

// initialize is S0. The caps of the run are its own where it was given some, and the defaults else.
func (a Agent) initialize(ctx context.Context, s State) (State, error) {
	if err := s.clock(ctx); err != nil {
		return s, err
	}
	s.Started = s.At
	s.Source = fmt.Sprintf("%s, recognized by %s", a.Search.Name(), a.Faces.Name())
	for _, c := range []struct {
		meter string
		most  int64
	}{{MeterSearch, MaxSearch}, {MeterRecognition, MaxRecognition}, {MeterModel, MaxModel}} {
		meter, most := c.meter, c.most
		left, err := pawl.Remaining(ctx, meter)
		if err != nil {
			return s, err
		}
		if left >= ungiven {
			left = a.allowed(meter)
		}
		left = min(left, most)
		if err := pawl.Cap(ctx, meter, left); err != nil {
			return s, err
		}
		s.Caps.set(meter, left)
	}
	if err := a.time(ctx, &s); err != nil {
		return s, err
	}
	if err := a.status(ctx, &s, "Starting investigation…", map[string]any{"source": s.Source}); err != nil {
		return s, err
	}
	return s, a.mirror(ctx, State{}, &s)
}

// time caps the run's time. Some of it is over by now, and a little of what was given too.
func (a Agent) time(ctx context.Context, s *State) (err error) {
	s.Runtime, err = pawl.Do(ctx, "time", func(ctx context.Context) (int64, error) { return pawl.Remaining(ctx, pawl.MeterRuntime) })
	if err != nil {
		return err
	}
	if s.Runtime > ungivenRuntime.Milliseconds()/2 {
		s.Runtime = a.allowed(pawl.MeterRuntime)
	}
	s.Runtime = min(s.Runtime, maxRuntime.Milliseconds())
	s.TimeLeft = s.Runtime
	return pawl.Cap(ctx, pawl.MeterRuntime, s.Runtime)
}

// direct is S1: is there a photograph of both?
func (a Agent) direct(ctx context.Context, s State) (State, error) {
	was := s
	if err := s.clock(ctx); err != nil {
		return s, err
	}
	if err := a.status(ctx, &s, "Searching for direct visual connections…", nil); err != nil {
		return s, err
	}
	t := s.ties()
	x, y := s.root(fromA), s.root(fromB)
	hit := func() bool { return t.proven(x, y) }
	queries := []string{s.In.PersonA + " " + s.In.PersonB, s.In.PersonA + " " + s.In.PersonB + " event"}
	for i, q := range queries {
		before := len(s.Photos)
		if err := a.look(ctx, &s, t, q, hit); err != nil {
			return s, err
		}
		if s.Stop != "" || i == 0 && len(s.Photos) > before {
			break // the second is for a search that found nothing (R-000-17)
		}
	}
	if s.Verified = hit(); s.Verified {
		s.Stop = ""
		return s, a.arrive(ctx, was, &s, t)
	}
	if err := s.blind(); err != nil {
		return s, err
	}
	if err := a.partial(ctx, &s, t); err != nil {
		return s, err
	}
	return s, a.mirror(ctx, was, &s)
}

// blind is the error of a run that ends without having seen anything since a service could not be asked: nothing can be said about the
// two then. That its time is over says enough.
func (s *State) blind() error {
	text := ""
	switch {
	case s.Stop == "" || s.Stop == ReasonRuntime:
	case s.Searches == 0 && s.Broken > 0:
		text = "no image search could be made"
	case s.Unseen > 0 && s.Unseen == len(s.Photos):
		text = "no photograph could be looked at"
	}
	if text == "" {
		return nil
	}
	return pawl.Permanent(&pawl.Error{Code: pawl.CodeUnavailable, Op: "search", Text: text})
}

// discover is S2: it picks a frontier, and looks for those who stand beside it. Where nobody new does it goes to another frontier
// without a word to the model (Q-000-08).
func (a Agent) discover(ctx context.Context, s State) (State, error) {
	was := s
	if err := s.clock(ctx); err != nil {
		return s, err
	}
	s.Verified = false
	if err := a.status(ctx, &s, "Expanding search to find strong intermediates…", nil); err != nil {
		return s, err
	}
	t := s.ties()
	for {
		if s.Verified = s.connected(t); s.Verified { // the target was seen (Q-000-03), or the two sides have met
			s.Stop = ""
			return s, a.arrive(ctx, was, &s, t)
		}
		if s.Stop != "" {
			break
		}
		c, reason := s.choose(t)
		if reason != "" {
			s.Stop = reason
			break
		}
		s.Chosen, s.Side, s.Frontier = true, c.side, c.frontier
		s.Hop = t.reach(s.root(c.side), s.In.Options.HopLimit).depth[c.frontier]
		if !c.search {
			break
		}
		m := s.met(c.side, c.frontier)
		query := s.name(t, c.frontier) + discovery[m.Queries]
		m.Queries++
		if err := a.look(ctx, &s, t, query, func() bool { return s.connected(t) }); err != nil {
			return s, err
		}
	}
	if err := s.blind(); err != nil {
		return s, err
	}
	if s.Stop == "" {
		s.decided(Decision{State: "S2", Frontier: s.name(t, s.Frontier), By: "rules", Why: fmt.Sprintf("%d edges from %s", s.Hop, sideName(s.Side))})
	}
	return s, a.mirror(ctx, was, &s)
}

// verify is S4: is the edge from the frontier to whom the planner has chosen proven?
func (a Agent) verify(ctx context.Context, s State) (State, error) {
	was := s
	if err := s.clock(ctx); err != nil {
		return s, err
	}
	t := s.ties()
	f, x := s.Frontier, s.Trying
	m := s.met(s.Side, f)
	m.Tried = append(m.Tried, x)
	if s.Verified = t.proven(f, x) && !s.In.Options.Reverify; !s.Verified {
		answered := s.Searches
		if err := a.corroborate(ctx, &s, t); err != nil {
			return s, err
		}
		if t.proven(f, x) && (s.Stop != "" || s.Searches == answered) {
			s.Verified = true // what could not be looked for again still stands (Q-000-02)
		}
	}
	if !s.Verified {
		if s.Stop == "" {
			s.Failed = append(s.Failed, Pair{f, x})
			s.Another = s.open(t, s.Side, t.reach(s.root(s.Side), s.In.Options.HopLimit), f)
			s.decided(Decision{State: "S4", Frontier: s.name(t, f), Chosen: []string{s.name(t, x)}, By: "evidence", Why: "not verified"})
			if err := a.status(ctx, &s, "Unable to verify this intermediate; trying another…", nil); err != nil {
				return s, err
			}
		}
		return s, a.mirror(ctx, was, &s)
	}
	s.Stop = ""
	s.Known[s.Side] = append(s.Known[s.Side], Met{Person: x})
	if err := a.tell(ctx, &s, t, f, x); err != nil {
		return s, err
	}
	way := t.reach(s.root(s.Side), s.In.Options.HopLimit).chain(x)
	if s.Side == fromB {
		slices.Reverse(way)
	}
	if err := a.show(ctx, &s, t, way); err != nil {
		return s, err
	}
	return s, a.mirror(ctx, was, &s)
}

// corroborate searches for both, with two queries of its own where they were not made yet.
func (a Agent) corroborate(ctx context.Context, s *State, t *ties) error {
	f, x := s.name(t, s.Frontier), s.name(t, s.Trying)
	for _, q := range []string{f + " " + x, f + " " + x + " event"} {
		if s.Verified || s.Stop != "" {
			return nil
		}
		if s.asked(q) {
			continue
		}
		hit, err := a.both(ctx, s, t, q)
		if err != nil {
			return err
		}
		s.Verified = hit
	}
	return nil
}

// both makes a query and reports whether one of its pictures, new or seen before, shows the frontier and whom it is tried to go on to.
func (a Agent) both(ctx context.Context, s *State, t *ties, query string) (bool, error) {
	results, err := a.search(ctx, s, query)
	if err != nil || s.Stop != "" {
		return false, err
	}
	for _, r := range first(results, s.In.Options.ImagesPerQuery) {
		i := s.photo(r.ImageURL)
		if i < 0 {
			i = len(s.Photos)
			if err := a.photo(ctx, s, t, r); err != nil || s.Stop != "" {
				return false, err
			}
		}
		if t.score(i, s.Frontier, s.Trying) > 0 {
			return true, nil
		}
	}
	return false, nil
}

// bridge is S5: does whoever was verified last stand beside the target?
func (a Agent) bridge(ctx context.Context, s State) (State, error) {
	was := s
	if err := s.clock(ctx); err != nil {
		return s, err
	}
	t := s.ties()
	x, limit := s.Trying, s.In.Options.HopLimit
	target := s.target(s.Side)
	err := a.status(ctx, &s, fmt.Sprintf("Checking whether %s connects directly to %s…", s.name(t, x), s.name(t, target)), nil)
	if err != nil {
		return s, err
	}
	depth := t.reach(s.root(s.Side), limit).depth[x]
	enough := func() bool { return s.connected(t) }
	if s.Verified = enough(); !s.Verified && depth < limit { // one more edge is allowed (Q-000-01)
		if err := a.look(ctx, &s, t, s.name(t, x)+" "+s.name(t, target), enough); err != nil {
			return s, err
		}
		s.Verified = enough()
	}
	if s.Verified {
		s.Stop = ""
		return s, a.arrive(ctx, was, &s, t)
	}
	s.Frontier, s.Hop = x, depth
	if s.Stop == "" {
		_, s.Stop = s.choose(t)
	}
	if s.Stop == "" {
		if err := a.status(ctx, &s, "No direct edge found; expanding again…", nil); err != nil {
			return s, err
		}
	}
	return s, a.mirror(ctx, was, &s)
}

// arrive is the end of a search that has found a path, which is read from the proven edges again (R-000-49).
func (a Agent) arrive(ctx context.Context, was State, s *State, t *ties) error {
	if err := a.show(ctx, s, t, t.path(s.root(fromA), s.root(fromB), s.In.Options.HopLimit)); err != nil {
		return err
	}
	s.decided(Decision{State: pawl.Info(ctx).Node, Frontier: s.name(t, s.Frontier), Chosen: s.Path, By: "evidence", Why: "the path is proven"})
	return a.mirror(ctx, was, s)
}

// show makes a chain the best one so far: the evidence of each of its edges, and then the chain.
func (a Agent) show(ctx context.Context, s *State, t *ties, way []string) error {
	for i := range way[1:] {
		if err := a.tell(ctx, s, t, way[i], way[i+1]); err != nil {
			return err
		}
	}
	s.Path = s.names(t, way)
	return a.pathUpdate(ctx, s)
}

func (s *State) names(t *ties, ids []string) (names []string) {
	for _, id := range ids {
		names = append(names, s.name(t, id))
	}
	return names
}
