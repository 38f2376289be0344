package app

import (
	"strconv"
	"strings"
	"time"

	"pawl/engine"
)

// engineConfig is what every engine of this program is configured with. A person waits at the terminal: a disk that is full
// is said soon. The run goes on whenever there is space.
func (c *call) engineConfig() (engine.Config, error) {
	limits, err := limitsOf(c.conf.value("limits"))
	if err != nil {
		return engine.Config{}, err
	}
	concurrency, err := concurrencyOf(c.conf.value("concurrency"))
	if err != nil {
		return engine.Config{}, err
	}
	trace := engine.Trace{Fault: c.say.fault}
	if c.traces, err = c.tracesOnce(); err != nil {
		return engine.Config{}, err
	}
	if c.traces != nil {
		trace = trace.And(c.traces.Trace())
	}
	return engine.Config{Outage: 3 * time.Second, Limits: limits, Concurrency: concurrency, Trace: trace}, nil
}

// limitsOf reads limits of calls: "search=60/1m" is one a second, "llm=:2" two at once, "llm=10/1s:2" both.
func limitsOf(text string) (map[string]engine.Limit, error) {
	pairs, err := pairsOf("limits", text, "NAME=USES/TIME, NAME=:MAX or NAME=USES/TIME:MAX")
	out := map[string]engine.Limit{}
	for _, p := range pairs {
		rate, most, both := strings.Cut(p.value, ":")
		var l engine.Limit
		if rate != "" {
			uses, per, _ := strings.Cut(rate, "/")
			n, nerr := strconv.ParseInt(uses, 10, 64)
			d, derr := time.ParseDuration(per)
			if nerr != nil || derr != nil || n < 1 || d <= 0 || int64(d) < n {
				return nil, invalid("limits: %s: %s is no rate such as 60/1m", shortened(p.name), shortened(rate))
			}
			l.Every = d / time.Duration(n)
		}
		if both {
			n, err := strconv.Atoi(most)
			if err != nil || n < 1 {
				return nil, invalid("limits: %s: %s is no number of calls at once, from 1", shortened(p.name), shortened(most))
			}
			l.Max = n
		}
		if l == (engine.Limit{}) {
			return nil, invalid("limits: %s: it is empty", shortened(p.name))
		}
		out[p.name] = l
	}
	return out, err
}

// concurrencyOf reads how many runs of a workflow may be in hand at once: "nco=4,brain=2".
func concurrencyOf(text string) (map[string]int, error) {
	pairs, err := pairsOf("concurrency", text, "WORKFLOW=RUNS")
	out := map[string]int{}
	for _, p := range pairs {
		n, err := strconv.Atoi(p.value)
		if err != nil || n < 1 {
			return nil, invalid("concurrency: %s: %s is no number of runs at once, from 1", shortened(p.name), shortened(p.value))
		}
		out[p.name] = n
	}
	return out, err
}

type pair struct{ name, value string }

// pairsOf reads NAME=VALUE,NAME=VALUE, each name once.
func pairsOf(what, text, form string) (out []pair, err error) {
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	seen := map[string]bool{}
	for part := range strings.SplitSeq(text, ",") {
		name, value, ok := strings.Cut(strings.TrimSpace(part), "=")
		switch {
		case !ok || name == "":
			return nil, invalid("%s: %s is not %s", what, shortened(part), form)
		case seen[name]:
			return nil, invalid("%s: %s is given twice", what, shortened(name))
		}
		seen[name] = true
		out = append(out, pair{name, value})
	}
	return out, nil
}
