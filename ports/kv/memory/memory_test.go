package memory_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pawl"
	"pawl/ports/kv"
	"pawl/ports/kv/kvtest"
	"pawl/ports/kv/memory"
)

func TestLaw(t *testing.T) {
	now := time.Now()
	kvtest.Run(t, kvtest.Bench{
		Open: func(*testing.T) kv.Store { return memory.New(memory.Config{Now: func() time.Time { return now }}) },
		Pass: func(_ *testing.T, d time.Duration) { now = now.Add(d) },
	})
}

// TestBounds: a full store refuses, forgets nothing before its time, and has room again when time has passed.
func TestBounds(t *testing.T) {
	now := time.Now()
	for _, c := range []memory.Config{{MaxKeys: 3}, {MaxBytes: 30}} {
		c.Now = func() time.Time { return now }
		s := memory.New(c)
		put := func(key string, size int, ttl time.Duration) error {
			return s.Put(t.Context(), key, []byte(strings.Repeat("v", size)), ttl)
		}
		for i, ttl := range []time.Duration{time.Minute, time.Hour, time.Hour} {
			if err := put(fmt.Sprint(i), 9, ttl); err != nil {
				t.Fatal(err)
			}
		}
		err := put("3", 9, time.Hour)
		if _, again := pawl.Retryable(err); kv.Code(err) != kv.CodeFull || again {
			t.Errorf("%v, tried again: %v", err, again)
		}
		if err := put("1", 9, time.Hour); err != nil {
			t.Errorf("in place of itself: %v", err)
		}
		if keys, err := s.Keys(t.Context(), ""); err != nil || len(keys) != 3 {
			t.Error(keys, err)
		}
		now = now.Add(time.Minute)
		if err := put("3", 9, time.Hour); err != nil {
			t.Errorf("after one is over: %v", err)
		}
		if err := put("4", 9, time.Hour); kv.Code(err) != kv.CodeFull {
			t.Error(err)
		}
		if err := s.Delete(t.Context(), "3"); err != nil {
			t.Error(err)
		}
		if err := put("4", 9, time.Hour); err != nil {
			t.Errorf("after one was taken away: %v", err)
		}
	}
}
