package visualdegrees

import (
	"context"
	"slices"
	"time"

	"pawl"
	"pawl/ports/faces"
)

// The events of a run, and no others but the engine's own (R-000-75). Each has runId and timestamp; exactly one of the last three ends it.
const (
	EventStatus   = "status"
	EventEvidence = "evidence"
	EventPath     = "path_update"
	EventFinal    = "final"
	EventNoPath   = "no_path"
	EventError    = "error"
)

// Stamp is what every event has. The time is that of the visit to its state, so that a visit which is made again after a crash emits the same.
type Stamp struct {
	RunID     string    `json:"runId"`
	Timestamp time.Time `json:"timestamp"`
}

// StatusEvent says what is done.
type StatusEvent struct {
	Stamp
	Message string     `json:"message"`
	Meta    StatusMeta `json:"meta"`
}

// StatusMeta is where the search stands.
type StatusMeta struct {
	Hop      int     `json:"hop"`
	Frontier string  `json:"frontier,omitempty"`
	Side     string  `json:"side"`
	Budget   Used    `json:"budget"`
	Caps     Used    `json:"caps"`
	Source   string  `json:"source,omitempty"`
	Partial  []Photo `json:"partial,omitempty"` // pictures of one of the two: no evidence (Q-000-05)
}

// EvidenceEvent is a verified edge.
type EvidenceEvent struct {
	Stamp
	Edge Edge `json:"edge"`
}

// PathEvent is the best chain so far.
type PathEvent struct {
	Stamp
	Path []string `json:"path"`
	Meta struct {
		Hop  int    `json:"hop"`
		Side string `json:"side"`
	} `json:"meta"`
}

// Edge is two people and the photographs that prove them.
type Edge struct {
	From               string     `json:"from"`
	To                 string     `json:"to"`
	EdgeConfidence     float64    `json:"edgeConfidence"`
	Documented         bool       `json:"documented,omitempty"` // by what is known of the photograph, and not measured by a recognizer
	ValidEvidenceCount int        `json:"validEvidenceCount"`
	BestEvidence       Evidence   `json:"bestEvidence"`
	Evidence           []Evidence `json:"evidence"`
}

// Evidence is one photograph of both ends of an edge: S-000-08.
type Evidence struct {
	From           string       `json:"from"`
	To             string       `json:"to"`
	ImageURL       string       `json:"imageUrl"`
	ThumbnailURL   string       `json:"thumbnailUrl,omitempty"`
	ContextURL     string       `json:"contextUrl"`
	Title          string       `json:"title"`
	DetectedCelebs []faces.Face `json:"detectedCelebs"`
	ImageScore     float64      `json:"imageScore"`
	Documented     bool         `json:"documented,omitempty"`
}

const (
	mostEvidence = 5 // photographs that are shown of an edge
	mostOthers   = 4 // people who are shown of a photograph beside those whom it is shown for
)

// edge is a proven edge, its best photographs first.
func (s *State) edge(t *ties, from, to string) Edge {
	e := Edge{From: s.name(t, from), To: s.name(t, to), EdgeConfidence: t.between(from, to).conf, ValidEvidenceCount: len(t.between(from, to).photos)}
	all := slices.Clone(t.between(from, to).photos)
	slices.SortStableFunc(all, func(i, j int) int {
		switch x, y := t.score(i, from, to), t.score(j, from, to); {
		case x > y:
			return -1
		case x < y:
			return 1
		}
		return 0
	})
	for _, i := range first(all, mostEvidence) {
		p := t.photos[i]
		e.Evidence = append(e.Evidence, Evidence{
			From: e.From, To: e.To, ImageURL: p.ImageURL, ThumbnailURL: p.ThumbnailURL, ContextURL: p.ContextURL, Title: p.Title,
			DetectedCelebs: p.of(from, to).Faces, ImageScore: t.score(i, from, to), Documented: p.Documented,
		})
	}
	e.BestEvidence = e.Evidence[0]
	e.Documented = e.BestEvidence.Documented
	return e
}

func stamp(ctx context.Context, s *State) Stamp {
	return Stamp{pawl.Info(ctx).Run, time.UnixMilli(s.At).UTC()}
}

// status tells what is done.
func (a Agent) status(ctx context.Context, s *State, message string, meta map[string]any) error {
	e := StatusEvent{Stamp: stamp(ctx, s), Message: message, Meta: StatusMeta{Hop: s.Hop, Side: sideName(s.Side), Budget: s.Spent, Caps: s.Caps}}
	if e.Meta.Frontier = s.In.PersonA; s.Frontier != s.root(fromA) {
		e.Meta.Frontier = s.shown(s.Frontier)
	}
	e.Meta.Source, _ = meta["source"].(string)
	e.Meta.Partial, _ = meta["partial"].([]Photo)
	return pawl.Emit(ctx, EventStatus, e)
}

