package app

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"pawl"
	"pawl/ports/llm"
)

// purse is what a model may cost for the rows of a file. An execution around all of them counts it, as a run does for its
// children, and before every attempt it is written down: a command that goes on begins with what those before it have spent.
type purse struct {
	model string // its name, and what it stands for
	alias string
	caps  pawl.Budget

	mu     sync.Mutex
	f      *os.File
	before pawl.Budget // spent by earlier commands
	total  pawl.Budget // spent by all of them
	left   func(meter string) (int64, error)
}

// purseMeters are what a model is charged on.
var purseMeters = []string{llm.MeterCalls, pawl.MeterUSD}

// noCeiling is a budget that nobody reaches.
const noCeiling = int64(1) << 60

// modelPurse is the purse of the model that is configured for nco; nil: there is none.
func (c *call) modelPurse(f bulkFlags) (*purse, error) {
	caps, err := budgets(f.budget)
	if err != nil {
		return nil, err
	}
	alias := c.conf.value("nco.model")
	switch {
	case alias == "" && caps != nil:
		return nil, invalid("--budget: nothing is spent without a model; name one with --model")
	case alias == "":
		return nil, nil
	}
	p := &purse{alias: alias, model: alias, caps: pawl.Budget{}, before: pawl.Budget{}, total: pawl.Budget{}}
	if err := c.conf.known(alias); err != nil {
		return nil, err
	}
	if names := c.conf.models(alias); names != nil {
		p.model += ": " + strings.Join(names, ", then ")
	}
	for _, meter := range purseMeters {
		p.caps[meter] = noCeiling
		if most, ok := caps[meter]; ok {
			p.caps[meter] = min(most, noCeiling)
			delete(caps, meter)
		}
	}
	for meter := range caps {
		return nil, invalid("--budget: %s: a file has budgets of llm and usd only", shortened(meter))
	}
	return p, nil
}

// over does the work with what is left of the budgets.
func (p *purse) over(ctx context.Context, name string, goesOn bool, work func(context.Context) error) (err error) {
	if err := p.open(name, goesOn); err != nil {
		return err
	}
	defer func() { _ = p.f.Close() }()
	g := pawl.New[bool, bool, bool]("file", pawl.Options{Version: "1"})
	rows := g.Node("rows", func(ctx context.Context, s bool) (bool, error) {
		for _, meter := range purseMeters {
			if err := pawl.Cap(ctx, meter, p.caps[meter]-p.before[meter]); err != nil {
				return s, err
			}
		}
		p.left = func(meter string) (int64, error) { return pawl.Remaining(ctx, meter) }
		if err = work(ctx); err == nil {
			err = p.write()
		}
		return s, nil
	})
	g.Start(rows, func(s bool) (bool, error) { return s, nil })
	g.From(rows).Otherwise(g.Succeed("DONE"))
	g.Finish(func(s bool, _ pawl.Ending) (bool, error) { return s, nil })
	if _, fault := pawl.Execute(ctx, g, true); err == nil {
		err = fault
	}
	return err
}

// open reads what earlier commands have spent, where this one goes on: the last whole line counts.
func (p *purse) open(name string, goesOn bool) (err error) {
	flags := os.O_RDWR | os.O_CREATE
	if !goesOn {
		flags |= os.O_TRUNC
	}
	if p.f, err = os.OpenFile(name, flags, 0o600); err != nil {
		return unwritable(err)
	}
	raw, err := io.ReadAll(p.f)
	if err != nil {
		return unwritable(err)
	}
	whole := raw[:bytes.LastIndexByte(raw, '\n')+1]
	if line := bytes.TrimSpace(whole[bytes.LastIndexByte(bytes.TrimRight(whole, "\n"), '\n')+1:]); len(line) > 0 {
		if err := json.Unmarshal(line, &p.before); err != nil {
			return conflict("%s cannot be read, so nobody knows what was spent: begin anew with --overwrite", name)
		}
	}
	for meter, n := range p.before {
		p.total[meter] = n
	}
	if err := p.f.Truncate(int64(len(whole))); err != nil {
		return unwritable(err)
	}
	if _, err := p.f.Seek(0, io.SeekEnd); err != nil {
		return unwritable(err)
	}
	return nil
}

// write makes what is spent or held now durable.
func (p *purse) write() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, meter := range purseMeters {
		left, err := p.left(meter)
		if err != nil {
			return err
		}
		p.total[meter] = p.before[meter] + max(p.caps[meter]-p.before[meter], 0) - left
	}
	line, err := json.Marshal(p.total)
	if err != nil {
		return err
	}
	if _, err := p.f.Write(append(line, '\n')); err != nil {
		return unwritable(err)
	}
	if err := p.f.Sync(); err != nil {
		return unwritable(err)
	}
	return nil
}

// bulkCost is what a model came to for a file.
type bulkCost struct {
	Name     string `json:"name"`
	FellBack int    `json:"fellBack"` // rows that the built-in rules coded in its place
	Calls    int64  `json:"llm"`
	USD      string `json:"usd"`
}

func (p *purse) cost(t bulkTally) *bulkCost {
	return &bulkCost{Name: p.model, FellBack: t.fellBack, Calls: p.total[llm.MeterCalls], USD: pawl.USD(p.total[pawl.MeterUSD]).String()}
}

// bulkModel is the model for the rows of a file. No engine is there that would wait between its attempts or end them.
func (c *call) bulkModel(p *purse) (llm.Model, error) {
	m, err := c.conf.model(p.alias, func(m llm.Model, price llm.Price) llm.Model { return llm.Metered(booked{m, p}, price) })
	if err != nil {
		return nil, err
	}
	return waiting{m}, nil
}

// booked is a model whose charges are written down before it is asked.
type booked struct {
	llm.Model
	purse *purse
}

// bulkAttempt is how long an attempt may take.
const bulkAttempt = 2 * time.Minute

// Generate makes one attempt.
func (m booked) Generate(ctx context.Context, r llm.Request) (llm.Response, error) {
	if err := m.purse.write(); err != nil {
		return llm.Response{}, pawl.Permanent(err)
	}
	ctx, stop := context.WithTimeout(ctx, bulkAttempt)
	defer stop()
	return m.Model.Generate(ctx, r)
}

// waiting is a model that is asked again where a cause passes, after as long as its provider says.
type waiting struct{ llm.Model }

const (
	bulkTries    = 3
	bulkPatience = 2 * time.Minute // for one wait: who wants to be left alone for longer cannot be waited for
)

// Generate makes the attempts.
func (m waiting) Generate(ctx context.Context, r llm.Request) (llm.Response, error) {
	for wait, try := time.Second, 1; ; wait, try = 4*wait, try+1 {
		resp, err := m.Model.Generate(ctx, r)
		if err == nil {
			return resp, nil
		}
		after, again := pawl.Retryable(err)
		if after = max(after, wait); !again || try == bulkTries || after > bulkPatience {
			return resp, pawl.Permanent(err)
		}
		select {
		case <-ctx.Done():
			return resp, ctx.Err()
		case <-time.After(after):
		}
	}
}
