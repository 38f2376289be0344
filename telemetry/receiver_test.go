package telemetry_test

import (
	"compress/gzip"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// receiver is a receiver of OTLP over HTTP that keeps each span as it came.
type receiver struct {
	*httptest.Server
	mu       sync.Mutex
	requests [][]*tracepb.Span
	resource map[string]any
	raw      []byte
	// answer, if given, says with which status a request is answered; 0: as one that was taken.
	answer func(spans []*tracepb.Span) int
	taken  func() // called when a request was taken, before it is answered
}

func newReceiver(t testing.TB) *receiver {
	r := &receiver{}
	r.Server = httptest.NewServer(r)
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	body := io.Reader(q.Body)
	if q.Header.Get("Content-Encoding") == "gzip" {
		z, err := gzip.NewReader(q.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		body = z
	}
	var in collector.ExportTraceServiceRequest
	b, err := io.ReadAll(body)
	if err == nil {
		err = proto.Unmarshal(b, &in)
	}
	if err != nil || q.URL.Path != "/v1/traces" {
		http.Error(w, "not an export", http.StatusBadRequest)
		return
	}
	var spans []*tracepb.Span
	for _, rs := range in.ResourceSpans {
		for _, ss := range rs.ScopeSpans {
			spans = append(spans, ss.Spans...)
		}
	}
	r.mu.Lock()
	answer := r.answer
	r.mu.Unlock()
	if answer != nil {
		if status := answer(spans); status != 0 {
			http.Error(w, "no", status)
			return
		}
	}
	r.mu.Lock()
	r.requests, r.raw = append(r.requests, spans), append(r.raw, b...)
	r.resource = plain(in.ResourceSpans[0].GetResource().GetAttributes())
	taken := r.taken
	r.mu.Unlock()
	if taken != nil {
		taken()
	}
	w.Header().Set("Content-Type", "application/x-protobuf")
	out, _ := proto.Marshal(&collector.ExportTraceServiceResponse{})
	_, _ = w.Write(out)
}

// spans are all that were taken, in their order.
func (r *receiver) spans() (all []*tracepb.Span) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, spans := range r.requests {
		all = append(all, spans...)
	}
	return all
}

// of counts how often each span of a run was taken.
func (r *receiver) of(run string) map[string]int {
	n := map[string]int{}
	for _, sp := range r.spans() {
		if plain(sp.Attributes)["pawl.run.id"] == run {
			n[hex.EncodeToString(sp.SpanId)]++
		}
	}
	return n
}

func plain(kvs []*commonpb.KeyValue) map[string]any {
	out := map[string]any{}
	for _, kv := range kvs {
		switch v := kv.Value.Value.(type) {
		case *commonpb.AnyValue_StringValue:
			out[kv.Key] = v.StringValue
		case *commonpb.AnyValue_IntValue:
			out[kv.Key] = v.IntValue
		case *commonpb.AnyValue_DoubleValue:
			out[kv.Key] = v.DoubleValue
		case *commonpb.AnyValue_BoolValue:
			out[kv.Key] = v.BoolValue
		case *commonpb.AnyValue_ArrayValue:
			var list []string
			for _, one := range v.ArrayValue.Values {
				list = append(list, one.GetStringValue())
			}
			out[kv.Key] = list
		}
	}
	return out
}
