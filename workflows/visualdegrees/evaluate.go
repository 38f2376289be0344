package visualdegrees

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"sync"

	"pawl"
	"pawl/internal/album"
	"pawl/internal/text"
)

// Question is a pair to connect.
type Question struct {
	A, B string
	Line int
}

// LoadQuestions reads pairs: a CSV with the columns source and target; others are ignored.
func LoadQuestions(name string, r io.Reader) ([]Question, error) {
	in := csv.NewReader(r)
	in.FieldsPerRecord = -1
	head, err := in.Read()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if len(head) > 0 {
		head[0] = strings.TrimPrefix(head[0], "\ufeff")
	}
	a, b := slices.Index(head, "source"), slices.Index(head, "target")
	if a < 0 || b < 0 {
		return nil, fmt.Errorf("%s:1: the columns source and target are needed, not %q", name, head)
	}
	var out []Question
	for {
		row, err := in.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		line, _ := in.FieldPos(0)
		if len(row) <= max(a, b) {
			return nil, fmt.Errorf("%s:%d: %d columns, source and target are missing", name, line, len(row))
		}
		q := Question{row[a], row[b], line}
		if _, _, err := (Input{PersonA: q.A, PersonB: q.B}).check(); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", name, line, err)
		}
		out = append(out, q)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%s: no pairs", name)
	}
	return out, nil
}

// Report is what a way to search has made of all pairs. Its names are fixed.
type Report struct {
	Pairs       int            `json:"pairs"`
	Reachable   int            `json:"reachable"`         // pairs that a chain of recognized, fetchable photographs connects
	Found       int            `json:"found"`             // of them, by a chain
	FoundShare  float64        `json:"found_share"`       // found / reachable
	False       int            `json:"false_edges"`       // accepted without a fetchable photograph in which both are recognized
	Mislabelled int            `json:"mislabelled_edges"` // accepted, and only by wrong labels of the album
	Invalid     int            `json:"invalid_paths"`     // successes that are no chain from the one to the other within the limit
	Search      float64        `json:"mean_search"`
	Recognition float64        `json:"mean_recognition"`
	Model       float64        `json:"mean_llm"`
	ByReason    map[string]int `json:"by_reason"`
}

// Comparison is the workflow beside a search without a budget and beside the seed read word by word.
type Comparison struct {
	Pawl  Report `json:"pawl"`
	BFS   Report `json:"bfs"`
	Plain Report `json:"plain"`
}

// Trial is an evaluation over an album.
type Trial struct {
	Agent Agent // searches, fetches and recognizes in the album; its Budget is every pair's
	Album *album.Album
	Hops  int // 0: DefaultHops
}

// answer is what became of one pair.
type answer struct {
	path   []string // names; nil: none
	reason string
	used   Used
}

// Run plays every pair in the three ways, several at once.
func (tr Trial) Run(ctx context.Context, qs []Question) (Comparison, error) {
	w := newWorld(tr.Album, DefaultThreshold)
	var c Comparison
	var memo sync.Map
	for _, way := range []struct {
		to   *Report
		play func(context.Context, Question) (answer, error)
	}{{&c.Pawl, tr.pawl}, {&c.BFS, func(ctx context.Context, q Question) (answer, error) { return tr.breadth(ctx, q, &memo) }}, {&c.Plain, tr.plain}} {
		answers, err := each(ctx, qs, way.play)
		if err != nil {
			return c, err
		}
		*way.to = w.judge(qs, answers, tr.hops())
	}
	return c, nil
}

func (tr Trial) hops() int {
	if tr.Hops == 0 {
		return DefaultHops
	}
	return tr.Hops
}

// each plays the pairs on all processors; the answers are in the order of the pairs.
func each(ctx context.Context, qs []Question, play func(context.Context, Question) (answer, error)) ([]answer, error) {
	out, next := make([]answer, len(qs)), make(chan int)
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var wg sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(qs)) {
		wg.Go(func() {
			for i := range next {
				a, err := play(ctx, qs[i])
				if err != nil {
					stop(fmt.Errorf("line %d: %w", qs[i].Line, err))
				}
				out[i] = a
			}
		})
	}
	for i := range qs {
		if ctx.Err() != nil {
			break
		}
		next <- i
	}
	close(next)
	wg.Wait()
	return out, context.Cause(ctx)
}

// pawl is the workflow itself.
func (tr Trial) pawl(ctx context.Context, q Question) (answer, error) {
	out, err := pawl.Execute(ctx, Graph(tr.Agent), Input{PersonA: q.A, PersonB: q.B, Options: Choices{HopLimit: tr.hops()}})
	var e *pawl.Error
	if err != nil && !(errors.As(err, &e) && out.Status == "no_path") {
		return answer{}, err
	}
	return answer{out.Path, out.Reason, out.Meta.Budgets}, nil
}

// world is what an album proves, all of it at once.
type world struct {
	seen  *ties // by recognition
	truth *ties // by what the captions say
}

func newWorld(al *album.Album, threshold float64) world {
	w := world{tiesOf(nil, threshold), tiesOf(nil, threshold)}
	for _, p := range al.Photos() {
		if p.Outcome != album.OK && p.Outcome != album.WebP {
			continue
		}
		w.seen.add(shown(p))
		said := p
		said.Faces = nil
		for _, name := range p.People {
			said.Faces = append(said.Faces, album.Face{Name: name, Confidence: album.Certain})
		}
		w.truth.add(shown(said))
	}
	return w
}

// judge holds answers against the world.
func (w world) judge(qs []Question, answers []answer, hops int) Report {
	r := Report{Pairs: len(qs), ByReason: map[string]int{}}
	for i, q := range qs {
		a, x, y := answers[i], person(q.A), person(q.B)
		if w.seen.path(x, y, hops) != nil {
			r.Reachable++
		}
		r.Search += float64(a.used.Search) / float64(len(qs))
		r.Recognition += float64(a.used.Recognition) / float64(len(qs))
		r.Model += float64(a.used.Model) / float64(len(qs))
		if a.path == nil {
			r.ByReason[a.reason]++
			continue
		}
		if n := len(a.path); n < 2 || n-1 > hops || person(a.path[0]) != x || person(a.path[n-1]) != y || repeats(a.path) {
			r.Invalid++
			r.ByReason["invalid_path"]++
			continue
		}
		r.Found++
		r.ByReason["found"]++
		for j := range a.path[1:] {
			from, to := person(a.path[j]), person(a.path[j+1])
			switch {
			case !w.seen.proven(from, to):
				r.False++
			case !w.truth.proven(from, to):
				r.Mislabelled++
			}
		}
	}
	if r.Reachable > 0 {
		r.FoundShare = float64(r.Found) / float64(r.Reachable)
	}
	return r
}

func repeats(path []string) bool {
	keys := map[string]bool{}
	for _, n := range path {
		if k := text.Key(n); keys[k] {
			return true
		} else {
			keys[k] = true
		}
	}
	return false
}
