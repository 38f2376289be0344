package nco

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"

	"pawl"
	"pawl/ports/llm"
	"pawl/ports/llm/openai"
)

// vendor is a service on this machine that speaks chat completions (https://platform.openai.com/docs/api-reference/chat).
type vendor struct {
	url string

	mu    sync.Mutex
	asked []heardRequest
	keys  []string // idempotency keys of the attempts
}

// heardRequest is what it was asked.
type heardRequest struct {
	Messages []struct{ Role, Content string }
	Format   struct {
		Schema struct {
			Name   string
			Schema json.RawMessage
		} `json:"json_schema"`
	} `json:"response_format"`
}

func (q heardRequest) reads() bool { return q.Format.Schema.Name == "Expansion" }

// text is all that was said to it, without its instructions.
func (q heardRequest) text() (all string) {
	for _, m := range q.Messages[1:] {
		all += m.Content
	}
	return all
}

// answered is what it says: a text, or something else.
type answered struct {
	text    string
	finish  string // empty: stop
	status  int    // 0: 200
	after   string // of Retry-After
	hanging bool
}

// newVendor answers by what it is asked, and by how often it was asked for the same kind of thing before.
func newVendor(t *testing.T, say func(n int, q heardRequest) answered) *vendor {
	v := &vendor{}
	over := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var q heardRequest
		if err := json.NewDecoder(r.Body).Decode(&q); err != nil || r.URL.Path != "/v1/chat/completions" {
			t.Errorf("%s: %v", r.URL, err)
		}
		v.mu.Lock()
		n := 0
		for _, before := range v.asked {
			if before.reads() == q.reads() {
				n++
			}
		}
		v.asked = append(v.asked, q)
		v.mu.Unlock()
		a := say(n, q)
		if a.hanging {
			select {
			case <-r.Context().Done():
			case <-over:
			}
			return
		}
		w.Header().Set("Content-Type", "application/json")
		if a.after != "" {
			w.Header().Set("Retry-After", a.after)
		}
		if a.status != 0 {
			w.WriteHeader(a.status)
			fmt.Fprint(w, `{"error":{"message":"not now","type":"requests","code":null}}`)
			return
		}
		content, _ := json.Marshal(a.text)
		fmt.Fprintf(w, `{"id":"1","object":"chat.completion","created":1,"model":"small","choices":[{"index":0,"message":{"role":"assistant","content":%s},"finish_reason":%q}],"usage":{"prompt_tokens":900,"completion_tokens":100,"total_tokens":1000}}`,
			content, cmp.Or(a.finish, "stop"))
	}))
	v.url = s.URL
	t.Cleanup(func() { close(over); s.Close() })
	return v
}

// heard is what it was asked for a reading, or for a verdict.
func (v *vendor) heard(reading bool) []heardRequest {
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(v.asked), func(q heardRequest) bool { return q.reads() != reading })
}

// keyed remembers under which key each attempt is made.
type keyed struct {
	llm.Model
	v *vendor
}

func (k keyed) Generate(ctx context.Context, r llm.Request) (llm.Response, error) {
	k.v.mu.Lock()
	k.v.keys = append(k.v.keys, pawl.IdempotencyKey(ctx))
	k.v.mu.Unlock()
	return k.Model.Generate(ctx, r)
}

// modeledAgent is an agent over the small catalogue whose model is at the vendor.
func modeledAgent(t *testing.T, v *vendor) Agent { return v.models(agent(t, small(t))) }

// models gives an agent its model.
func (v *vendor) models(a Agent) Agent {
	m := openai.New(openai.Config{Provider: "mine", URL: v.url + "/v1", Dialect: openai.Compatible,
		HTTP: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}}, "small") // no connection outlives the virtual time of a run
	m = llm.Metered(keyed{m, v}, llm.Price{Input: pawl.Dollars(1), Output: pawl.Dollars(10)})
	a.Model = func() (llm.Model, error) { return m, nil }
	return a.settled()
}
