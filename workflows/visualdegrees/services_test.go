package visualdegrees

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pawl"
	"pawl/pawltest"
	"pawl/ports/faces"
	"pawl/ports/fetch"
	"pawl/ports/imagesearch"
	"pawl/ports/llm"
	"pawl/ports/llm/llmtest"
)

// TestOneHostIsNotWaitedFor (S-000-06): one picture whose host wants to be left alone for an hour is left out, and the run goes on.
func TestOneHostIsNotWaitedFor(t *testing.T) {
	for _, after := range []time.Duration{-1, 70 * time.Second, time.Hour} {
		s := newScene(t, photo("x-1", "Ann", "Zed"), photo("x-2", "Ann", "Bob"), photo("x-3", "Bob", "Cid"))
		s.Fetch = sceneFetch{s.Fetch, map[string]fetch.Failure{"album:x-1": {URL: "album:x-1", Code: fetch.CodeRateLimited, Status: 429, Text: "x", After: after}}}
		r := pawltest.Run(t, Graph(s.Agent), with(ask("Ann", "Cid"), oneSided), pawltest.Script{})
		if !slices.Equal(r.Output.Path, []string{"Ann", "Bob", "Cid"}) {
			t.Errorf("after %v: %q, %v", after, r.Output.Reason, r.Output.Path)
		}
	}
}

// TestModelThatFails (R-000-82): whatever goes wrong with a model, a quota included, the rules choose instead; it is asked once a plan.
func TestModelThatFails(t *testing.T) {
	chain := []string{}
	names := []string{"Ann", "Bob", "Cid", "Dan", "Eve"}
	for i := range len(names) - 1 {
		chain = append(chain, photo(fmt.Sprint("x-", i), names[i], names[i+1]))
	}
	for _, code := range []string{llm.CodeQuota, llm.CodeRateLimited, pawl.CodeUnavailable, pawl.CodeForbidden} {
		s := newScene(t, chain...)
		plans := 0
		s.planner(func(int, brief) llmtest.Turn { plans++; return llmtest.Fail(code) })
		r := pawltest.Run(t, Graph(s.Agent), with(ask("Ann", "Eve"), oneSided), pawltest.Script{})
		chosen := 0
		for _, n := range r.Path() {
			if n == "S3" {
				chosen++
			}
		}
		if !slices.Equal(r.Output.Path, names) || plans == 0 || plans > chosen {
			t.Errorf("%s: %q, %v, asked %d times for %d plans", code, r.Output.Reason, r.Output.Path, plans, chosen)
		}
	}
}

// TestOneQueryIsRefused: a source that does not take one query may take the next.
func TestOneQueryIsRefused(t *testing.T) {
	s := newScene(t, photo("x-2", "Ann", "Bob"), photo("x-3", "Bob", "Cid"))
	s.search = func(q string) ([]imagesearch.Result, error) {
		if q == "Ann Cid" {
			return nil, imagesearch.Failure{Source: "x", Code: pawl.CodeInvalid, Status: 422, Text: "x", After: -1}.Fault()
		}
		return nil, nil
	}
	r := pawltest.Run(t, Graph(s.Agent), with(ask("Ann", "Cid"), oneSided), pawltest.Script{})
	if !slices.Equal(r.Output.Path, []string{"Ann", "Bob", "Cid"}) {
		t.Errorf("%q, %v", r.Output.Reason, r.Output.Path)
	}
}

// TestServiceIsDown: where no search was answered, or no photograph could be looked at, the run fails: that nobody was seen would say
// something of the people. A spent meter changes nothing of it.
func TestServiceIsDown(t *testing.T) {
	down := imagesearch.Failure{Source: "x", Code: pawl.CodeUnavailable, Status: 503, Text: "x", After: -1}.Fault()
	for _, searches := range []int64{1, 2, 3, 15} {
		s := newScene(t, photo("x-1", "Ann", "Bob"))
		s.search = func(string) ([]imagesearch.Result, error) { return nil, down }
		r := pawltest.Run(t, Graph(s.Agent), with(ask("Ann", "Bob"), oneSided), budget(searches, 75, 10))
		if r.Run.Err == nil || r.Run.Err.Code != pawl.CodeUnavailable {
			t.Errorf("%d searches that all fail: %q, %v", searches, r.Output.Reason, r.Run.Err)
		}
	}
	for what, breaks := range map[string]func(*scene){
		"recognizer": func(s *scene) {
			s.see = func(string) error {
				return faces.Failure{Recognizer: "x", Code: pawl.CodeUnavailable, Text: "x", After: -1}.Fault()
			}
		},
		"fetcher": func(s *scene) {
			s.Fetch = sceneFetch{s.Fetch, map[string]fetch.Failure{"album:x-1": {Code: pawl.CodeUnavailable, URL: "album:x-1", Text: "x", After: -1}}}
		},
	} {
		s := newScene(t, photo("x-1", "Ann", "Bob"))
		breaks(s)
		r := pawltest.Run(t, Graph(s.Agent), ask("Ann", "Bob"), pawltest.Script{})
		if r.Run.Err == nil || r.Run.Err.Code != pawl.CodeUnavailable || r.Output.Meta.Photographs != 0 {
			t.Errorf("a %s that is down: %q, %v, %d photographs looked at", what, r.Output.Reason, r.Run.Err, r.Output.Meta.Photographs)
		}
	}
}

