package visualdegrees

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"pawl"
	"pawl/pawltest"
	"pawl/ports/faces"
	"pawl/ports/fetch"
	"pawl/ports/imagesearch"
	"pawl/ports/kv"
	"pawl/ports/kv/memory"
	"pawl/ports/llm/llmtest"
)

// crowd makes photographs of a few people, some of them recognized badly.
func crowd(rng *rand.Rand) (photos, people []string) {
	for i := range 5 + rng.IntN(12) {
		people = append(people, fmt.Sprint("Person", string(rune('A'+i))))
	}
	for i := range 4 + rng.IntN(30) {
		var in []string
		for _, j := range rng.Perm(len(people))[:1+rng.IntN(4)] {
			in = append(in, fmt.Sprintf("%s:%.1f", people[j], 60+40*rng.Float64()))
		}
		photos = append(photos, photo(fmt.Sprint(i), in...))
	}
	return photos, people
}

// TestStorm plays random worlds with hostile searchers, recognizers, fetchers and planners, crashes and tight budgets. Whatever they do, no
// bound breaks and no edge is forged (scene.holds, and the counts here).
func TestStorm(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	for i := range 150 {
		rng := rand.New(rand.NewPCG(seed, uint64(i)))
		photos, people := crowd(rng)
		s := newScene(t, photos...)
		s.search = hostile(rng, s)
		s.see = func(string) error {
			switch rng.IntN(12) {
			case 0:
				return faces.Failure{Recognizer: "album", Code: faces.CodeRateLimited, Text: "slow down", After: -1}.Fault()
			case 1:
				return faces.Failure{Recognizer: "album", Code: faces.CodePicture, Text: "no", After: -1}.Fault()
			}
			return nil
		}
		s.Fetch = sceneFetch{s.Fetch, map[string]fetch.Failure{
			"album:0": {URL: "album:0", Code: fetch.CodePage, Text: "a page", After: -1}, "album:1": {URL: "album:1", Code: pawl.CodeTimeout, Text: "slow", After: -1},
		}}
		if rng.IntN(2) == 0 {
			s.planner(func(_ int, b brief) llmtest.Turn { return hostilePlan(rng, b, people) })
		}
		script := budget(rng.Int64N(20), rng.Int64N(40), rng.Int64N(8))
		for range rng.IntN(3) {
			script.Crash = append(script.Crash, 1+rng.IntN(30))
		}
		in := with(ask(people[0], people[1]), func(c *Choices) {
			c.HopLimit, c.ImagesPerQuery, c.Reverify, c.PlanWithoutModel = 1+rng.IntN(6), 1+rng.IntN(5), rng.IntN(3) == 0, rng.IntN(2) == 0
			if rng.IntN(3) == 0 {
				oneSided(c)
			}
		})
		r := s.plays(t, in, script)
		caps := script.Start.Budget
		for meter, most := range caps {
			if r.Meter(meter) > most {
				t.Errorf("%s: %d of %d", meter, r.Meter(meter), most)
			}
		}
		if n := int64(len(s.searched)); n > r.Meter(MeterSearch) {
			t.Errorf("%d searches, %d charged", n, r.Meter(MeterSearch))
		}
		if n := int64(len(s.looked)); n > r.Meter(MeterRecognition) {
			t.Errorf("%d recognitions, %d charged", n, r.Meter(MeterRecognition))
		}
		if t.Failed() {
			t.Fatalf("seed %d, world %d: %s, %v", seed, i, r.Output.Reason, r.Run.Err)
		}
	}
}

// hostile answers some queries as no searcher should.
func hostile(rng *rand.Rand, s *scene) func(string) ([]imagesearch.Result, error) {
	return func(string) ([]imagesearch.Result, error) {
		one := imagesearch.Result{ImageURL: "album:2", ContextURL: "album:2", Title: "x"}
		switch rng.IntN(14) {
		case 0:
			return []imagesearch.Result{}, nil
		case 1:
			return []imagesearch.Result{one, one, one, one, one, one}, nil
		case 2:
			return []imagesearch.Result{{ImageURL: "", ContextURL: "y"}, {ImageURL: "album:3"}, one}, nil
		case 3:
			return nil, imagesearch.Failure{Source: "album", Code: imagesearch.CodeRateLimited, Text: "429", After: time.Second}.Fault()
		case 4:
			return nil, imagesearch.Failure{Source: "album", Code: pawl.CodeUnavailable, Text: "<html>", After: -1}.Fault()
		case 5:
			return []imagesearch.Result{{ImageURL: "http://127.0.0.1/x", ContextURL: "http://127.0.0.1/x"}, {ImageURL: "album:none", ContextURL: "album:none"}}, nil
		case 6:
			if rng.IntN(4) == 0 {
				return nil, imagesearch.Failure{Source: "album", Code: imagesearch.CodeQuota, Text: "none left today", After: -1}.Fault()
			}
		}
		return nil, nil
	}
}

