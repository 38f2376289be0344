package machine_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"pawl"
	"pawl/internal/host"
	"pawl/internal/machine"
)

// do reads one line of a story. First the graph:
//
//	graph NAME VERSION                 what follows is of this graph; the first one is the run's
//	node NAME [tries=N first=D factor=F]
//	succeed NAME, fail NAME            terminals
//	edge FROM NAME -> TO [KIND] [max=N | turn=N]    KIND: when (as none is said), answer, otherwise, error
//
// Then what happens. Time stands still but for clock and work:
//
//	clock D                            time passes
//	work D                             the node works that long: the next decision knows it
//	claim [N]                          a worker claims the run; N claims are N-1 crashes before it
//	start, fork NODE, restart          a run, or its next attempt, begins
//	answered                           the visit under way accepts a person's answer
//	note NAME                          the node notes something
//	visit [CONDITION…]                 the node returns, these conditions hold
//	advance EDGE [skip=N]              this edge, held or not, also by its #number: to show what is refused
//	retry CODE [atleast=D | after=D]   a try fails and is to be repeated; after says the wait instead of Backoff
//	break CODE [EDGE…]                 the last try fails, these error edges claim it; codes: runtime, child-runtime, any other
//	park WAIT [+ WAIT…]                WAIT: answer KEY QUESTION [D], timer KEY D, child KEY STARTED/ALL
//	letter cancel BY WHY, letter answer QUESTION, letter child KEY VISIT [failed], letter waiter RUN, letter wake
//	letter child KEY VISIT person=D ago=D    it waited so long for people, for the first time so long ago
//	cancel, merge OWNER, stop, hold WHY, migrate VERSION NODE
//	left EDGE, open                    what a node and the driver are told
//	repeat N HAPPENING                 all but the last one is not shown
func (s *story) do(w []string) {
	s.t.Helper()
	switch w[0] {
	case "graph", "node", "succeed", "fail", "edge":
		s.draw(w)
	case "repeat":
		n, _ := strconv.Atoi(w[1])
		for range n {
			s.out = nil
			s.do(w[2:])
		}
	case "clock":
		s.now = s.now.Add(s.duration(w[1]))
	case "work":
		s.took = s.duration(w[1])
		s.now = s.now.Add(s.took)
	case "answered":
		s.answer = true
	case "note":
		s.notes = append(s.notes, machine.Entry{Name: w[1], Before: s.rec.Node, After: s.rec.Node})
	case "claim":
		s.claim(w[1:])
	case "letter":
		s.letter(w[1:])
	case "left":
		n, ok := s.m.Left(s.rec, w[1], s.answer)
		s.say("left %d %v", n, ok)
	case "open":
		s.open()
	default:
		s.decide(w)
	}
}

func (s *story) draw(w []string) {
	if w[0] == "graph" {
		g := &host.Shape{Name: w[1], Version: w[2], Fingerprint: w[1] + "@" + w[2]}
		s.graphs = append(s.graphs, g)
		s.m.Shape = s.graphs[0]
		return
	}
	g := s.graphs[len(s.graphs)-1]
	switch w[0] {
	case "edge":
		e := host.Edge{Name: w[2], To: g.Index(w[4], "")}
		for _, o := range w[5:] {
			key, value, _ := strings.Cut(o, "=")
			switch key {
			case "answer":
				e.Kind = host.OnAnswer
			case "otherwise":
				e.Kind = host.Otherwise
			case "error":
				e.Kind = host.OnError
			case "max", "turn":
				e.Max, _ = strconv.Atoi(value)
				e.PerTurn = key == "turn"
			}
		}
		from := g.Index(w[1], "")
		if from < 0 || e.To < 0 {
			s.t.Fatalf("edge %v: a node is missing", w)
		}
		if n := &g.Nodes[from]; e.Kind == host.OnError {
			n.Errors = append(n.Errors, e)
		} else {
			n.Edges = append(n.Edges, e)
		}
	default:
		n := host.Node{Name: w[1], Kind: map[string]host.Kind{"node": host.Work, "succeed": host.Succeed, "fail": host.Fail}[w[0]]}
		if n.Kind.Terminal() {
			n.Outcome = w[1]
		}
		n.Retry.Max, _ = strconv.Atoi(s.option(w, "tries"))
		n.Retry.Factor, _ = strconv.ParseFloat(s.option(w, "factor"), 64)
		if d := s.option(w, "first"); d != "" {
			n.Retry.First = s.duration(d)
		}
		g.Nodes = append(g.Nodes, n)
	}
}