// TestNobodyAtTheLimitIsPlannedFor: whoever would come last on a path that is as long as it may be is the end or nobody; the model is
// not asked for them, and the limit is the reason.
func TestNobodyAtTheLimitIsPlannedFor(t *testing.T) {
	for _, model := range []bool{false, true} {
		s := newScene(t, photo("x-1", "Ann", "Bob"), photo("x-2", "Ann", "Cid"), photo("x-3", "Zed", "Yan"))
		asked := 0
		if model {
			s.planner(func(int, brief) llmtest.Turn { asked++; return llmtest.Fail(llm.CodeRateLimited) })
		}
		r := pawltest.Run(t, Graph(s.Agent), with(ask("Ann", "Zed"), func(c *Choices) { oneSided(c); c.HopLimit = 1 }), pawltest.Script{})
		if r.Output.Reason != ReasonHops || asked > 0 {
			t.Errorf("%q, the model was asked %d times", r.Output.Reason, asked)
		}
	}
}

// TestCase54Parks: what is the same with every call until a person mends it parks the run, which then goes on with the same call; that
// costs what was asked, and no time. Who ends it instead gets the error.
func TestCase54Parks(t *testing.T) {
	search := func(code string) error {
		return imagesearch.Failure{Source: "x", Code: code, Text: "sk-secret", After: -1}.Fault()
	}
	look := func(code string) error {
		return faces.Failure{Recognizer: "x", Code: code, Text: "sk-secret", After: -1}.Fault()
	}
	for _, k := range []struct {
		key, code string
		fault     func(string) error
	}{
		{"search/1", pawl.CodeForbidden, search}, {"search/1", imagesearch.CodeUnset, search}, {"search/2", pawl.CodeForbidden, search},
		{"look/1", pawl.CodeForbidden, look}, {"look/1", faces.CodeUnset, look}, {"look/2", pawl.CodeInvalid, look},
	} {
		for _, end := range []bool{false, true} {
			t.Run(fmt.Sprint(k.key, " ", k.code, " ", end), func(t *testing.T) {
				s := newScene(t, photo("1", "A", "X"), photo("2", "X", "Y"), photo("3", "Y", "B"))
				from, asked := k.key[len(k.key)-1]-'0', byte(0)
				fails := func() error { // three times
					if asked++; asked >= from && (asked < from+3 || end) {
						return k.fault(k.code)
					}
					return nil
				}
				if strings.HasPrefix(k.key, "search") {
					s.search = func(string) ([]imagesearch.Result, error) { return nil, fails() }
				} else {
					s.see = func(string) error { return fails() }
				}
				answers := map[string][]any{k.key + "/mended": {true}, k.key + "/2/mended": {true}, k.key + "/3/mended": {true}}
				if end {
					answers[k.key+"/2/mended"] = []any{false}
				}
				r := s.plays(t, with(ask("A", "B"), oneSided), pawltest.Script{Replay: true, Answers: answers, Think: time.Hour})
				if end {
					if r.Run.Err == nil || r.Run.Err.Code != k.code || len(r.Emitted(EventError)) != 1 {
						t.Errorf("%+v, %v", r.Output, r.Run.Err)
					}
					return
				}
				same(t, "path", r.Output.Path, []string{"A", "X", "Y", "B"})
				same(t, "searched", int64(len(s.searched)), r.Meter(MeterSearch))
				same(t, "looked", int64(len(s.looked)), r.Meter(MeterRecognition))
			})
		}
	}
}
