package app

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"pawl"
)

// keyring is the secrets of a workflow that is as careless with them as can be.
type keyring struct {
	Keys []pawl.Secret
	one  pawl.Secret
	by   map[string]pawl.Secret
	log  *slog.Logger
}

// leaky tells its keys in every way that node code has.
func leaky(k *keyring) *pawl.Graph[greeting, greeting, string] {
	g := pawl.New[greeting, greeting, string]("leaky", pawl.Options{Version: "1", Positional: []string{"name"}})
	node := g.Node("node", func(ctx context.Context, s greeting) (greeting, error) {
		all := fmt.Sprintf("%v %+v %#v %s %q %x %v", *k, *k, k, k.Keys, k.Keys, k.Keys, k.by)
		k.log.InfoContext(ctx, all, "keys", k.Keys, "one", k.one, "ring", *k)
		pawl.Annotate(ctx, "one", k.one, "ring", *k)
		text, err := pawl.Do(ctx, "call", func(ctx context.Context) (string, error) {
			pawl.Annotate(ctx, "gen_ai.operation.name", "chat", "gen_ai.request.model", k.one, "keys", k.Keys)
			return fmt.Sprint(all, k.one), pawl.Emit(ctx, "told", map[string]any{"keys": fmt.Sprint(k.Keys), "one": k.one.String()})
		}, pawl.CallOptions{For: fmt.Sprint(*k)})
		if err == nil {
			err = pawl.Note(ctx, "noted", text)
		}
		switch s.Tags = append(s.Tags, text); {
		case err != nil:
		case s.Name == "error":
			err = fmt.Errorf("the vendor refused %v: %+v", k.one, *k)
		case s.Name == "panic":
			panic(*k)
		}
		return s, err
	})
	g.Start(node, func(in greeting) (greeting, error) { return in, nil })
	g.From(node).Otherwise(g.Succeed("DONE"))
	g.Finish(func(s greeting, _ pawl.Ending) (string, error) { return fmt.Sprint(s, *k), nil })
	return g
}

// canary plants secrets.
type canary struct{ planted []string }

func (c *canary) plant() string {
	c.planted = append(c.planted, fmt.Sprintf("canary%02d-8Xk/q", len(c.planted)))
	return c.planted[len(c.planted)-1]
}

const canaryOptions = 45

// workflow is leaky with the secrets of its options.
func (c *canary) workflow(logs io.Writer) Workflow {
	ring := &keyring{by: map[string]pawl.Secret{}, log: slog.New(slog.NewJSONHandler(logs, nil))}
	w := Graph(leaky(ring))
	open := w.Open
	for i := range canaryOptions {
		w.Options = append(w.Options, Option{Name: fmt.Sprint("key", i), Secret: true, Usage: "a key"})
	}
	var once sync.Once
	w.Open = func(ctx context.Context, o Opening) (*Opened, error) {
		once.Do(func() {
			for i := range canaryOptions {
				name := fmt.Sprint("key", i)
				ring.Keys, ring.by[name], ring.one = append(ring.Keys, o.Secret(name)), o.Secret(name), o.Secret(name)
			}
		})
		return open(ctx, o)
	}
	return w
}

