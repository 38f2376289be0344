package pawl_test

import (
	"context"
	"errors"
	"time"

	"pawl"
)

type reusePolicy struct {
	RetryMax  int
	MaxCost   pawl.USD
	Threshold float64
	Timeout   time.Duration
	Video     string
}
type reuseCandidate struct {
	Asset      string
	Confidence float64
	Published  bool
}
type reuseInput struct{ Text, URL, Upload, Intent string }
type reuseState struct {
	Policy                     reusePolicy
	Rejected, Signature, Asset string
	Key                        string
	Top                        []reuseCandidate
	VideoPending, Approximate  bool
}
type reuseOutput struct {
	AssetVersionID              string
	VideoPending, IsApproximate bool
	RunID                       string
	AttemptNo                   int
	CostUSD                     pawl.USD
	DurationMS                  int64
}

type reuseAgent struct {
	solve   *pawl.Graph[reuseSolveIn, reuseSolveState, reuseSolveOut]
	video   *pawl.Graph[reuseVideoIn, reuseVideoState, struct{}]
	reindex *pawl.Graph[reuseReindexIn, struct{}, struct{}]
}

func (reuseAgent) node(ctx context.Context, s reuseState) (reuseState, error) { return s, nil }

func (reuseAgent) policy(ctx context.Context, s reuseState) (reuseState, error) {
	p, err := pawl.Do(ctx, "policy", func(context.Context) (reusePolicy, error) {
		return reusePolicy{MaxCost: pawl.Dollars(1), Timeout: time.Minute, Video: "async"}, nil
	})
	if err != nil {
		return s, err
	}
	s.Policy = p
	if err := pawl.Note(ctx, "policy_applied", p); err != nil {
		return s, err
	}
	return s, errors.Join(pawl.Cap(ctx, "usd", int64(p.MaxCost)), pawl.Cap(ctx, "runtime", p.Timeout.Milliseconds()))
}

func (reuseAgent) ingest(ctx context.Context, s reuseState) (reuseState, error) {
	_, err := pawl.Do(ctx, "normalize", func(context.Context) (string, error) { return "", nil },
		pawl.CallOptions{Retry: pawl.Retry{Max: s.Policy.RetryMax, First: time.Second, Factor: 4}})
	return s, err
}

func (a reuseAgent) index(ctx context.Context, s reuseState) (reuseState, error) {
	_, err := pawl.Do(ctx, "upsert", func(context.Context) (struct{}, error) { return struct{}{}, nil }, pawl.CallOptions{Timeout: 10 * time.Second})
	if err != nil {
		if _, err := pawl.Enqueue(ctx, "reindex", a.reindex, reuseReindexIn{s.Asset}, pawl.StartOptions{Key: s.Asset}); err != nil {
			return s, err
		}
		if err := pawl.Note(ctx, "index_deferred", map[string]string{"reason": err.Error()}); err != nil {
			return s, err
		}
	}
	if s.Policy.Video != "skip" {
		if _, err := pawl.Enqueue(ctx, "video", a.video, reuseVideoIn{s.Asset}); err != nil {
			return s, err
		}
		s.VideoPending = s.Policy.Video == "async"
	}
	return s, nil
}

func reuseRejected(s reuseState) bool { return s.Rejected != "" }
func reuseIsHit(s reuseState) bool {
	return len(s.Top) > 0 && s.Top[0].Confidence >= s.Policy.Threshold
}

// nearMiss: all retries spent, not for money, and a published candidate above 0.70 (R-001-52, Q-001-04, Q-001-05).
func reuseNearMiss(s reuseState, err error) (reuseState, bool) {
	if _, money := pawl.IsBudget(s, err); money || len(s.Top) == 0 || s.Top[0].Confidence <= 0.70 || !s.Top[0].Published {
		return s, false
	}
	s.Asset, s.Approximate = s.Top[0].Asset, true
	return s, true
}

func reuseGraph(a reuseAgent) *pawl.Graph[reuseInput, reuseState, reuseOutput] {
	g := pawl.New[reuseInput, reuseState, reuseOutput]("retrieveorgenerate", pawl.Options{Version: "1", Cost: pawl.Dollars(5)})
	initiated := g.Node("INITIATED", a.policy)
	ingesting := g.Node("INGESTING", a.ingest)
	retrieving := g.Node("RETRIEVING", a.node, pawl.NodeOptions{Retry: pawl.Retry{Max: 3, First: time.Second, Factor: 2}})
	generating := pawl.Sub(g, "GENERATING_SOLUTION", a.solve,
		func(s reuseState) (reuseSolveIn, error) { return reuseSolveIn{s.Signature, s.Policy}, nil },
		func(s reuseState, o reuseSolveOut) (reuseState, error) { return s, nil })
	registering := g.Node("REGISTERING", a.node, pawl.NodeOptions{Retry: pawl.Retry{Max: 5, First: time.Second, Factor: 2}})
	indexing := g.Node("INDEXING", a.index)
	hit := g.Succeed("SUCCEEDED", pawl.End[reuseState]{Outcome: "hit"})
	fresh := g.Succeed("SUCCEEDED", pawl.End[reuseState]{Outcome: "new"})
	failed := g.Fail("FAILED", pawl.End[reuseState]{Error: func(s reuseState) error { return &pawl.Error{Code: s.Rejected} }})

	g.Start(initiated, func(in reuseInput) (reuseState, error) { return reuseState{}, nil })
	g.From(initiated).Otherwise(ingesting)
	g.Key(ingesting, func(s reuseState) string { return s.Key }) // sha256 of signature, user and intent (R-001-28): another user has a run of their own
	g.From(ingesting).When("rejected", reuseRejected, failed).Otherwise(retrieving)
	g.From(retrieving).When("hit", reuseIsHit, hit).Otherwise(generating)
	g.From(generating).OnError("near miss", reuseNearMiss, hit).Otherwise(registering)
	g.From(registering).Otherwise(indexing)
	g.From(indexing).Otherwise(fresh)
	g.Finish(func(s reuseState, e pawl.Ending) (reuseOutput, error) {
		return reuseOutput{s.Asset, s.VideoPending, s.Approximate, e.Run, e.Attempt, e.Cost, e.Duration.Milliseconds()}, nil
	})
	return g
}

