package telemetry

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"pawl"
)

// TestReceiverThatTellsTheKey: what it says of our headers is not told on, and where it sends us they do not come along.
func TestReceiverThatTellsTheKey(t *testing.T) {
	t.Parallel()
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("asked elsewhere, with %q", r.Header.Get("X-Key"))
	}))
	t.Cleanup(other.Close)
	for _, status := range []int{301, 302, 303, 307, 308, 400, 401, 500} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Location", other.URL)
			w.WriteHeader(status)
			_, _ = io.WriteString(w, "no "+r.Header.Get("X-Key")+", "+strings.TrimPrefix(r.Header.Get("Authorization"), "Basic "))
		}))
		var said strings.Builder
		send, err := newSender(Config{
			URL: s.URL, Headers: map[string]pawl.Secret{"X-Key": pawl.NewSecret("canary/1"), "Authorization": pawl.NewSecret("Basic canary=2")},
			Fault: func(_ string, err error) { said.WriteString(err.Error()) },
		})
		if err != nil {
			t.Fatal(err)
		}
		done, dropped, err := send.send(t.Context(), [][]*tracepb.Span{{{Name: "x", TraceId: make([]byte, 16), SpanId: make([]byte, 8)}}})
		if err != nil {
			said.WriteString(err.Error())
		}
		if (err == nil) != (status == 400) || (dropped == 1) != (status == 400) || done != dropped {
			t.Errorf("%d: dropped %d, %v", status, dropped, err)
		}
		if strings.Contains(said.String(), "canary") || status >= 400 && !strings.Contains(said.String(), "no ****, ****") {
			t.Errorf("%d: %s", status, said.String())
		}
		s.Close()
	}
}

// TestHalvesEndWithAStep: whatever is taken of a request that is sent by halves, no step of it is taken in part.
func TestHalvesEndWithAStep(t *testing.T) {
	t.Parallel()
	for most := 3; most < 20; most++ {
		for fails := 2; fails < 6; fails++ {
			asked, taken := 0, 0
			to := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				var in collector.ExportTraceServiceRequest
				body, err := io.ReadAll(r.Body)
				if err == nil {
					err = proto.Unmarshal(body, &in)
				}
				if err != nil {
					t.Error(err)
				}
				n := len(in.ResourceSpans[0].ScopeSpans[0].Spans)
				if n > most {
					w.WriteHeader(http.StatusRequestEntityTooLarge)
					return
				}
				if asked++; asked == fails {
					w.WriteHeader(http.StatusServiceUnavailable)
					return
				}
				taken += n
			}))
			send, err := newSender(Config{URL: to.URL + "/v1/traces", Fault: func(string, error) {}})
			if err != nil {
				t.Fatal(err)
			}
			var steps [][]*tracepb.Span
			ends := map[int]bool{0: true}
			for i := range 17 {
				step := make([]*tracepb.Span, 1+i%3)
				for j := range step {
					step[j] = &tracepb.Span{Name: "x", TraceId: make([]byte, 16), SpanId: []byte{0, 0, 0, 0, 0, 0, byte(i), byte(j)}}
				}
				steps = append(steps, step)
				ends[len(slices.Concat(steps...))] = true
			}
			done, dropped, err := send.send(t.Context(), steps)
			to.Close()
			if done != taken || dropped != 0 || !ends[done] || asked < fails != (err == nil) {
				t.Errorf("at most %d spans, request %d fails: %d done, %d taken, %d dropped, %v", most, fails, done, taken, dropped, err)
			}
		}
	}
}