func (s *story) decide(w []string) {
	m, r, t := s.m, s.rec, s.tick()
	switch w[0] {
	case "start":
		s.made(m.Start(s.now))
	case "fork":
		s.made(m.Fork(w[1], s.now))
	case "visit":
		s.made(s.visit(w[1:]))
	case "advance":
		s.advance(w[1], s.option(w, "skip"))
	case "retry":
		after := machine.Backoff(s.node().Retry, r.Try, fmt.Sprintf("story/%d", r.Visit), s.wait(w, "atleast"))
		if s.option(w, "after") != "" {
			after = s.wait(w, "after")
		}
		s.made(m.Retry(r, t, cause(w[1]), after))
	case "break":
		s.made(s.fail(cause(w[1]), w[2:]))
	case "park":
		waits, families := s.waits(w[1:])
		s.made(m.Park(r, t, waits, nil, families))
	case "cancel":
		s.made(machine.Cancelled(r, t))
	case "merge":
		s.made(machine.Merge(r, t, strings.Join(w[1:], " ")))
	case "stop":
		s.made(machine.Stop(r, t, 0))
	case "hold":
		s.made(machine.Hold(r, t, strings.Join(w[1:], " ")))
	case "restart":
		s.made(m.Restart(r, "", s.now, s.epoch+1, 0, nil))
		s.epoch = s.rec.Epoch
	case "migrate":
		for _, g := range s.graphs {
			if g.Version == w[1] {
				s.m.Shape = g
			}
		}
		s.made(s.m.Migrate(r, t, w[2]))
	default:
		s.t.Fatalf("a story says %q", w)
	}
}

func (s *story) advance(edge, skip string) {
	i, err := strconv.Atoi(strings.TrimPrefix(edge, "#"))
	if err != nil {
		i = -1
		for j, e := range s.node().Edges {
			if e.Name == edge {
				i = j
			}
		}
	}
	var spent []int
	if n, err := strconv.Atoi(skip); err == nil {
		spent = []int{n}
	}
	s.made(s.m.Advance(s.rec, s.tick(), i, spent, nil))
}

func (s *story) claim(w []string) {
	n := 1
	if len(w) > 0 {
		n, _ = strconv.Atoi(w[0])
	}
	s.epoch += int64(n)
	if machine.CrashLoop(s.rec, s.epoch) {
		s.say("crash loop: claim %d since the last commit", s.epoch-s.rec.Epoch)
	}
	if d := s.rec.RetryIn(s.now); d > 0 {
		s.say("too early: the next try is due in %s", d)
	}
}

func (s *story) letter(w []string) {
	var l machine.Letter
	switch w[0] {
	case "cancel":
		l.Cancel = &machine.Cancel{By: w[1], Reason: strings.Join(w[2:], " ")}
	case "answer":
		l.Answer = w[1]
	case "child":
		visit, _ := strconv.ParseInt(w[2], 10, 64)
		l.Child = &machine.Child{Family: w[1], Visit: visit, Failed: slices.Contains(w, "failed")}
		if person := s.wait(w, "person"); person > 0 {
			l.Child.Person, l.Child.Asked = person.Milliseconds(), s.now.Add(-s.wait(w, "ago"))
		}
	case "waiter":
		l.Waiter = &machine.Waiter{Run: w[1], Visit: 1, Key: "child"}
	default:
		l.Wake = w[0]
	}
	s.rec = machine.Receive(s.rec, []machine.Letter{l}, s.rec.Inbox+1)
	s.letters()
}

func (s *story) waits(w []string) (waits []machine.Wait, families []machine.Family) {
	for one := range strings.SplitSeq(strings.Join(w, " "), " + ") {
		w := strings.Fields(one)
		if len(w) == 0 {
			return nil, nil
		}
		wait := machine.Wait{Kind: map[string]string{"answer": pawl.WaitsForAnswer, "timer": pawl.WaitsForTime, "child": pawl.WaitsForChild}[w[0]], Key: w[1]}
		due := ""
		switch w[0] {
		case "answer":
			wait.Question = w[2]
			if len(w) > 3 {
				due = w[3]
			}
		case "timer":
			due = w[2]
		case "child":
			f, _ := s.rec.Family(w[1])
			f.Key, f.Numbered = w[1], true
			started, n, _ := strings.Cut(w[2], "/")
			f.Started, _ = strconv.Atoi(started)
			f.N, _ = strconv.Atoi(n)
			families = append(families, f)
		}
		if old, known := s.rec.Wait(wait.Kind, wait.Key); known {
			wait.Due = old.Due // set once, by the park that begins the wait
		} else if due != "" {
			wait.Due = s.now.Add(s.duration(due))
		}
		waits = append(waits, wait)
	}
	return waits, families
}

// cause is an error with a code. runtime is the run's own spent runtime, child-runtime that of a child.
func cause(code string) *pawl.Error {
	over := &pawl.BudgetError{Meter: pawl.MeterRuntime, Used: 60_000, Cap: 60_000}
	switch code {
	case "runtime":
		return &pawl.Error{Code: pawl.CodeExhausted, Text: over.Error(), Err: over}
	case "child-runtime":
		return &pawl.Error{Code: pawl.CodeExhausted, Text: "child: " + over.Error(), Err: &pawl.RunError{Code: pawl.CodeExhausted, Budget: over, Text: over.Error()}}
	}
	return &pawl.Error{Code: code, Text: "it is " + code}
}

func (s *story) node() *host.Node {
	if n, _, err := s.m.Node(s.rec); err == nil {
		return n
	}
	return &host.Node{}
}

func (s *story) option(w []string, key string) string {
	for _, o := range w {
		if value, ok := strings.CutPrefix(o, key+"="); ok {
			return value
		}
	}
	return ""
}

func (s *story) wait(w []string, key string) time.Duration {
	if o := s.option(w, key); o != "" {
		return s.duration(o)
	}
	return 0
}

func (s *story) duration(text string) time.Duration {
	d, err := time.ParseDuration(text)
	if err != nil {
		s.t.Fatal(err)
	}
	return d
}
