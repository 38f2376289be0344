package postgres

import (
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
)

// op is one operation on its way into a commit.
type op struct {
	needs needs
	quick bool // may go by what is remembered of its runs
	run   func(*group) error
	done  chan error
	err   error
	state atomic.Int32
}

// An op is left by its caller or taken by a writer, whichever comes first.
const (
	waiting = iota
	taken
	left
)

// A group is at most this many operations and about this many bytes, so that the first in it does not wait long.
const (
	most      = 256
	mostBytes = 4 << 20
)

// queue hands operations to the writers. What touches a run that is in a commit under way waits until that is over: two
// writers would only wait for each other's locks.
type queue struct {
	mu     sync.Mutex
	some   *sync.Cond
	ops    []*op
	busy   map[string]struct{}
	known  map[string]*run // what is remembered: see remember
	closed bool
}

func (q *queue) open() {
	q.some = sync.NewCond(&q.mu)
	q.busy, q.known = map[string]struct{}{}, map[string]*run{}
}

func (q *queue) put(o *op) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return false
	}
	q.ops = append(q.ops, o)
	q.some.Signal()
	return true
}

// take waits for a group of operations; nil: the queue is closed and empty.
func (q *queue) take() []*op {
	q.mu.Lock()
	defer q.mu.Unlock()
	for {
		q.gather()
		if g := q.pick(); g != nil {
			return g
		}
		if q.closed && len(q.ops) == 0 {
			q.some.Broadcast()
			return nil
		}
		q.some.Wait()
	}
}

// gather gives callers that have just been answered a chance to hand in another: a commit of many costs little more than one of few.
func (q *queue) gather() {
	for count := 0; len(q.ops) > count && count < most; {
		count = len(q.ops)
		q.mu.Unlock()
		runtime.Gosched()
		q.mu.Lock()
	}
}

// pick takes what may be committed together now, in the order in which it came. What has to wait keeps later operations on the
// same runs behind it.
func (q *queue) pick() (g []*op) {
	var behind map[string]struct{}
	rest, size := q.ops[:0], 0
	for i, o := range q.ops {
		if len(g) == most || size > mostBytes {
			rest = append(rest, q.ops[i:]...)
			break
		}
		if q.blocked(o, behind) {
			if behind == nil {
				behind = map[string]struct{}{}
			}
			for _, id := range o.needs.runs {
				behind[id] = struct{}{}
			}
			rest = append(rest, o)
			continue
		}
		if !o.state.CompareAndSwap(waiting, taken) {
			continue
		}
		g = append(g, o)
		size += o.needs.bytes
	}
	clear(q.ops[len(rest):])
	q.ops = rest
	for _, o := range g {
		for _, id := range o.needs.runs {
			q.busy[id] = struct{}{}
		}
	}
	return g
}

func (q *queue) blocked(o *op, behind map[string]struct{}) bool {
	return slices.ContainsFunc(o.needs.runs, func(id string) bool {
		_, busy := q.busy[id]
		_, after := behind[id]
		return busy || after
	})
}

// over gives the runs of a group free. Its operations have been answered.
func (q *queue) over(g []*op) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, o := range g {
		for _, id := range o.needs.runs {
			delete(q.busy, id)
		}
	}
	q.some.Broadcast()
}

func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.some.Broadcast()
}

// fails answers all that wait with one error: each on its own would wait as long again.
func (q *queue) fails(err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, o := range q.ops {
		if o.state.CompareAndSwap(waiting, taken) {
			o.done <- err
		}
	}
	q.ops = nil
}

// remembered is how many runs are kept in mind.
const remembered = 4096

// recall is what is remembered of a run, to be changed by a group that has it to itself; nil: nothing.
func (q *queue) recall(id string) *run {
	q.mu.Lock()
	defer q.mu.Unlock()
	r := q.known[id]
	if r == nil {
		return nil
	}
	c := *r
	return &c
}

// remember keeps what was just written or read. It may be old at any time, as other processes write too: whoever goes by it has
// the database compare rev.
func (q *queue) remember(rs ...*run) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.known)+len(rs) > remembered {
		clear(q.known)
	}
	for _, r := range rs {
		c := *r
		q.known[r.id] = &c
	}
}

func (q *queue) forget(ids ...string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, id := range ids {
		delete(q.known, id)
	}
}
