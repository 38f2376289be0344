package pawl_test

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"text/template"

	"pawl"
)

// holder has secrets in all places from which values are printed.
type holder struct {
	Key   pawl.Secret
	own   pawl.Secret
	Ref   *pawl.Secret
	List  []pawl.Secret
	ByKey map[string]pawl.Secret
}

// TestSecret: nothing that writes values writes a secret.
func TestSecret(t *testing.T) {
	s := pawl.NewSecret("hunter2")
	h := holder{s, s, &s, []pawl.Secret{s}, map[string]pawl.Secret{"k": s}}
	var all bytes.Buffer
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%T", "%20v"} {
		fmt.Fprintf(&all, verb, s)
		fmt.Fprintf(&all, verb, h)
		fmt.Fprintf(&all, verb, &h)
	}
	for _, v := range []any{s, h, &h} {
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(b)
	}
	b, err := xml.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	all.Write(b)
	for _, l := range []*slog.Logger{slog.New(slog.NewTextHandler(&all, nil)), slog.New(slog.NewJSONHandler(&all, nil))} {
		l.Info("x", "key", s, "all", h, "ref", &s)
	}
	if err := template.Must(template.New("").Parse("{{.}} {{.Key}}")).Execute(&all, h); err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(&all, errors.Join(fmt.Errorf("refused: %v", h), fmt.Errorf("%w", fmt.Errorf("%s", s))))
	for _, form := range []string{"hunter2", "68756e74657232", "aHVudGVyMg", "[104 117"} {
		if strings.Contains(strings.ToLower(all.String()), strings.ToLower(form)) {
			t.Errorf("%s is in\n%s", form, all.String())
		}
	}
	if !strings.Contains(all.String(), "[redacted]") {
		t.Error(all.String())
	}
	if s.Reveal() != "hunter2" || s.Empty() || !(pawl.Secret{}).Empty() || h.own.Reveal() != "hunter2" {
		t.Error("the text is lost")
	}
}

// TestSecretInState: a state cannot hold a secret: what is stored would not be it.
func TestSecretInState(t *testing.T) {
	type state struct{ Key pawl.Secret }
	g := pawl.New[int, state, int]("s", pawl.Options{Version: "1"})
	a := g.Node("a", func(_ context.Context, s state) (state, error) { return s, nil })
	g.Start(a, func(int) (state, error) { return state{pawl.NewSecret("hunter2")}, nil })
	g.From(a).Otherwise(g.Succeed("DONE"))
	g.Finish(func(state, pawl.Ending) (int, error) { return 1, nil })
	if _, err := g.Build(); err == nil || !strings.Contains(err.Error(), "pawl.Secret is written by its own text") {
		t.Error(err)
	}
}
