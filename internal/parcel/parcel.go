package parcel

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"
	"unicode"

	"pawl/store"
)

// Format is the one that is written. Files of a later one are refused.
const Format = 1

// Bounds of a file.
const (
	MaxBytes = 256 << 20 // of all lines
	MaxLine  = 16 << 20
	MaxRuns  = 20_000
	MaxRows  = 2_000_000 // rows and questions of all runs
	maxName  = 1000
	maxKey   = 64 << 10
)

// Errors of a file. Every error of Read is one of them, with what was found.
var (
	ErrForeign = errors.New("this is no file that an export of runs has written")
	ErrNewer   = errors.New("the file is of a later format: take a newer program")
	ErrCut     = errors.New("the file is cut off")
	ErrDamaged = errors.New("the file is damaged")
	ErrLarge   = errors.New("the file is larger than an export may be")
)

// Header is the first line.
type Header struct {
	Pawl   string    `json:"pawl"` // "runs"
	Format int       `json:"format"`
	Root   string    `json:"root"` // the run that was exported; the others are its descendants
	Runs   int       `json:"runs"`
	Made   time.Time `json:"made"`
}

const pawlRuns = "runs"

// Run is a run with all that a store has of it. Rows are in an order in which they can be appended again: a step that is told
// stands where its event does.
type Run struct {
	store.Run
	Rows      []store.Row
	Questions []store.Question
}

// line is one line after the first.
type line struct {
	Run      *runLine      `json:"run,omitempty"`
	Row      *rowLine      `json:"row,omitempty"`
	Question *questionLine `json:"question,omitempty"`
	End      *endLine      `json:"end,omitempty"`
}

type runLine struct {
	ID       string          `json:"id"`
	Tenant   string          `json:"tenant,omitempty"`
	User     string          `json:"user,omitempty"`
	Workflow string          `json:"workflow"`
	Version  string          `json:"version"`
	Key      string          `json:"key,omitempty"`
	Parent   string          `json:"parent,omitempty"`
	Root     string          `json:"root,omitempty"`
	Priority int             `json:"priority,omitempty"`
	Created  time.Time       `json:"created"`
	Updated  time.Time       `json:"updated"`
	Counters []counterLine   `json:"counters,omitempty"`
	Head     json.RawMessage `json:"head"`
	Record   json.RawMessage `json:"record"`
	Rows     int             `json:"rows"` // that follow
	Asked    int             `json:"asked"`
}

type counterLine struct {
	Meter string `json:"meter"`
	Used  int64  `json:"used"`
	Cap   int64  `json:"cap"`
}

// rowLine has its data as JSON where that is the same to the byte, so that a person can read the file.
type rowLine struct {
	Stream store.Stream    `json:"stream"`
	Key    string          `json:"key,omitempty"`
	Told   bool            `json:"told,omitempty"`
	At     time.Time       `json:"at"`
	Data   json.RawMessage `json:"data,omitempty"`
	Bytes  []byte          `json:"bytes,omitempty"`
}

type questionLine struct {
	ID     string          `json:"id"`
	Closed bool            `json:"closed,omitempty"`
	Asked  time.Time       `json:"asked"`
	Due    time.Time       `json:"due,omitzero"`
	Row    json.RawMessage `json:"row"`
}

type endLine struct {
	Lines  int    `json:"lines"`  // before this one
	SHA256 string `json:"sha256"` // of their bytes
}

var streams = []store.Stream{store.Step, store.Event, store.Call, store.Inbox, store.Blob, store.Audit}

// check looks at names and times of a run. What is written is checked as what is read: no file is made that nobody can take in.
func (l *runLine) check() error {
	for _, n := range []struct{ what, name string }{
		{"id", l.ID}, {"workflow", l.Workflow}, {"version", l.Version}, {"parent", l.Parent}, {"root", l.Root},
	} {
		if err := name(n.what, n.name, maxName); err != nil {
			return err
		}
	}
	if n := max(len(l.Tenant), len(l.User), len(l.Key)); n > maxKey { // they may be any text
		return fmt.Errorf("a tenant, a user or a key of %d bytes", n)
	}
	seen := map[string]bool{}
	for _, c := range l.Counters {
		if len(c.Meter) > maxKey || seen[c.Meter] {
			return fmt.Errorf("a meter stands twice, or has a name of %d bytes", len(c.Meter))
		}
		seen[c.Meter] = true
	}
	switch {
	case l.ID == "" || l.Workflow == "" || l.Version == "":
		return errors.New("a run without an id, a workflow or a version")
	case l.Rows < 0 || l.Asked < 0:
		return errors.New("a run with less than no rows")
	}
	return times(l.Created, l.Updated)
}

func (l *rowLine) check() error {
	switch {
	case !slices.Contains(streams, l.Stream):
		return fmt.Errorf("there is no stream %q", l.Stream)
	case l.Told && l.Stream != store.Step:
		return fmt.Errorf("a row of stream %q cannot be told", l.Stream)
	case len(l.Data) > 0 && len(l.Bytes) > 0:
		return errors.New("a row with its data twice")
	case len(l.Key) > maxKey:
		return fmt.Errorf("a key of %d bytes", len(l.Key))
	}
	return times(l.At)
}

func (l *questionLine) check() error {
	if err := name("question", l.ID, maxName); err != nil {
		return err
	}
	if l.ID == "" {
		return errors.New("a question without an id")
	}
	if l.Due.IsZero() {
		return times(l.Asked)
	}
	return times(l.Asked, l.Due)
}

// name refuses what would not be one on a terminal or in a list.
func name(what, s string, most int) error {
	if len(s) > most {
		return fmt.Errorf("the %s has %d bytes, at most %d are allowed", what, len(s), most)
	}
	for _, r := range s {
		if !unicode.IsPrint(r) {
			return fmt.Errorf("the %s %q has characters that cannot be printed", what, s)
		}
	}
	return nil
}

// times refuses instants that no store can keep.
func times(all ...time.Time) error {
	for _, t := range all {
		if y := t.UTC().Year(); y < 1970 || y > 2261 {
			return fmt.Errorf("the time %s", t.UTC().Format(time.RFC3339))
		}
	}
	return nil
}
