package visualdegrees

import (
	"context"
	"slices"
	"sync"

	"pawl/internal/album"
	"pawl/ports/faces"
	"pawl/ports/imagesearch"
)

// shown is a photograph of an album as a search would have seen it.
func shown(p album.Photo) Photo {
	out := Photo{Result: imagesearch.Result{ImageURL: p.URL(), ContextURL: p.URL()}}
	for _, f := range p.Faces {
		out.Faces = append(out.Faces, faces.Face{Name: f.Name, Confidence: f.Confidence})
	}
	out.IDs = people(out.Faces)
	return out
}

// walk is a search without an engine, for comparison, with the same services.
type walk struct {
	Trial
	ctx         context.Context
	used        Used
	memo        *sync.Map // what queries gave others, which costs as much; nil: nothing is shared
	search      int64     // caps; negative: none
	recognition int64
	spent       string // the meter that is
}

// shared is look for a search without a budget, which makes the same queries for every pair.
func (w *walk) shared(query string, each func(Photo)) error {
	type result struct {
		photos []Photo
		used   Used
	}
	known, ok := w.memo.Load(query)
	if !ok {
		one := &walk{Trial: w.Trial, ctx: w.ctx, search: -1, recognition: -1}
		var r result
		if err := one.look(query, func(p Photo) bool { r.photos = append(r.photos, p); return false }); err != nil {
			return err
		}
		r.used = one.used
		known, _ = w.memo.LoadOrStore(query, r)
	}
	r := known.(result)
	w.used.Search += r.used.Search
	w.used.Recognition += r.used.Recognition
	for _, p := range r.photos {
		each(p)
	}
	return nil
}

// look makes a query, looks at each of its pictures and gives those that could be looked at, until enough. Once a meter is spent nothing
// more is asked.
func (w *walk) look(query string, each func(Photo) (enough bool)) error {
	if w.spent != "" {
		return nil
	}
	if w.search >= 0 && w.used.Search >= w.search {
		w.spent = MeterSearch
		return nil
	}
	w.used.Search++
	rs, err := w.Agent.Search.Search(w.ctx, imagesearch.Query{Text: query, Count: DefaultImages})
	if err != nil {
		return err
	}
	for _, r := range rs {
		img, err := w.Agent.Fetch.Image(w.ctx, r.ImageURL)
		if err != nil {
			if w.ctx.Err() != nil {
				return err
			}
			continue
		}
		if w.recognition >= 0 && w.used.Recognition >= w.recognition {
			w.spent = MeterRecognition
			return nil
		}
		w.used.Recognition++
		rec, err := w.Agent.Faces.Recognize(w.ctx, faces.Picture{URL: r.ImageURL, Type: img.Type, Bytes: img.Bytes})
		if err != nil {
			return err
		}
		if each(Photo{Result: r, Faces: rec.Faces, IDs: people(rec.Faces)}) {
			return nil
		}
	}
	return nil
}

// breadth is a breadth-first search from the first person with no budget.
func (tr Trial) breadth(ctx context.Context, q Question, memo *sync.Map) (answer, error) {
	w := &walk{Trial: tr, ctx: ctx, memo: memo}
	a, b, t := person(q.A), person(q.B), tiesOf(nil, DefaultThreshold)
	t.names[a], t.names[b] = q.A, q.B
	depth, queue, reason := map[string]int{a: 0}, []string{a}, ReasonFrontier
	for len(queue) > 0 {
		x := queue[0]
		queue = queue[1:]
		if depth[x] == tr.hops() {
			reason = ReasonHops
			continue
		}
		for _, end := range discovery {
			if err := w.shared(t.names[x]+end, t.add); err != nil {
				return answer{}, err
			}
			if t.proven(x, b) {
				break
			}
		}
		for _, y := range t.beside(x) {
			if _, seen := depth[y]; !seen {
				depth[y] = depth[x] + 1
				queue = append(queue, y)
			}
		}
		if _, seen := depth[b]; seen {
			return answer{path: (&State{}).names(t, t.path(a, b, tr.hops())), used: w.used}, nil
		}
	}
	return answer{reason: reason, used: w.used}, nil
}

// plain is the seed read word by word: from one side, S4 searches again, nothing that was seen is remembered, nobody goes back, and the
// planner is the rule of S3.
func (tr Trial) plain(ctx context.Context, q Question) (answer, error) {
	w := &walk{Trial: tr, ctx: ctx, search: tr.Agent.allowed(MeterSearch), recognition: tr.Agent.allowed(MeterRecognition)}
	a, b := person(q.A), person(q.B)
	names := map[string]string{a: q.A, b: q.B}
	// verified looks for a photograph of both.
	verified := func(x, y string, queries ...string) (hit bool, err error) {
		for _, query := range queries {
			t := tiesOf(nil, DefaultThreshold)
			if err := w.look(query, func(p Photo) bool { t.add(p); return t.proven(x, y) }); err != nil || t.proven(x, y) || w.spent != "" {
				return t.proven(x, y), err
			}
		}
		return false, nil
	}
	path := []string{a}
	end := func(reason string) (answer, error) {
		if w.spent != "" {
			reason = reasonBudget + w.spent
		}
		return answer{reason: reason, used: w.used}, nil
	}
	found := func() (answer, error) {
		out := answer{used: w.used}
		for _, id := range append(path, b) {
			out.path = append(out.path, names[id])
		}
		return out, nil
	}
	if hit, err := verified(a, b, q.A+" "+q.B); hit || err != nil {
		if err != nil {
			return answer{}, err
		}
		return found()
	}
	for w.spent == "" {
		f := path[len(path)-1]
		t := tiesOf(nil, DefaultThreshold)
		for _, end := range discovery {
			if err := w.look(names[f]+end, func(p Photo) bool { t.add(p); return false }); err != nil {
				return answer{}, err
			}
		}
		next := ""
		for _, x := range t.beside(f) {
			if slices.Contains(path, x) || w.spent != "" {
				continue
			}
			hit, err := verified(f, x, names[f]+" "+t.names[x], names[f]+" "+t.names[x]+" event")
			if err != nil {
				return answer{}, err
			}
			if hit {
				next = x
				names[x] = t.names[x]
				break
			}
		}
		if next == "" {
			return end(ReasonFrontier)
		}
		path = append(path, next)
		if next == b {
			path = path[:len(path)-1]
			return found()
		}
		if len(path) > tr.hops() {
			return end(ReasonHops)
		}
		hit, err := verified(next, b, names[next]+" "+q.B)
		if err != nil {
			return answer{}, err
		}
		if hit {
			return found()
		}
	}
	return end("")
}
