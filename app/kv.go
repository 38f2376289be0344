package app

import (
	"context"
	"path/filepath"
	"strings"

	"pawl/ports/kv"
	"pawl/ports/kv/cloudflare"
	"pawl/ports/kv/memory"
	"pawl/ports/kv/redis"
	"pawl/ports/kv/sqlite"
)

// The settings of the store in which outside readers find what a run knows.
const (
	kvStore = "kv.store"
	kvToken = "kv.token"
)

// kvKind is one kind of such a store: the word before the colon, and how it is opened with what stands behind it.
type kvKind struct {
	scheme, form string
	open         func(ctx context.Context, c *config, rest string) (kv.Store, error)
}

// kvKinds is the table of all. A new one is a folder under ports/kv and a line here.
var kvKinds = []kvKind{
	{"memory", "memory", func(_ context.Context, _ *config, rest string) (kv.Store, error) {
		if rest != "" {
			return nil, invalid("%s: memory takes nothing after it", kvStore)
		}
		return memory.New(memory.Config{}), nil
	}},
	{"sqlite", "sqlite:PATH", openKVFile},
	{"redis", "redis://USER:PASSWORD@HOST:PORT/DATABASE", openRedis("redis")},
	{"rediss", "", openRedis("rediss")},
	{"cloudflare", "cloudflare:ACCOUNT/NAMESPACE", openCloudflare},
}

func openKVFile(ctx context.Context, c *config, rest string) (kv.Store, error) {
	path := strings.TrimPrefix(rest, "//")
	if path == "" {
		dir := dataDir(c.lookup)
		if dir == "" {
			return nil, invalid("%s: there is no home folder to keep values in: say where with sqlite:PATH", kvStore)
		}
		path = filepath.Join(dir, "pawl", "kv.db")
	}
	s, err := sqlite.Open(ctx, path, sqlite.Config{Busy: busy})
	if err != nil {
		return nil, err
	}
	return s, nil
}

func openRedis(scheme string) func(context.Context, *config, string) (kv.Store, error) {
	return func(_ context.Context, _ *config, rest string) (kv.Store, error) {
		s, err := redis.Open(scheme + ":" + rest)
		if err != nil {
			return nil, err
		}
		return s, nil
	}
}

func openCloudflare(_ context.Context, c *config, rest string) (kv.Store, error) {
	account, namespace, _ := strings.Cut(rest, "/")
	token := c.value(kvToken)
	switch {
	case account == "" || namespace == "" || strings.Contains(namespace, "/"):
		return nil, invalid("%s: want cloudflare:ACCOUNT/NAMESPACE, by their ids", kvStore)
	case token == "":
		s := c.find(kvToken)
		return nil, unset("cloudflare needs a token (%s; or a file with it, %s_FILE)", s.env(), s.env())
	}
	return cloudflare.New(cloudflare.Config{Account: account, Namespace: namespace, Token: token}), nil
}

// KV is the store that is configured for outside readers; nil: none is. Whoever opens it closes it. Nobody is asked yet.
func (o Opening) KV(ctx context.Context) (kv.Store, error) { return o.conf.kv(ctx) }

func (c *config) kv(ctx context.Context) (kv.Store, error) {
	said := c.value(kvStore)
	if said == "" {
		return nil, nil
	}
	scheme, rest, _ := strings.Cut(said, ":")
	var forms []string
	for _, k := range kvKinds {
		if strings.EqualFold(k.scheme, scheme) {
			return k.open(ctx, c, rest)
		}
		if k.form != "" {
			forms = append(forms, k.form)
		}
	}
	return nil, invalid("%s: there is no %s: use one of %s", kvStore, shortened(masked(said)), strings.Join(forms, ", "))
}

// examineKV says where outside readers find values. Nobody is asked; a file is opened, and made where there is none.
func (c *call) examineKV(ctx context.Context) finding {
	f := finding{About: "kv", Name: "outside readers", Value: "(none)"}
	s, err := c.conf.kv(ctx)
	switch {
	case err != nil:
		f.Fault = err.Error()
	case s != nil:
		f.Value = s.Name()
		if err := s.Close(); err != nil {
			f.Fault = err.Error()
		}
	}
	return f
}