// hostilePlan sometimes plans, and sometimes says what no plan may.
func hostilePlan(rng *rand.Rand, b brief, people []string) llmtest.Turn {
	switch rng.IntN(5) {
	case 0:
		return llmtest.Say("no JSON")
	case 1:
		return plans(Plan{NextCandidates: []string{people[rng.IntN(len(people))]}, SearchQueries: []string{"x"}, Narration: "x"})
	case 2:
		return llmtest.Fail(pawl.CodeUnavailable)
	}
	c := b.Candidates[rng.IntN(len(b.Candidates))].Name
	return plans(Plan{NextCandidates: []string{c}, SearchQueries: []string{c + " " + b.Target}, Narration: "Going on.", Stop: rng.IntN(2) == 0})
}

// TestEveryCrashComesToTheSameEnd: a search or a recognition that had ended is not made again, wherever the worker is dropped. One that was
// under way is, and is charged again.
func TestEveryCrashComesToTheSameEnd(t *testing.T) {
	s := fan(t)
	s.planner(func(_ int, b brief) llmtest.Turn {
		c := b.Candidates[len(b.Candidates)-1].Name
		return plans(Plan{NextCandidates: []string{c}, SearchQueries: []string{b.Frontier + " " + c}, Narration: "Going on."})
	})
	r := pawltest.EveryCrash(t, Graph(s.Agent), ask("A", "B"), pawltest.Script{Replay: true, Varies: []string{"timestamp", "started", "at", "timeLeft", "searchCallsUsed", "rekognitionCallsUsed", "llmCallsUsed"}})
	s.holds(t, ask("A", "B"), r)
	same(t, "path", r.Output.Path, []string{"A", "R", "S", "B"})
}

// TestR00078ErrorIsSanitized: what no search can be made without ends the run with one error event, which tells no key, address or stack.
func TestR00078ErrorIsSanitized(t *testing.T) {
	for code, category := range map[string]string{pawl.CodeForbidden: categoryIntegration, pawl.CodeInvalid: categoryIntegration, pawl.CodeUnavailable: categoryIntegration} {
		s := newScene(t, photo("1", "A", "X"))
		s.search = func(string) ([]imagesearch.Result, error) {
			return nil, imagesearch.Failure{Source: "brave", Code: code, Text: "https://x/?key=sk-secret at /home/me/x.go:1", After: -1}.Fault()
		}
		r := s.plays(t, ask("A", "B"), pawltest.Script{Answers: map[string][]any{"search/1/mended": {false}}})
		got := r.Emitted(EventError)
		if len(got) != 1 || strings.Contains(got[0], "secret") || strings.Contains(got[0], ".go") || !strings.Contains(got[0], category) {
			t.Errorf("%s: %q", code, got)
		}
	}
}

// TestCase53Quota: a day's quota is a spent budget, and what was seen until then still counts.
func TestCase53Quota(t *testing.T) {
	s := newScene(t, photo("1", "A", "X"), photo("2", "X", "Y"), photo("3", "Y", "B"))
	n := 0
	s.search = func(string) ([]imagesearch.Result, error) {
		if n++; n > 1 {
			return nil, imagesearch.Failure{Source: "googlecse", Code: imagesearch.CodeQuota, Text: "dailyLimitExceeded", After: -1}.Fault()
		}
		return nil, nil
	}
	r := s.plays(t, ask("A", "B"), pawltest.Script{})
	same(t, "reason", r.Output.Reason, "budget:search")
	same(t, "asked", n, 2)
}

