package engine

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"time"

	"github.com/google/uuid"

	"pawl"
	"pawl/internal/codec"
	"pawl/internal/machine"
	"pawl/store"
)

// Head is what is written of a run once, when it is created.
type Head struct {
	Input       json.RawMessage   `json:"input,omitempty"`
	Large       string            `json:"large,omitempty"` // key of the blob that holds the input instead
	Hash        string            `json:"hash"`            // of the input, for the same key with another input
	Budget      pawl.Budget       `json:"budget,omitempty"`
	Labels      map[string]string `json:"labels,omitempty"`
	Sensitivity string            `json:"sensitivity,omitempty"`
	Correlation string            `json:"correlation,omitempty"`
	Traceparent string            `json:"traceparent,omitempty"`
	Ancestors   []string          `json:"ancestors,omitempty"` // the parent first; charges count in each
	Generation  int               `json:"generation,omitempty"`
	Origin      string            `json:"origin,omitempty"` // of a background run, who started it
	ForkOf      string            `json:"forkOf,omitempty"`
	ForkStep    int64             `json:"forkStep,omitempty"`
	Unkeyed     bool              `json:"unkeyed,omitempty"` // a fork, and below it: it binds no key that its source may own
	Copy        *Copied           `json:"copy,omitempty"`    // an imported run
}

// stepHead is what a row of the step log holds beside the state.
type stepHead struct {
	machine.Entry
	Attempt int    `json:"at"`
	Visit   int64  `json:"v"`
	Try     int    `json:"y"`
	MS      int64  `json:"ms,omitempty"`
	Cost    int64  `json:"c,omitempty"`
	Worker  string `json:"w,omitempty"`
	Version string `json:"vs"`
	Last    int64  `json:"s"` // row that carries the state that holds after this one
	Full    int64  `json:"f"` // row with the full copy that it goes back to
	Hash    string `json:"h"`
	From    int64  `json:"cf,omitempty"` // the visit's journal: numbers above From up to Upto
	Upto    int64  `json:"cu,omitempty"`
}

// fields encodes the head; it is written with every commit, so by hand.
func (h *stepHead) fields(o *codec.Flat) {
	o.String("n", h.Name)
	o.String("b", h.Before)
	o.String("a", h.After)
	o.String("e", h.Edge)
	o.Raw("p", h.Payload)
	o.Int("at", int64(h.Attempt))
	o.Int("v", h.Visit)
	o.Int("y", int64(h.Try))
	o.Int("ms", h.MS)
	o.Int("c", h.Cost)
	o.String("w", h.Worker)
	o.String("vs", h.Version)
	o.Int("s", h.Last)
	o.Int("f", h.Full)
	o.String("h", h.Hash)
	o.Int("cf", h.From)
	o.Int("cu", h.Upto)
}

// entry is a row of the journal.
type entry struct {
	Visit    int64           `json:"v"`
	Try      int             `json:"y,omitempty"`
	Kind     string          `json:"k"`
	Key      string          `json:"n"`
	For      json.RawMessage `json:"f,omitempty"`
	ForHash  string          `json:"fh,omitempty"`
	Result   json.RawMessage `json:"r,omitempty"`
	Blob     string          `json:"b,omitempty"` // run/hash of the blob that holds the result instead
	Err      *pawl.Error     `json:"e,omitempty"`
	Again    *time.Time      `json:"ag,omitempty"` // a try failed and the next one comes then: no end yet
	Physical int             `json:"p,omitempty"`
	MS       int64           `json:"ms,omitempty"`
	Attrs    map[string]any  `json:"a,omitempty"`
	Run      string          `json:"run,omitempty"`
	Family   string          `json:"fm,omitempty"`
	By       string          `json:"by,omitempty"`

	seq int64
}

// The kinds of journal entries.
const (
	kindCall     = "call"
	kindCosts    = "costs"
	kindAnswer   = "answer"
	kindDeadline = "deadline"
	kindTimer    = "timer"
	kindChild    = "child"
	kindFound    = "found" // a child's end that no letter told: its start function refused the input, or others ran it
)

// question is the row of a question.
type question struct {
	Key     string          `json:"key"`
	Visit   int64           `json:"visit"`
	Text    string          `json:"text"`
	Choices []string        `json:"choices,omitempty"`
	Data    json.RawMessage `json:"data,omitempty"`
	Schema  json.RawMessage `json:"schema"`
	Answer  json.RawMessage `json:"answer,omitempty"`
	By      string          `json:"by,omitempty"`
}

// event is a row of the event stream.
type event struct {
	Type string          `json:"t"`
	Data json.RawMessage `json:"d,omitempty"`
}

// eventOf reads a row of the event stream: an event, or a step that tells of itself.
func eventOf(row store.Row) (ev event, err error) {
	if !framed(row) {
		return ev, unmarshal(row, &ev)
	}
	h, _, err := unframe(row)
	if err != nil {
		return ev, err
	}
	s := machine.Stepped{Step: h.Last, Node: h.Before, To: h.After, Edge: h.Edge, Visit: h.Visit, MS: h.MS}
	return event{Type: machine.EventStep, Data: encode(s)}, nil
}

// bytes encodes the event.
func (e event) bytes() []byte {
	o := codec.NewFlat(len(e.Type) + len(e.Data) + 16)
	o.String("t", e.Type)
	o.Raw("d", e.Data)
	return o.Bytes()
}

// audit is a row of the audit stream: who did what.
type audit struct {
	By   string `json:"by,omitempty"`
	Did  string `json:"did"`
	What any    `json:"what,omitempty"`
}

func encode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // plain data of this package
	}
	return b
}

func newID() string { return uuid.Must(uuid.NewV7()).String() }

// derived is the id that follows from a run and a name: the same after every crash.
func derived(run, name string) string {
	space, err := uuid.Parse(run)
	if err != nil {
		space = uuid.NewSHA1(uuid.NameSpaceURL, []byte(run))
	}
	return uuid.NewSHA1(space, []byte(name)).String()
}

func hash(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:16])
}