type reuseSolveIn struct {
	Signature string
	Policy    reusePolicy
}
type reuseSolveState struct {
	In   reuseSolveIn
	HTML string
}
type reuseSolveOut struct{ StorageKey string }

// Solve: generate and validate are one call, so that a bad page is a failed try and not a recorded result.
func reuseSolve() *pawl.Graph[reuseSolveIn, reuseSolveState, reuseSolveOut] {
	g := pawl.New[reuseSolveIn, reuseSolveState, reuseSolveOut]("solve", pawl.Options{Version: "1"})
	generate := g.Node("GENERATE", func(ctx context.Context, s reuseSolveState) (reuseSolveState, error) {
		html, err := pawl.Do(ctx, "page", func(ctx context.Context) (string, error) {
			settle, err := pawl.Hold(ctx, pawl.Dollars(0.02))
			if err != nil {
				return "", err
			}
			settle(pawl.Dollars(0.011))
			return "", nil
		}, pawl.CallOptions{Retry: pawl.Retry{Max: s.In.Policy.RetryMax, First: time.Second, Factor: 2}, Charge: pawl.Budget{"llm": 1}})
		s.HTML = html
		return s, err
	})
	store := g.Node("STORE", func(ctx context.Context, s reuseSolveState) (reuseSolveState, error) { return s, nil })
	ok := g.Succeed("SOLVED")
	g.Start(generate, func(in reuseSolveIn) (reuseSolveState, error) { return reuseSolveState{In: in}, nil })
	g.From(generate).Otherwise(store)
	g.From(store).Otherwise(ok)
	g.Finish(func(s reuseSolveState, _ pawl.Ending) (reuseSolveOut, error) { return reuseSolveOut{}, nil })
	return g
}

type reuseVideoIn struct{ Asset string }
type reuseVideoState struct {
	Already, Skipped bool
	Code             string
}

func reuseVideo() *pawl.Graph[reuseVideoIn, reuseVideoState, struct{}] {
	g := pawl.New[reuseVideoIn, reuseVideoState, struct{}]("video", pawl.Options{Version: "1"})
	n := func(ctx context.Context, s reuseVideoState) (reuseVideoState, error) { return s, nil }
	initiated, loading, preparing := g.Node("INITIATED", n), g.Node("LOADING_CONTEXT", n), g.Node("PREPARING_VIDEO", n)
	registering, persist, finalizing := g.Node("REGISTERING_ASSET", n), g.Node("PERSIST_OUTPUT", n), g.Node("FINALIZING_READY", n)
	rendering := g.Node("RENDERING_VIDEO", n, pawl.NodeOptions{Retry: pawl.Retry{Max: 2, First: time.Minute, Factor: 2}, Timeout: 20 * time.Minute})
	marking := g.Node("FAILURE_MARKING", n)
	ready := g.Succeed("SUCCEEDED", pawl.End[reuseVideoState]{Outcome: "video_ready"})
	already := g.Succeed("SUCCEEDED", pawl.End[reuseVideoState]{Outcome: "already_ready"})
	skipped := g.Succeed("SUCCEEDED", pawl.End[reuseVideoState]{Outcome: "skipped"})
	failed := g.Fail("FAILED", pawl.End[reuseVideoState]{Error: func(s reuseVideoState) error { return &pawl.Error{Code: s.Code} }})
	keep := func(s reuseVideoState, err error) (reuseVideoState, bool) { s.Code = err.Error(); return s, true }
	g.Start(initiated, func(reuseVideoIn) (reuseVideoState, error) { return reuseVideoState{}, nil })
	g.From(initiated).Otherwise(loading)
	g.From(loading).When("already there", func(s reuseVideoState) bool { return s.Already }, already).Otherwise(preparing)
	g.From(preparing).When("no encoder", func(s reuseVideoState) bool { return s.Skipped }, skipped).Otherwise(registering)
	g.From(registering).Otherwise(rendering)
	g.From(rendering, persist).OnError("render failed", keep, marking)
	g.From(rendering).Otherwise(persist)
	g.From(persist).Otherwise(finalizing)
	g.From(finalizing).Otherwise(ready)
	g.From(marking).Otherwise(failed)
	g.Finish(func(reuseVideoState, pawl.Ending) (struct{}, error) { return struct{}{}, nil })
	return g
}

type reuseReindexIn struct{ Asset string }

func reuseReindex() *pawl.Graph[reuseReindexIn, struct{}, struct{}] {
	g := pawl.New[reuseReindexIn, struct{}, struct{}]("admin.ReindexAsset", pawl.Options{Version: "1"})
	reindex := g.Node("REINDEX", func(ctx context.Context, s struct{}) (struct{}, error) { return s, nil },
		pawl.NodeOptions{Retry: pawl.Retry{Max: 5, First: 10 * time.Second, Factor: 4}})
	ok := g.Succeed("SUCCEEDED")
	g.Start(reindex, func(reuseReindexIn) (struct{}, error) { return struct{}{}, nil })
	g.From(reindex).Otherwise(ok)
	g.Finish(func(struct{}, pawl.Ending) (struct{}, error) { return struct{}{}, nil })
	return g
}
