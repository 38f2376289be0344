//go:build ollama

package app

import (
	"cmp"
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"pawl"
)

// onOllama is a shell whose default model is on the server that .ci/ollama has started.
func onOllama(t *testing.T) *shell {
	url := os.Getenv("PAWL_TEST_OLLAMA")
	if url == "" {
		t.Fatal("PAWL_TEST_OLLAMA is not set: run .ci/ollama")
	}
	s := newShell(t)
	s.ws = []Workflow{Brain(), NCO()}
	s.env = append(s.env, "PAWL_PROVIDERS_OLLAMA_URL="+url, "PAWL_MODELS_DEFAULT=ollama/pawl-test", "TERM=xterm", "NO_COLOR=1")
	return s
}

// TestOllamaBrain: whatever a model says, the run ends as the design has it, within five attempts, and its reply comes in pieces.
func TestOllamaBrain(t *testing.T) {
	s := onOllama(t)
	y := newTTY(80)
	got := ended(t, s.onTTY(y, y, nil, "run", "brain", "What is a pawl, in one sentence?"))
	t.Logf("on the terminal:\n%s\nthe result:\n%s", got.err, got.out)
	if got.code != 0 {
		t.Fatal(got.code)
	}
	var runs pawl.Run
	if err := json.Unmarshal([]byte(s.want(0, "runs", "ls", "--json").out), &runs); err != nil {
		t.Fatal(err)
	}
	var shown struct{ Run pawl.Run }
	if err := json.Unmarshal([]byte(s.want(0, "runs", "show", runs.ID, "--json").out), &shown); err != nil {
		t.Fatal(err)
	}
	var out struct {
		Content  string
		Metadata struct {
			Attempts int    `json:"validation_attempts"`
			Original string `json:"original_response"`
		}
	}
	if err := json.Unmarshal(shown.Run.Output, &out); err != nil {
		t.Fatal(err)
	}
	reply := cmp.Or(out.Metadata.Original, out.Content)
	if bare(reply) == "" || !strings.Contains(bare(got.err), bare(reply)) {
		t.Errorf("the reply %q was not shown while it came", reply)
	}
	if n := out.Metadata.Attempts; n < 1 || n > 5 || len(shown.Run.Meters) == 0 || shown.Run.Meters[0].Used < int64(n) {
		t.Errorf("%d attempts, charged %v", n, shown.Run.Meters)
	}
}

// TestOllamaNCO: a model that never ends its form is cut at the provider's time, as often as it is tried; the rules decide, and say so.
// One that does is held to the candidates.
func TestOllamaNCO(t *testing.T) {
	s := onOllama(t)
	s.env = append(s.env, "PAWL_PROVIDERS_OLLAMA_TIMEOUT=10s")
	p := s.start("run", "nco", "I drive a lorry between cities for a transport company", "--model", "default", "--json")
	select {
	case <-p.done:
	case <-time.After(10 * time.Minute):
		t.Fatal("it does not end: ", p.err.String())
	}
	lines := strings.Split(strings.TrimSpace(p.out.String()), "\n")
	var last struct{ Run pawl.Run }
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &last); err != nil || last.Run.Status != pawl.StatusSucceeded {
		t.Fatal(err, lines[len(lines)-1], p.err.String())
	}
	var out struct {
		Status      string
		Codes       []struct{ Code, Title string }
		Explanation []string
	}
	if err := json.Unmarshal(last.Run.Output, &out); err != nil {
		t.Fatal(err)
	}
	why := strings.Join(out.Explanation, "\n")
	t.Logf("%s %v\n%s\nmeters %v", out.Status, out.Codes, why, last.Run.Meters)
	switch fell := strings.Contains(why, "Without the model: "); {
	case !fell && !strings.Contains(why, "The model: "):
		t.Error("nobody says who has decided")
	case fell && (len(out.Codes) == 0 || out.Codes[0].Code != "8332"):
		t.Errorf("the rules decide otherwise than without a model: %v", out.Codes)
	}
	if len(last.Run.Meters) == 0 || last.Run.Meters[0].Used < 1 {
		t.Errorf("the model was never asked: %v", last.Run.Meters)
	}
}

// bare is what a terminal shows as it is: no breaks, and none of the bytes that a model with random weights likes.
func bare(s string) string {
	return strings.Map(func(r rune) rune {
		if r <= ' ' || r > '~' {
			return -1
		}
		return r
	}, s)
}
