package telemetry

import (
	"errors"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"pawl"
	"pawl/engine"
)

// Metrics counts what one process does, for Prometheus. Labels are names of workflows, nodes, models and codes: never a run, a
// user or a text. The zero value does not work: NewMetrics.
type Metrics struct {
	all     *prometheus.Registry
	claimed prometheus.Counter
	ended   *prometheus.CounterVec
	visits  *prometheus.HistogramVec
	calls   *prometheus.HistogramVec
	read    *prometheus.CounterVec
	faults  prometheus.Counter
	asked   *prometheus.HistogramVec
	tokens  *prometheus.HistogramVec
	cost    *prometheus.CounterVec
}

// NewMetrics makes the numbers. traces may be nil.
func NewMetrics(traces *Traces) *Metrics {
	seconds := []float64{.001, .005, .02, .1, .5, 1, 2, 5, 10, 30, 60, 300}
	m := &Metrics{
		all:     prometheus.NewRegistry(),
		claimed: prometheus.NewCounter(prometheus.CounterOpts{Name: "pawl_runs_claimed_total", Help: "Runs that this process has taken in hand."}),
		ended: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "pawl_runs_ended_total", Help: "Runs that came to their end here."},
			[]string{"workflow", "status"}),
		visits: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "pawl_visit_duration_seconds", Help: "Executions of nodes; code is of their error.", Buckets: seconds},
			[]string{"workflow", "node", "code"}),
		calls: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "pawl_call_duration_seconds", Help: "Tries of calls; code is of their error.", Buckets: seconds},
			[]string{"workflow", "node", "code"}),
		read: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "pawl_calls_recorded_total", Help: "Calls that were not made again, since their end was recorded."},
			[]string{"workflow", "node"}),
		faults: prometheus.NewCounter(prometheus.CounterOpts{Name: "pawl_faults_total", Help: "Troubles that the engine went on in spite of."}),
		asked: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "gen_ai_client_operation_duration_seconds", Help: "Tries of calls at models and tools.", Buckets: seconds},
			[]string{"gen_ai_operation_name", "gen_ai_provider_name", "gen_ai_request_model", "error_type"}),
		tokens: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "gen_ai_client_token_usage", Help: "Tokens of a response.", Buckets: prometheus.ExponentialBuckets(1, 4, 12)},
			[]string{"gen_ai_operation_name", "gen_ai_provider_name", "gen_ai_request_model", "gen_ai_token_type"}),
		cost: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "pawl_model_cost_usd_total", Help: "What responses have cost by the configured prices."},
			[]string{"gen_ai_provider_name", "gen_ai_request_model"}),
	}
	m.all.MustRegister(m.claimed, m.ended, m.visits, m.calls, m.read, m.faults, m.asked, m.tokens, m.cost)
	if traces != nil {
		count := func(name, help string, of func(Count) float64) prometheus.Collector {
			return prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help}, func() float64 { return of(traces.Count()) })
		}
		m.all.MustRegister(
			count("pawl_traces_spans_sent_total", "Spans that the receiver took.", func(c Count) float64 { return float64(c.Sent) }),
			count("pawl_traces_spans_dropped_total", "Spans that the receiver refused.", func(c Count) float64 { return float64(c.Dropped) }),
			count("pawl_traces_late_total", "Runs with news that found the queue full.", func(c Count) float64 { return float64(c.Late) }),
			prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "pawl_traces_runs_waiting", Help: "Runs with steps that were not told yet."},
				func() float64 { return float64(traces.Count().Waiting) }),
		)
	}
	return m
}

// Handler answers Prometheus.
func (m *Metrics) Handler() http.Handler { return promhttp.HandlerFor(m.all, promhttp.HandlerOpts{}) }

// Trace counts.
func (m *Metrics) Trace() engine.Trace {
	return engine.Trace{
		Claimed: func(string, string, int64) { m.claimed.Inc() },
		Visit: func(v engine.Visited) {
			m.visits.WithLabelValues(v.Workflow, v.Node, codeOf(v.Err)).Observe(v.Took.Seconds())
		},
		Call: m.call,
		Committed: func(c engine.Committed) {
			if c.End {
				m.ended.WithLabelValues(c.Workflow, string(c.Status)).Inc()
			}
		},
		Fault: func(string, error) { m.faults.Inc() },
	}
}

func (m *Metrics) call(c engine.Called) {
	if c.Recorded {
		m.read.WithLabelValues(c.Workflow, c.Node).Inc()
		return
	}
	code := codeOf(c.Err)
	m.calls.WithLabelValues(c.Workflow, c.Node, code).Observe(c.Took.Seconds())
	text := func(name string) string { s, _ := c.Attrs[name].(string); return clean(s) }
	operation, provider, model := text("gen_ai.operation.name"), text("gen_ai.provider.name"), text("gen_ai.request.model")
	if operation == "" {
		return
	}
	m.asked.WithLabelValues(operation, provider, model, code).Observe(c.Took.Seconds())
	for _, kind := range []string{"input", "output"} {
		if n, ok := number(c.Attrs["gen_ai.usage."+kind+"_tokens"]); ok {
			m.tokens.WithLabelValues(operation, provider, model, kind).Observe(n)
		}
	}
	if usd, ok := number(c.Attrs["cost_usd"]); ok && usd > 0 {
		m.cost.WithLabelValues(provider, model).Add(usd)
	}
}

// codeOf is the code of an error; empty: there is none. Waiting is none.
func codeOf(err error) string {
	if err == nil || errors.Is(err, pawl.ErrParked) {
		return ""
	}
	return pawl.Coded(err).Code
}
