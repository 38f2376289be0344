package app

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"pawl"
	"pawl/engine"
	"pawl/telemetry"
)

// workFlags are the flags of work.
type workFlags struct {
	slots   int
	drain   time.Duration
	metrics string
}

func (c *call) workCommand() *cobra.Command {
	var f workFlags
	cmd := &cobra.Command{
		Use: "work [WORKFLOW…]", Short: "Work runs of a store until told to stop",
		Long: "Work what is due in a store: the runs of these workflows, or of all that this program has. Any number of workers may\n" +
			"share a store; the runs of one that dies go to the others within two lease times (20 s). Ctrl-C or SIGTERM lets the\n" +
			"steps under way come to their commit and begins no other; a second one throws them away and gives their runs back.",
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: c.names,
		RunE:              c.does(func(cmd *cobra.Command, args []string) error { return c.work(cmd.Context(), args, f) }),
	}
	flags := cmd.Flags()
	flags.IntVar(&f.slots, "slots", 64, "have so many runs in hand at once (`N`)")
	flags.DurationVar(&f.drain, "drain", 0, "after being told to stop, throw away what has not come to its commit after that `TIME` (0: wait for it)")
	flags.StringVar(&f.metrics, "metrics", "", "answer Prometheus at this `ADDRESS`, such as :9464, on this machine only where it names no host")
	return c.withOptions(cmd)
}

// checked refuses numbers that cannot be meant.
func (f workFlags) checked() error {
	switch {
	case f.slots < 1 || f.slots > 10_000:
		return invalid("--slots: want a number from 1 to 10000, not %d", f.slots)
	case f.drain < 0:
		return invalid("--drain: %s is below nothing (0: wait for as long as it takes)", f.drain)
	}
	return nil
}

// work is a worker, until the first interrupt and its drain.
func (c *call) work(ctx context.Context, names []string, f workFlags) error {
	if err := f.checked(); err != nil {
		return err
	}
	if err := c.openStore(ctx); err != nil {
		return err
	}
	if !c.lasting {
		return invalid("a worker needs a store that others can put runs into, not %s: %s", c.conf.value("store"), storeForms())
	}
	ws, err := c.openAll(ctx, names)
	if err != nil {
		return err
	}
	log := newWorkLog(c)
	conf, err := c.engineConfig()
	if err != nil {
		return err
	}
	conf.Slots, conf.Outage = f.slots, 0
	conf.Trace = conf.Trace.And(engine.Trace{Claimed: log.claimed, Ended: log.ended})
	if f.metrics != "" {
		numbers := telemetry.NewMetrics(c.traces)
		conf.Trace = conf.Trace.And(numbers.Trace())
		if err := c.serveMetrics(f.metrics, numbers.Handler()); err != nil {
			return err
		}
	}
	if c.engine, err = engine.New(c.store, ws, conf); err != nil {
		return err
	}
	var ids []string
	for _, w := range ws {
		ids = append(ids, w.ID())
	}
	c.say.line("working %s, up to %d runs at once; Ctrl-C stops after the steps under way", strings.Join(ids, ", "), f.slots)
	known := c.known(ws)
	for _, name := range slices.Sorted(maps.Keys(conf.Concurrency)) {
		if !slices.Contains(known, name) {
			c.say.line("concurrency: this program has no workflow %s%s", shortened(name), suggest(name, known))
		}
	}
	c.tell()
	return c.workUntilTold(ctx, log, f.drain)
}

func (c *call) workUntilTold(ctx context.Context, log *workLog, drain time.Duration) error {
	worked := make(chan error, 1)
	go func() { worked <- c.engine.Work(ctx) }()
	told, now := ctx.Done(), c.now
	var late, giveUp <-chan time.Time
	abort := func() {
		late, now, giveUp = nil, nil, time.After(leave)
		c.engine.Abort()
	}
	for {
		select {
		case line := <-log.lines:
			log.write(line)
		case <-told:
			told = nil
			c.say.line("stopping after the steps under way; Ctrl-C again throws them away")
			if drain > 0 {
				late = time.After(drain)
			}
		case <-late:
			c.say.line("throwing away what has not come to its commit within %s", drain)
			abort()
		case <-now:
			abort()
		case <-giveUp: // node code that ignores its end: its lease runs out, and another worker takes the run
			log.rest()
			return &pawl.Error{Code: pawl.CodeTimeout, Text: "a step does not end when it is told to: other workers take its run over when the lease runs out"}
		case err := <-worked:
			log.rest()
			return err
		}
	}
}

// openAll opens workflows by their names, all where there are none.
func (c *call) openAll(ctx context.Context, names []string) (ws []*pawl.Workflow, err error) {
	if len(names) == 0 {
		for _, w := range c.workflows {
			names = append(names, w.Name)
		}
	}
	for _, name := range names {
		o, err := c.open(ctx, name, nil)
		if err != nil {
			return nil, err
		}
		ws = append(append(ws, o.Also...), o.Workflow)
	}
	if len(ws) == 0 {
		return nil, invalid("this program has no workflows")
	}
	return ws, nil
}

// known are the names of all workflows of the program, and of the children of those that are opened.
func (c *call) known(ws []*pawl.Workflow) []string {
	var names []string
	for _, w := range c.workflows {
		names = append(names, w.Name)
	}
	for len(ws) > 0 {
		names = append(names, ws[0].Name())
		ws = append(ws[1:], ws[0].Children()...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// workLine is one line of a worker's log.
type workLine struct {
	Type   string      `json:"type"` // claimed or ended
	Run    string      `json:"run"`
	Node   string      `json:"node,omitempty"`
	Epoch  int64       `json:"epoch,omitempty"`
	Status pawl.Status `json:"status,omitempty"`
	Error  *pawl.Error `json:"error,omitempty"`
	At     time.Time   `json:"at"`
}

// workLog tells what a worker does: ends of runs to people, claims too to programs. The engine never waits for it: lines that
// nobody takes in time are counted instead.
type workLog struct {
	c       *call
	lines   chan workLine
	missing atomic.Int64
}

func newWorkLog(c *call) *workLog { return &workLog{c: c, lines: make(chan workLine, 4096)} }

func (l *workLog) add(line workLine) {
	line.At = time.Now().UTC()
	select {
	case l.lines <- line:
	default:
		l.missing.Add(1)
	}
}

func (l *workLog) claimed(run, node string, epoch int64) {
	if l.c.json {
		l.add(workLine{Type: "claimed", Run: run, Node: node, Epoch: epoch})
	}
}

func (l *workLog) ended(run string, status pawl.Status, err *pawl.Error) {
	l.add(workLine{Type: "ended", Run: run, Status: status, Error: err})
}

func (l *workLog) write(line workLine) {
	if n := l.missing.Swap(0); n > 0 {
		l.c.say.line("lines of this log that were left out, because nobody read them fast enough: %d", n)
	}
	switch {
	case l.c.json:
		l.c.out.record(line)
	case line.Error != nil:
		l.c.say.line("run %s %s: %s", line.Run, line.Status, explain(line.Error.Error()))
	default:
		l.c.say.line("run %s %s", line.Run, line.Status)
	}
}

// rest writes what is left.
func (l *workLog) rest() {
	for {
		select {
		case line := <-l.lines:
			l.write(line)
		default:
			return
		}
	}
}