// TestR00063Mirror: what outside readers find has the keys of the seed, is kept for the time that was said, and names are escaped. A mirror
// that is down changes nothing (R-000-13, R-000-29, R-000-63 to R-000-69, Q-000-11, Q-000-12, Q-000-17).
func TestR00063Mirror(t *testing.T) {
	for _, down := range []string{"", "refuses", "hangs"} {
		s := newScene(t, photo("1", "A/ one", "X"), photo("2", "X", "Y"), photo("3", "Y", "B"))
		var at time.Time
		m := &mirrored{Store: memory.New(memory.Config{Now: func() time.Time { return at }}), down: down}
		s.Mirror = m
		in := ask("A/ one", "B")
		in.SessionID = "s:1"
		in = with(in, oneSided)
		r := s.plays(t, in, pawltest.Script{})
		same(t, "status", r.Output.Status, "success")
		if down != "" {
			continue
		}
		prefix := "vd:s%3A1:" + r.Run.ID + ":"
		keys, err := m.Keys(t.Context(), prefix)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"meta", "seen:queries", "seen:images", "path", "decisions", "candidates:A%2F%20one", "edge:A%2F%20one:X"} {
			if !slices.Contains(keys, prefix+want) {
				t.Errorf("no key %s in %q", want, keys)
			}
		}
		var meta struct {
			State  string
			Failed map[string][]string
			Stop   string
		}
		raw, _, err := m.Get(t.Context(), prefix+"meta")
		if err != nil || json.Unmarshal(raw, &meta) != nil || meta.State != r.Path()[len(r.Path())-2] {
			t.Errorf("meta: %s, %v", raw, err)
		}
		if at = at.Add(20 * time.Minute); true {
			if left, err := m.Keys(t.Context(), prefix); err != nil || len(left) > 0 {
				t.Errorf("after 20 minutes: %q, %v", left, err)
			}
		}
	}
}

// TestR00069EveryKeyLives: what does not change is written again before its time is over, and whom the search failed to go on to is there by
// name (R-000-06, R-000-64, R-000-69, Q-000-12).
func TestR00069EveryKeyLives(t *testing.T) {
	s := newScene(t, photo("1", "A", "X"), photo("2", "A", "Yvo"), photo("3", "Yvo", "Z"), photo("4", "Z", "Q"), photo("5", "Q", "R"), photo("6", "R", "B"))
	m := &mirrored{Store: memory.New(memory.Config{Now: time.Now})}
	s.Mirror, s.MirrorFor = m, 10*time.Minute
	s.Search = slow{s.Search, 90 * time.Second}
	s.search = func(q string) ([]imagesearch.Result, error) {
		if strings.HasPrefix(q, "A X") {
			return []imagesearch.Result{}, nil
		}
		return nil, nil
	}
	in := with(ask("A", "B"), func(c *Choices) { oneSided(c); c.Reverify = true })
	m.whenever = func() {
		keys, err := m.Keys(t.Context(), "vd:")
		for _, want := range m.written {
			if err != nil || !slices.Contains(keys, want) {
				t.Errorf("%s is gone: %v", want, err)
			}
		}
	}
	r := s.plays(t, in, pawltest.Script{Start: pawl.StartOptions{Budget: pawl.Budget{pawl.MeterRuntime: maxRuntime.Milliseconds()}}})
	raw := m.last["meta"]
	var meta struct{ Failed map[string][]string }
	if err := json.Unmarshal(raw, &meta); err != nil || fmt.Sprint(meta.Failed) != "map[A:[X]]" {
		t.Errorf("%v, %v: %s", r.Path(), err, raw)
	}
}

type mirrored struct {
	*memory.Store
	down     string
	whenever func() // a key is written
	written  []string
	last     map[string][]byte // by the end of the key
}

var _ kv.Store = &mirrored{}

func (m *mirrored) Put(ctx context.Context, key string, value []byte, ttl time.Duration) error {
	if m.down == "hangs" {
		<-ctx.Done()
		return ctx.Err()
	}
	if m.down != "" {
		return kv.Failure{Store: "memory", Code: pawl.CodeUnavailable, Text: "down", After: -1}.Fault()
	}
	if m.whenever != nil {
		m.whenever()
	}
	if m.last == nil {
		m.last = map[string][]byte{}
	}
	m.written, m.last[key[strings.LastIndex(key, ":")+1:]] = append(m.written, key), value
	return m.Store.Put(ctx, key, value, ttl)
}
