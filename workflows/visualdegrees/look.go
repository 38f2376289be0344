package visualdegrees

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"pawl"
	"pawl/internal/text"
	"pawl/ports/faces"
	"pawl/ports/imagesearch"
)

// again is how an error of a service is tried again: once (S-000-06).
var again = pawl.Retry{Max: 1}

// spare is how much of its time a run keeps for its visits to end by themselves: one that the engine ends loses what it has seen.
const spare = time.Second

func (s *State) spare() time.Duration { return min(spare, s.time()/10) }

// time is what the run may take.
func (s *State) time() time.Duration { return milliseconds(s.Runtime) }

func milliseconds(n int64) time.Duration {
	return time.Duration(min(n, maxRuntime.Milliseconds())) * time.Millisecond
}

// within is how long an attempt of a call may take: the engine ends it then, and not the visit.
func (s *State) within(kept time.Duration) time.Duration {
	return max(milliseconds(s.TimeLeft)-kept, kept)
}

// inTime makes an attempt of a call where the run has more time left than is kept, and tells how much it has then. Where that is over, or
// would be before the service may be asked again, the runtime is spent.
func inTime[T any](ctx context.Context, s *State, attempt func(context.Context) (T, error)) (t T, ms int64, err error) {
	ms, err = pawl.Remaining(ctx, pawl.MeterRuntime)
	if err != nil {
		return t, 0, err
	}
	over := &pawl.BudgetError{Meter: pawl.MeterRuntime, Used: s.Runtime, Cap: s.Runtime}
	left, began := milliseconds(min(ms, s.Runtime))-s.spare(), pawl.Now(ctx)
	if left <= 0 {
		return t, 0, over
	}
	t, err = attempt(ctx)
	left -= pawl.Now(ctx).Sub(began)
	if after, again := pawl.Retryable(err); err != nil && again && after >= left {
		err = over
	}
	return t, (left + s.spare()).Milliseconds(), err
}

// found is what a search gave, as it is recorded.
type found struct {
	Results []imagesearch.Result `json:"results"`
	Left    int64                `json:"left"`     // searches that the run may still make
	Time    int64                `json:"timeLeft"` // milliseconds that it has
}

// seen is what a look at a picture gave, as it is recorded.
type seen struct {
	faces.Recognition
	Skipped string `json:"skipped,omitempty"`
	Left    int64  `json:"left"` // recognitions that the run may still make
	Time    int64  `json:"timeLeft"`
}

// skips are the errors that say something of one picture or one moment: the search goes on without it. Whatever else goes wrong with a
// service would go wrong with the next one too.
func skips(ctx context.Context, err error) bool {
	switch pawl.Coded(err).Code {
	case pawl.CodeForbidden, pawl.CodeInvalid, pawl.CodeCancelled, faces.CodeUnset:
		return false
	}
	return ctx.Err() == nil && !errors.Is(err, pawl.ErrParked)
}

// look makes one query, at most once in a run, and looks at its first pictures, until enough says that nothing more is needed. A
// spent meter is said in s.Stop.
func (a Agent) look(ctx context.Context, s *State, t *ties, query string, enough func() bool) error {
	if s.asked(query) {
		return nil
	}
	results, err := a.search(ctx, s, query)
	if err != nil || s.Stop != "" {
		return err
	}
	for _, r := range first(results, s.In.Options.ImagesPerQuery) {
		if s.photo(r.ImageURL) >= 0 {
			continue // what was seen in it counts for every pair
		}
		if err := a.photo(ctx, s, t, r); err != nil || s.Stop != "" {
			return err
		}
		if enough() {
			break
		}
	}
	return nil
}

func (s *State) asked(query string) bool {
	key := text.Key(query)
	return slices.ContainsFunc(s.Asked, func(q string) bool { return text.Key(q) == key })
}

func first[T any](all []T, n int) []T { return all[:min(n, len(all))] }

// search makes the query. What a service could not answer is said, and no result.
func (a Agent) search(ctx context.Context, s *State, query string) ([]imagesearch.Result, error) {
	s.Asked = append(s.Asked, query)
	got, key, err := mending(ctx, fmt.Sprint("search/", len(s.Asked)), "The image search", searchParks, func(key string) (found, error) {
		return pawl.Do(ctx, key, func(ctx context.Context) (found, error) {
			rs, time, err := inTime(ctx, s, func(ctx context.Context) ([]imagesearch.Result, error) {
				if err := pawl.Charge(ctx, MeterSearch, 1); err != nil {
					return nil, err
				}
				return a.Search.Search(ctx, imagesearch.Query{Text: query, Count: s.In.Options.ImagesPerQuery})
			})
			if err != nil {
				return found{}, err
			}
			left, err := pawl.Remaining(ctx, MeterSearch)
			return found{valid(rs), left, time}, err
		}, pawl.CallOptions{For: query, Retry: again, Timeout: s.within(s.spare())})
	})
	if err == nil {
		s.Searches++
		s.Spent.Search, s.TimeLeft = s.Caps.Search-got.Left, got.Time
		return got.Results, nil
	}
	spent, quota := s.Spent.Search, pawl.Coded(err).Code == imagesearch.CodeQuota
	switch {
	case s.stops(err):
	case quota: // of a day, which is spent at the service: a spent meter too (case 53)
		s.Stop = reasonBudget + MeterSearch
	case pawl.Coded(err).Code == pawl.CodeInvalid: // that is about this query: the next one may be taken
	case !skips(ctx, err):
		return nil, err
	}
	if err := s.count(ctx, MeterSearch, key); err != nil {
		return nil, err
	}
	if !quota && s.Spent.Search > spent { // asked, even where it was to be asked once more than the meter allowed
		s.Broken++
	}
	if s.Stop != "" {
		return nil, nil
	}
	s.decided(Decision{State: pawl.Info(ctx).Node, Frontier: s.Frontier, Chosen: []string{query}, By: "search", Why: pawl.Coded(err).Code})
	return nil, a.status(ctx, s, "The image search could not be asked; going on without it.", nil)
}

