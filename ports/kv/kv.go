// Package kv is the port to a store of small values that go away by themselves.
//
// It may never be a source of truth: a vendor may be late, and values are there for outside readers. It knows no query and no
// transaction.
//
// Start reading at Store and Failure; kvtest is the law that every vendor passes, memory, sqlite, redis and cloudflare are the vendors.
package kv

import (
	"context"
	"time"
)

// Store keeps values under keys until their time is over, safe for concurrent use. It makes one attempt and never retries; its
// errors are those of this package (see Failure). What Put takes and Get gives may be changed by whoever has it.
type Store interface {
	Name() string // "redis", for people and records
	// Put keeps a value for a time, in place of what is there and of its time.
	Put(ctx context.Context, key string, value []byte, ttl time.Duration) error
	// Get gives a value; false: there is none, or no longer.
	Get(ctx context.Context, key string) ([]byte, bool, error)
	// Delete takes a value away, if there is one.
	Delete(ctx context.Context, key string) error
	// Keys are those that begin so, in the order of their bytes.
	Keys(ctx context.Context, prefix string) ([]string, error)
	Close() error
}

// What every vendor takes. A key has printable characters and no white space, as UTF-8, and is not "." or "..": whoever makes keys of
// what people write escapes it (url.PathEscape).
const (
	MaxKey   = 512      // bytes
	MaxValue = 25 << 20 // bytes
	MinTTL   = time.Minute
	MaxTTL   = 10 * 365 * 24 * time.Hour
)
