package app

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"
)

// receiver keeps what is sent to it over OTLP.
type receiver struct {
	*httptest.Server
	mu      sync.Mutex
	raw     bytes.Buffer   // bodies as protobuf
	steps   map[string]int // spans by run and step
	headers http.Header
}

func newReceiver(t *testing.T) *receiver {
	r := &receiver{steps: map[string]int{}}
	r.Server = httptest.NewServer(r)
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	body := io.Reader(q.Body)
	if q.Header.Get("Content-Encoding") == "gzip" {
		z, err := gzip.NewReader(q.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		body = z
	}
	b, _ := io.ReadAll(body)
	var in collector.ExportTraceServiceRequest
	if err := proto.Unmarshal(b, &in); err != nil || q.URL.Path != "/v1/traces" {
		http.Error(w, "not an export", http.StatusBadRequest)
		return
	}
	r.raw.Write(b)
	r.headers = q.Header
	for _, rs := range in.ResourceSpans {
		for _, ss := range rs.ScopeSpans {
			for _, sp := range ss.Spans {
				at := map[string]string{}
				for _, kv := range sp.Attributes {
					at[kv.Key] = kv.Value.GetStringValue()
					if n := kv.Value.GetIntValue(); n != 0 {
						at[kv.Key] = fmt.Sprint(n)
					}
				}
				if at["pawl.step"] != "" && at["pawl.call"] == "" {
					r.steps[at["pawl.run.id"]+" "+at["pawl.step"]]++
				}
			}
		}
	}
}

func (r *receiver) got() (raw string, steps map[string]int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	steps = map[string]int{}
	for k, n := range r.steps {
		steps[k] = n
	}
	return r.raw.String(), steps
}

// TestTracesSettings: where traces go, by the variables that all programs know and by our own, and what doctor says of it.
func TestTracesSettings(t *testing.T) {
	t.Parallel()
	for says, env := range map[string][]string{
		"receiver  (none)":                                           nil,
		"receiver  http://h:4318/v1/traces\n":                        {"OTEL_EXPORTER_OTLP_ENDPOINT=http://h:4318"},
		"receiver  http://h:4318/as/it/is\n":                         {"OTEL_EXPORTER_OTLP_ENDPOINT=http://x", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://h:4318/as/it/is"},
		"receiver  https://l/api/public/otel/v1/traces, with inputs": {"PAWL_TRACES_ENDPOINT=https://l/api/public/otel", "OTEL_EXPORTER_OTLP_ENDPOINT=http://x", "PAWL_TRACES_CONTENT=true"},
		"(environment OTEL_EXPORTER_OTLP_ENDPOINT)":                  {"OTEL_EXPORTER_OTLP_ENDPOINT=http://h:4318"},
		"traces.headers     ****":                                    {"OTEL_EXPORTER_OTLP_HEADERS=authorization=Basic%20hunter2"},
		"traces  receiver  (none) traces.headers: it is NAME=VALUE":  {"OTEL_EXPORTER_OTLP_ENDPOINT=http://h", "OTEL_EXPORTER_OTLP_HEADERS=hunter2"},
		"traces  receiver  (none) traces.endpoint: it is an address": {"OTEL_EXPORTER_OTLP_ENDPOINT=http://pk:hunter2@h"},
		"this program sends http/protobuf, not grpc":                 {"OTEL_EXPORTER_OTLP_ENDPOINT=http://h", "OTEL_EXPORTER_OTLP_PROTOCOL=grpc"},
		"traces.content: it is true or false":                        {"OTEL_EXPORTER_OTLP_ENDPOINT=http://h", "PAWL_TRACES_CONTENT=perhaps"},
		"receiver  (none)\n":                                         {"OTEL_EXPORTER_OTLP_ENDPOINT=http://h", "OTEL_SDK_DISABLED=true"},
	} {
		s := newShell(t)
		s.ws = []Workflow{Graph(hello())}
		s.env = append(s.env, env...)
		got := s.run("doctor", "--store", "memory")
		flat := regexp.MustCompile(` {2,}`).ReplaceAllString(got.out, "  ")
		if !strings.Contains(flat, regexp.MustCompile(` {2,}`).ReplaceAllString(says, "  ")) || strings.Contains(got.out+got.err, "hunter2") {
			t.Errorf("%v: no %q in\n%s%s", env, says, got.out, got.err)
		}
		if fault := strings.Contains(got.out, "FAULT"); fault != (got.code != 0) {
			t.Errorf("%v: exit %d", env, got.code)
		}
	}
}

// TestTracesOfCommands: a command that works a run tells of it before it ends; a receiver that is not there is said and costs
// nothing else.
func TestTracesOfCommands(t *testing.T) {
	t.Parallel()
	s, to := newShell(t), newReceiver(t)
	s.env = append(s.env, "OTEL_EXPORTER_OTLP_ENDPOINT="+to.URL, "OTEL_EXPORTER_OTLP_HEADERS=x-key=v%201")
	id := s.want(0, "run", "hello", "x", "--json").last(t).Run.ID
	if _, steps := to.got(); len(steps) != 1 || steps[id+" 2"] != 1 {
		t.Errorf("%v", steps)
	}
	if got := to.headers.Get("x-key"); got != "v 1" {
		t.Errorf("%q", got)
	}
	s.env = append(s.env, "OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:1")
	if got := s.want(0, "run", "hello", "x"); !strings.Contains(got.err, "traces") || !strings.Contains(got.err, "stay in the log") {
		t.Error(got.err)
	}
}

// TestFaultTracesOverKill: a command is killed in the middle and another one goes on: the receiver has one span for each step.
func TestFaultTracesOverKill(t *testing.T) {
	t.Parallel()
	s, to := newShell(t), newReceiver(t)
	s.env = append(s.env, "OTEL_EXPORTER_OTLP_ENDPOINT="+to.URL)
	p := s.start("run", "slow", "n=8", "ms=300")
	p.await(t, "work -> work", 3)
	if err := p.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	id := ids.FindString(p.end(t).err)
	if got := s.start("runs", "watch", id).end(t); got.code != 0 {
		t.Fatal(got)
	}
	var all shown
	if err := json.Unmarshal([]byte(s.want(0, "runs", "show", id, "--json").out), &all); err != nil {
		t.Fatal(err)
	}
	_, steps := to.got()
	works := 0
	for _, step := range all.Steps {
		if step.Name != "work" {
			continue
		}
		if works++; steps[fmt.Sprint(id, " ", step.Seq)] != 1 {
			t.Errorf("step %d has %d spans", step.Seq, steps[fmt.Sprint(id, " ", step.Seq)])
		}
	}
	if works != 8 || len(steps) != works {
		t.Errorf("%d steps, spans %v", works, steps)
	}
}

// TestMetrics: a worker answers Prometheus at an address of this machine.
func TestMetrics(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.want(0, "run", "hello", "x", "--detach")
	numbers, log := s.metrics(t)
	for _, want := range []string{
		`pawl_runs_claimed_total 1`, `pawl_runs_ended_total{status="succeeded",workflow="hello"} 1`,
		`pawl_visit_duration_seconds_count{code="",node="greet",workflow="hello"} 1`, `pawl_call_duration_seconds_count{code="",node="greet",workflow="hello"} 1`,
	} {
		if !strings.Contains(numbers, want) {
			t.Errorf("no %q in\n%s", want, numbers)
		}
	}
	if !strings.Contains(log, "metrics at http://127.0.0.1:") {
		t.Error(log)
	}
	for _, wrong := range []string{"9464", "x:y:z", "127.0.0.1:99999"} {
		if got := s.run("work", "--metrics", wrong); got.code == 0 || !strings.Contains(got.err, "--metrics") {
			t.Error(wrong, got)
		}
	}
}

// metrics lets a worker work until a run has ended, and reads its numbers.
func (s *shell) metrics(t *testing.T) (numbers, log string) {
	t.Helper()
	screen, interrupts, done := newTTY(200), make(chan struct{}, 2), make(chan int, 1)
	go func() {
		args := []string{"work", "--metrics", ":0"}
		done <- Shell{Args: args, In: strings.NewReader(""), Out: io.Discard, Err: screen, Env: s.env, Interrupts: interrupts}.Run(context.Background(), s.ws...)
	}()
	screen.await(t, "/metrics", 1)
	screen.await(t, "run ", 1)
	res, err := http.Get(regexp.MustCompile(`http://\S+/metrics`).FindString(screen.String()))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	interrupts <- struct{}{}
	if code := <-done; code != 0 || err != nil {
		t.Errorf("exit %d, %v\n%s", code, err, screen)
	}
	return string(b), screen.String()
}
