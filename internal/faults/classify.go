package faults

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"pawl"
	"pawl/engine"
	"pawl/internal/machine"
	"pawl/store"
)

// write is one call of a store that makes something durable. One of its fields is set.
type write struct {
	create []store.NewRun
	apply  []store.Change
	lease  store.Lease // with batch
	batch  *store.Batch
	claim  *store.Claim
	renew  []store.Lease
	expire bool
}

// kinds are the operations that a call is made of.
func (wr write) kinds() (out []Operation) {
	add := func(o Operation, is bool) {
		if is && !slices.Contains(out, o) {
			out = append(out, o)
		}
	}
	add(ClaimRun, wr.claim != nil && wr.claim.Max > 0)
	add(RenewLease, len(wr.renew) > 0)
	add(ExpireRuns, wr.expire)
	for _, n := range wr.create {
		add(created(n), true)
	}
	if wr.batch != nil {
		add(JournalEntry, len(wr.batch.Charges)+len(wr.batch.Caps) > 0)
		for _, r := range wr.batch.Rows {
			rowKinds(r, add)
		}
	}
	for i := range wr.apply {
		changeKinds(&wr.apply[i], add)
	}
	return out
}

// created tells how a run begins.
func created(n store.NewRun) Operation {
	var head engine.Head
	_ = json.Unmarshal(n.Head, &head) // what cannot be read is a plain run
	switch {
	case head.ForkOf != "":
		return ForkRun
	case n.Parent != "":
		return ChildRun
	case head.Generation > 0:
		return BackgroundRun
	}
	return CreateRun
}

// rowKinds are those of a row that is appended under the lease.
func rowKinds(r store.Row, add func(Operation, bool)) {
	switch r.Stream {
	case store.Event:
		add(EventAppend, true)
	case store.Call:
		en := entryOf(r)
		add(JournalEntry, true)
		add(Timer, en.Kind == "timer")
		add(RetryScheduled, en.Again != nil)
		add(ChildRun, en.Kind == "found")
	case store.Step, store.Inbox, store.Blob, store.Audit:
	}
}

// changeKinds are those of a change.
func changeKinds(c *store.Change, add func(Operation, bool)) {
	add(CreateRun, c.Takeover) // the next attempt
	for _, n := range c.Create {
		add(created(n), true)
	}
	add(QuestionOpened, len(c.Ask) > 0)
	add(AnswerAccepted, len(c.Answer) > 0)
	add(MigrateRun, c.Version != "" && !c.Takeover)
	for _, r := range c.Add {
		if r.Stream == store.Step {
			s, err := stepOf(r)
			add(NodeCommit, err == nil && s.moves())
			add(RetryScheduled, err == nil && s.Name == "retry")
		}
	}
	for _, l := range c.Letters {
		letterKinds(l, add)
	}
	if c.Row == nil || c.Takeover {
		return
	}
	rec, err := machine.Decode(c.Row)
	if err != nil {
		return
	}
	for _, w := range rec.Waits {
		add(Timer, w.Kind == pawl.WaitsForTime)
		add(RetryScheduled, w.Kind == pawl.WaitsForRetry)
	}
	for _, f := range rec.Families {
		add(ChildRun, true)
		add(EachBarrier, f.Numbered)
	}
}

// letterKinds are those of a letter to another run.
func letterKinds(l store.Letter, add func(Operation, bool)) {
	for _, r := range l.Add {
		switch r.Stream {
		case store.Inbox:
			var m machine.Letter
			if json.Unmarshal(r.Data, &m) == nil {
				add(CancelRun, m.Cancel != nil)
				add(ChildRun, m.Child != nil)
			}
		case store.Call:
			en := entryOf(r)
			add(EachBarrier, en.Kind == "child" && strings.HasSuffix(en.Key, "]"))
		case store.Step, store.Event, store.Blob, store.Audit:
		}
	}
}

// entry is what a harness has to see of a row of the journal.
type entry struct {
	Visit  int64           `json:"v"`
	Try    int             `json:"y"`
	Kind   string          `json:"k"`
	Key    string          `json:"n"`
	Result json.RawMessage `json:"r"`
	Blob   string          `json:"b"`
	Err    *pawl.Error     `json:"e"`
	Again  *string         `json:"ag"`
}

func entryOf(r store.Row) (en entry) {
	_ = json.Unmarshal(r.Data, &en) // a row that cannot be read is none that is looked for
	return en
}

// step is what a harness has to see of a row of the step log.
type step struct {
	Name    string `json:"n"`
	Before  string `json:"b"`
	After   string `json:"a"`
	Edge    string `json:"e"`
	Attempt int    `json:"at"`
	Visit   int64  `json:"v"`
	Try     int    `json:"y"`
	Last    int64  `json:"s"`
	Full    int64  `json:"f"`
	Hash    string `json:"h"`

	record []byte // of the state
}

// moves tells the end of a visit from what is noted beside it.
func (s step) moves() bool { return s.Edge != "" && s.Name == s.Before }

func stepOf(r store.Row) (s step, err error) {
	n, w := binary.Uvarint(r.Data)
	if w <= 0 || n > uint64(len(r.Data)-w) {
		return s, fmt.Errorf("step %d cannot be read", r.Seq)
	}
	s.record = r.Data[w+int(n):]
	return s, json.Unmarshal(r.Data[w:w+int(n)], &s)
}