// valid are the results that a searcher may give: with a picture and its page, at addresses that a state has room for, each picture once
// (S-000-05).
func valid(rs []imagesearch.Result) []imagesearch.Result {
	out := []imagesearch.Result{}
	address := func(s string) bool { return s != "" && len(s) <= imagesearch.MaxURL }
	for _, r := range rs {
		if !address(r.ThumbnailURL) {
			r.ThumbnailURL = ""
		}
		if address(r.ImageURL) && address(r.ContextURL) && !slices.ContainsFunc(out, func(o imagesearch.Result) bool { return o.ImageURL == r.ImageURL }) {
			r.Title, _ = text.Clip(text.Visible(strings.Join(strings.Fields(r.Title), " ")), 300)
			out = append(out, r)
		}
	}
	return out
}

// photo fetches a picture, has it recognized, and takes it among those that were seen. One that cannot be had or read costs no recognition
// (case 54).
func (a Agent) photo(ctx context.Context, s *State, t *ties, r imagesearch.Result) error {
	got, key, err := mending(ctx, fmt.Sprint("look/", len(s.Photos)+1), "The recognizer of faces", facesPark, func(key string) (seen, error) {
		return pawl.Do(ctx, key, func(ctx context.Context) (seen, error) {
			got, time, err := inTime(ctx, s, func(ctx context.Context) (seen, error) { return a.see(ctx, r.ImageURL) })
			if got.Time = time; err == nil {
				got.Left, err = pawl.Remaining(ctx, MeterRecognition)
			}
			return got, err
		}, pawl.CallOptions{For: r.ImageURL, Retry: again, Timeout: s.within(s.spare())})
	})
	if err == nil {
		s.Spent.Recognition, s.TimeLeft = s.Caps.Recognition-got.Left, got.Time
		s.take(ctx, t, Photo{Result: r, Faces: got.Faces, IDs: people(got.Faces), Unknown: got.Unknown, Documented: got.Documented, Skipped: got.Skipped})
		return nil
	}
	if stopped := s.stops(err); !stopped && !skips(ctx, err) {
		return err
	}
	if err := s.count(ctx, MeterRecognition, key); err != nil || s.Stop != "" {
		return err
	}
	s.Unseen++
	s.take(ctx, t, Photo{Result: r, Skipped: pawl.Coded(err).Code})
	return a.status(ctx, s, "A photograph could not be looked at; going on with the others.", nil)
}

// patience is how long one picture's host is waited for, where it says that it wants to be left alone: there are others (S-000-06).
const patience = 2 * time.Second

// see is one look at a picture. What is wrong with the picture itself is recorded like a result, and not asked for again.
func (a Agent) see(ctx context.Context, url string) (seen, error) {
	img, err := a.Fetch.Image(ctx, url)
	if err != nil {
		if after, passing := pawl.Retryable(err); passing && after <= patience {
			return seen{}, err
		}
		return seen{Skipped: pawl.Coded(err).Code}, nil
	}
	var got faces.Recognition
	p, err := faces.Fit(ctx, a.Faces, faces.Picture{URL: url, Type: img.Type, Bytes: img.Bytes})
	if err == nil {
		if err := pawl.Charge(ctx, MeterRecognition, 1); err != nil {
			return seen{}, err
		}
		got, err = a.Faces.Recognize(ctx, p)
	}
	if faces.RemedyOf(err) == faces.Skip {
		return seen{Skipped: faces.Code(err)}, nil
	}
	return seen{Recognition: checked(got)}, err
}

// count reads what was used of a meter by a call that had no result: each of its attempts may have cost one.
func (s *State) count(ctx context.Context, meter, call string) error {
	left, err := pawl.Do(ctx, call+"/left", func(ctx context.Context) (m map[string]int64, err error) {
		m = map[string]int64{}
		if m[meter], err = pawl.Remaining(ctx, meter); err == nil {
			m[pawl.MeterRuntime], err = pawl.Remaining(ctx, pawl.MeterRuntime)
		}
		return m, err
	})
	if err == nil {
		s.Spent.set(meter, s.Caps.of(meter)-left[meter])
		s.TimeLeft = left[pawl.MeterRuntime]
	}
	return err
}

// checked drops what no recognizer may say: names that are none, and confidences that are no percentages.
func checked(r faces.Recognition) faces.Recognition {
	r.Faces = slices.DeleteFunc(slices.Clone(r.Faces), func(f faces.Face) bool {
		return person(f.Name) == "" || !(f.Confidence >= 0 && f.Confidence <= 100)
	})
	return r
}

// stops notes a spent meter.
func (s *State) stops(err error) bool {
	b, ok := errors.AsType[*pawl.BudgetError](err)
	if ok {
		s.Stop = reasonOf(b)
	}
	return ok
}
