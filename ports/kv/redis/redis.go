// Package redis keeps values in a Redis, or in whatever speaks as one does from version 6.
//
// It may never retry, or read keys that it could not have written: those of another type, or of no kind that this port has. A
// cluster is not known here, only one server.
//
// Start reading at Open.
package redis

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/redis/go-redis/v9/maintnotifications"

	"pawl"
	"pawl/internal/rest"
	"pawl/ports/kv"
)

const name = "redis"

// Store is a kv.Store.
type Store struct {
	client  *goredis.Client
	secrets []string
}

var _ kv.Store = (*Store)(nil)

// Open is the store at an address: redis://USER:PASSWORD@HOST:PORT/DATABASE, rediss:// for TLS, or unix://PATH. Nothing is asked for yet.
func Open(address string) (*Store, error) {
	o, err := goredis.ParseURL(address)
	if err != nil { // its text has the password
		text := "this is not the address of a Redis: want redis://USER:PASSWORD@HOST:PORT/DATABASE, rediss:// for TLS, or unix://PATH"
		return nil, kv.Failure{Store: name, Op: "open", Code: pawl.CodeInvalid, Text: text, After: -1}.Fault()
	}
	o.MaxRetries, o.DialerRetries = -1, 1 // the engine retries
	o.ContextTimeoutEnabled = true
	o.DisableIdentity = true
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	logging.Disable() // of the whole client: it writes to standard error what comes back as an error anyway
	return &Store{client: goredis.NewClient(o), secrets: []string{o.Password}}, nil
}

// Name is "redis".
func (s *Store) Name() string { return name }

// Put keeps a value.
func (s *Store) Put(ctx context.Context, key string, value []byte, ttl time.Duration) error {
	if err := kv.Check(name, key, value, ttl); err != nil {
		return err
	}
	ttl = (ttl + time.Millisecond - 1).Truncate(time.Millisecond) // as fine as it is there, and never shorter than it was said
	return s.fault(ctx, "put", s.client.Set(ctx, key, value, ttl).Err())
}

// Get gives a value.
func (s *Store) Get(ctx context.Context, key string) ([]byte, bool, error) {
	if err := kv.CheckKey(name, "get", key); err != nil {
		return nil, false, err
	}
	value, err := s.client.Get(ctx, key).Bytes()
	if errors.Is(err, goredis.Nil) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, s.fault(ctx, "get", err)
	}
	return value, true, nil
}

// Delete takes a value away.
func (s *Store) Delete(ctx context.Context, key string) error {
	if err := kv.CheckKey(name, "delete", key); err != nil {
		return err
	}
	return s.fault(ctx, "delete", s.client.Del(ctx, key).Err())
}

// Keys are those that begin so. The server goes on serving others meanwhile, and a key that comes or goes may be missed.
func (s *Store) Keys(ctx context.Context, prefix string) ([]string, error) {
	if err := kv.CheckPrefix(name, prefix); err != nil {
		return nil, err
	}
	pattern := strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`).Replace(prefix) + "*"
	var keys []string
	for cursor := uint64(0); ; {
		page, next, err := s.client.ScanType(ctx, cursor, pattern, 1000, "string").Result()
		if err != nil {
			return nil, s.fault(ctx, "keys", err)
		}
		for _, key := range page {
			if kv.CheckKey(name, "keys", key) == nil && strings.HasPrefix(key, prefix) {
				keys = append(keys, key)
			}
		}
		if cursor = next; cursor == 0 {
			slices.Sort(keys)
			return slices.Compact(keys), nil // a scan may tell a key twice
		}
	}
}

// Close closes the connections.
func (s *Store) Close() error { return s.client.Close() }

// meanings are what the first word of an error means (https://redis.io/docs/latest/develop/reference/protocol-spec/#simple-errors).
// What is not here is wrong with the command.
var meanings = map[string]string{
	"NOAUTH": pawl.CodeForbidden, "WRONGPASS": pawl.CodeForbidden, "NOPERM": pawl.CodeForbidden,
	"OOM": kv.CodeFull, "WRONGTYPE": pawl.CodeConflict,
	"LOADING": pawl.CodeUnavailable, "BUSY": pawl.CodeUnavailable, "MISCONF": pawl.CodeUnavailable, "READONLY": pawl.CodeUnavailable,
	"MASTERDOWN": pawl.CodeUnavailable, "CLUSTERDOWN": pawl.CodeUnavailable, "TRYAGAIN": pawl.CodeUnavailable, "NOREPLICAS": pawl.CodeUnavailable,
}

func (s *Store) fault(ctx context.Context, op string, err error) error {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		err = ctx.Err() // whatever it has led to
	}
	return kv.FaultOf(name, op, err, func(f *kv.Failure, _ []byte) {
		f.Text, f.Err = rest.Line(rest.Mask(f.Text, s.secrets)), nil
		var said goredis.Error
		var broken net.Error
		switch {
		case errors.As(err, &broken) && broken.Timeout():
			f.Code, f.Text = pawl.CodeTimeout, "nothing came in time"
		case errors.As(err, &said) && !strings.HasPrefix(said.Error(), "ERR max number of clients"):
			word, _, _ := strings.Cut(said.Error(), " ")
			if f.Code = meanings[word]; f.Code == "" {
				f.Code = pawl.CodeInvalid
			}
		}
	})
}
