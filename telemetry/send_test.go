package telemetry

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

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
		done, dropped, err := send.send(t.Context(), []*tracepb.Span{{Name: "x", TraceId: make([]byte, 16), SpanId: make([]byte, 8)}})
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