// partial tells of the photographs that show one of the two (R-000-23).
func (a Agent) partial(ctx context.Context, s *State, t *ties) error {
	var some []Photo
	for _, p := range s.Photos {
		if t.shows(p, s.root(fromA)) > 0 || t.shows(p, s.root(fromB)) > 0 {
			some = append(some, p.of(s.root(fromA), s.root(fromB)))
		}
	}
	if len(some) == 0 || s.Stop != "" {
		return nil
	}
	return a.status(ctx, s, "No photograph of both yet.", map[string]any{"partial": some})
}

// tell shows a verified edge, once.
func (a Agent) tell(ctx context.Context, s *State, t *ties, from, to string) error {
	if slices.Contains(s.Told, Pair{from, to}) || slices.Contains(s.Told, Pair{to, from}) {
		return nil
	}
	s.Told = append(s.Told, Pair{from, to})
	e := EvidenceEvent{stamp(ctx, s), s.edge(t, from, to)}
	return pawl.Emit(ctx, EventEvidence, fit(func(photos, address int) EvidenceEvent {
		return EvidenceEvent{e.Stamp, e.Edge.within(photos, address)}
	}))
}

// pathUpdate tells the best chain.
func (a Agent) pathUpdate(ctx context.Context, s *State) error {
	e := PathEvent{Stamp: stamp(ctx, s), Path: s.Path}
	e.Meta.Hop, e.Meta.Side = len(s.Path)-1, sideName(s.Side)
	return pawl.Emit(ctx, EventPath, e)
}

// The categories of errors (S-000-04).
const (
	categoryIntegration = "INTEGRATION_ERROR"
	categoryTimeout     = "TIMEOUT"
	categoryInvalid     = "VALIDATION_ERROR"
)

// ErrorEvent says that something unexpected ended the run: no keys, no addresses, no stack (R-000-78).
type ErrorEvent struct {
	Stamp
	Message string `json:"message"`
	Meta    struct {
		Category string `json:"category"`
		Code     string `json:"code"`
	} `json:"meta"`
}

// FinalEvent has a path in the words of the seed, which are four (R-000-56), and as the result of the contract of events, which no_path has
// too (S-000-04). Decisions are in the output of the run.
type FinalEvent struct {
	Stamp
	Path          []string       `json:"path"`
	Edges         []Edge         `json:"edges"`
	ConfidenceMap *ConfidenceMap `json:"confidenceMap"`
	Graph         *Picture       `json:"graph"`
	Result        Output         `json:"result"`
}

// NoPathEvent has why there is none.
type NoPathEvent struct {
	Stamp
	Result Output `json:"result"`
}

// closing is the one event that ends a run, in the commit that ends it (R-000-79).
func closing(s State, e pawl.Ending) []pawl.Event {
	at := Stamp{e.Run, time.UnixMilli(s.Started).Add(e.Duration).UTC()}
	switch e.Terminal {
	case "S6":
		all := success(s)
		return []pawl.Event{{Type: EventFinal, Data: fit(func(photos, address int) FinalEvent {
			o := all.within(photos, address)
			return FinalEvent{at, o.Path, o.Edges, o.ConfidenceMap, o.Graph, o}
		})}}
	case "S7":
		o := failure(s)
		o.Decisions = nil
		return []pawl.Event{{Type: EventNoPath, Data: NoPathEvent{at, o}}}
	}
	out := ErrorEvent{Stamp: at, Message: "The search was ended by an error."}
	out.Meta.Category, out.Meta.Code = categoryIntegration, "internal"
	if e.Err != nil {
		out.Meta.Code = e.Err.Code
		switch e.Err.Code {
		case pawl.CodeTimeout:
			out.Meta.Category, out.Message = categoryTimeout, "The search took too long."
		case pawl.CodeInvalid:
			out.Meta.Category, out.Message = categoryInvalid, "A service refused the request."
		case pawl.CodeCancelled:
			out.Message = "The search was cancelled."
		case pawl.CodeForbidden:
			out.Message = "A service did not accept its key."
		case pawl.CodeUnavailable:
			out.Message = "A service could not be reached."
		}
	}
	return []pawl.Event{{Type: EventError, Data: out}}
}