// configure gives the options their secrets by variables, by files of their own and by the configuration.
func (c *canary) configure(t *testing.T) (env []string) {
	t.Helper()
	hidden := quickDir(t) // what the program was given is not searched
	write := func(name, text string) string {
		name = filepath.Join(hidden, name)
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	var file strings.Builder
	for i := range canaryOptions {
		switch value := c.plant(); i % 3 {
		case 0:
			env = append(env, fmt.Sprintf("PAWL_LEAKY_KEY%d=%s", i, value))
		case 1:
			env = append(env, fmt.Sprintf("PAWL_LEAKY_KEY%d_FILE=%s", i, write(fmt.Sprint(i), value+"\n")))
		default:
			fmt.Fprintf(&file, `,"key%d":%q`, i, value)
		}
	}
	return append(env, "PAWL_CONFIG="+write("config.json", `{"leaky":{`+file.String()[1:]+`}}`))
}

// search looks for what was planted.
func (c *canary) search(t *testing.T, places map[string]string) {
	t.Helper()
	for place, text := range places {
		for _, secret := range c.planted {
			raw := []byte(secret)
			for _, form := range []string{secret[:8], secret, url.QueryEscape(secret), hex.EncodeToString(raw), base64.StdEncoding.EncodeToString(raw)[:12]} {
				if strings.Contains(text, form) {
					t.Errorf("%s: %q is in %s", secret, form, place)
				}
			}
		}
	}
	for _, place := range []string{"what is said", "logs", "traces", "pawl.db", "panic.export"} {
		if !strings.Contains(places[place], "[redacted]") {
			t.Errorf("nothing was redacted in %s: this shows nothing", place)
		}
	}
	t.Logf("%d secrets, places searched: %s", len(c.planted), strings.Join(slices.Sorted(maps.Keys(places)), ", "))
}

// TestCanary plants 50 secrets in configuration and keys, and looks for them wherever this program leaves anything: what it says,
// prints and logs, its database, events, exports, traces, metrics and panics.
func TestCanary(t *testing.T) {
	t.Parallel()
	s, to, c := newShell(t), newReceiver(t), &canary{}
	var logs guardedBuffer
	s.ws = []Workflow{c.workflow(&logs)}
	s.env = append(s.env, c.configure(t)...)
	header := c.plant()
	s.env = append(s.env, "OTEL_EXPORTER_OTLP_ENDPOINT="+to.URL, "PAWL_TRACES_CONTENT=true", "OTEL_EXPORTER_OTLP_HEADERS=authorization="+url.QueryEscape(header))
	var all bytes.Buffer
	say := func(args ...string) {
		got := s.run(args...)
		fmt.Fprintln(&all, args[0], got.code, got.out, got.err)
	}
	for _, how := range []string{"well", "error", "panic"} {
		got := s.run("run", "leaky", how, "--json")
		fmt.Fprintln(&all, got.out, got.err)
		id := got.last(t).Run.ID
		say("runs", "show", id)
		say("runs", "show", id, "--json")
		say("runs", "watch", id)
		s.want(0, "runs", "export", id, "--out", filepath.Join(s.dir, how+".export"))
	}
	say("doctor")
	say("doctor", "--json")
	say("runs", "ls", "--json")
	say("run", "leaky", "x", "--store", "postgres://u:"+url.QueryEscape(c.plant())+"@127.0.0.1:1/d?connect_timeout=1")
	say("doctor", "--store", "postgres://u@127.0.0.1:1/d?connect_timeout=1&password="+url.QueryEscape(c.plant()))
	s.want(0, "run", "leaky", "well", "--detach")
	numbers, log := s.metrics(t)
	all.WriteString(numbers + log)
	before := slices.Clip(s.env)
	for _, broken := range []string{"OTEL_EXPORTER_OTLP_HEADERS=" + c.plant(), "OTEL_EXPORTER_OTLP_ENDPOINT=http://u:" + url.QueryEscape(c.plant()) + "@h"} {
		s.env = append(before, broken)
		say("doctor")
		say("run", "leaky", "well")
	}
	if len(c.planted) != 50 {
		t.Fatalf("%d secrets are planted", len(c.planted))
	}
	if got := to.headers.Get("authorization"); got != header {
		t.Errorf("the receiver was given the key %q", got)
	}
	places := map[string]string{"what is said": all.String(), "logs": logs.String()}
	places["traces"], _ = to.got()
	err := filepath.WalkDir(s.dir, func(name string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(name)
		if z, zerr := gzip.NewReader(bytes.NewReader(b)); zerr == nil { // an export
			b, err = io.ReadAll(z)
		}
		places[filepath.Base(name)] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	c.search(t, places)
}

type guardedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (g *guardedBuffer) Write(b []byte) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.b.Write(b)
}

func (g *guardedBuffer) String() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.b.String()
}
