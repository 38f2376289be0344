// Package memory keeps values in this process.
//
// It may never outlive the process or grow beyond its bounds: what does not fit is refused, and nothing that is there is thrown away
// for it before its time.
//
// Start reading at New.
package memory

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"pawl/ports/kv"
)

// Config is how much is kept. Its zero value works.
type Config struct {
	MaxKeys  int              // 0: 100,000
	MaxBytes int              // of keys and values together; 0: 256 MB
	Now      func() time.Time // nil: this machine's clock
}

// Store is a kv.Store.
type Store struct {
	conf Config

	mu     sync.Mutex
	values map[string]value
	size   int
}

type value struct {
	bytes []byte
	until time.Time
}

var _ kv.Store = (*Store)(nil)

// New is an empty store.
func New(c Config) *Store {
	c.MaxKeys, c.MaxBytes = cmp.Or(c.MaxKeys, 100_000), cmp.Or(c.MaxBytes, 256<<20)
	if c.Now == nil {
		c.Now = time.Now
	}
	return &Store{conf: c, values: map[string]value{}}
}

const name = "memory"

// Name is "memory".
func (s *Store) Name() string { return name }

// Put keeps a value; where there is no room for it, it makes room by what is over.
func (s *Store) Put(ctx context.Context, key string, v []byte, ttl time.Duration) error {
	if err := kv.Check(name, key, v, ttl); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return kv.FaultOf(name, "put", err, nil)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.conf.Now()
	if !s.fits(key, v) {
		s.sweep(now)
		if !s.fits(key, v) {
			text := fmt.Sprintf("%d values of %d bytes are here already, and there is no room for %d more bytes", len(s.values), s.size, len(key)+len(v))
			return kv.Failure{Store: name, Op: "put", Code: kv.CodeFull, Text: text, After: -1}.Fault()
		}
	}
	s.drop(key)
	s.values[key] = value{bytes.Clone(v), now.Add(ttl)}
	s.size += len(key) + len(v)
	return nil
}

// fits says whether there is room for a value in place of what its key holds.
func (s *Store) fits(key string, v []byte) bool {
	keys, size := len(s.values)+1, s.size+len(key)+len(v)
	if old, ok := s.values[key]; ok {
		keys, size = keys-1, size-len(key)-len(old.bytes)
	}
	return keys <= s.conf.MaxKeys && size <= s.conf.MaxBytes
}

// drop takes a value away, if there is one.
func (s *Store) drop(key string) {
	if old, ok := s.values[key]; ok {
		delete(s.values, key)
		s.size -= len(key) + len(old.bytes)
	}
}

// sweep takes away whatever is over.
func (s *Store) sweep(now time.Time) {
	for key, v := range s.values {
		if !now.Before(v.until) {
			s.drop(key)
		}
	}
}

// Get gives a value.
func (s *Store) Get(ctx context.Context, key string) ([]byte, bool, error) {
	if err := kv.CheckKey(name, "get", key); err != nil {
		return nil, false, err
	}
	if err := ctx.Err(); err != nil {
		return nil, false, kv.FaultOf(name, "get", err, nil)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	v, ok := s.values[key]
	if ok && !s.conf.Now().Before(v.until) {
		s.drop(key)
		ok = false
	}
	if !ok {
		return nil, false, nil
	}
	return append([]byte{}, v.bytes...), true, nil
}

// Delete takes a value away.
func (s *Store) Delete(ctx context.Context, key string) error {
	if err := kv.CheckKey(name, "delete", key); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return kv.FaultOf(name, "delete", err, nil)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop(key)
	return nil
}

// Keys are those that begin so.
func (s *Store) Keys(ctx context.Context, prefix string) ([]string, error) {
	if err := kv.CheckPrefix(name, prefix); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, kv.FaultOf(name, "keys", err, nil)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sweep(s.conf.Now())
	var keys []string
	for key := range s.values {
		if strings.HasPrefix(key, prefix) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys, nil
}

// Close does nothing: the values go with the store.
func (s *Store) Close() error { return nil }
