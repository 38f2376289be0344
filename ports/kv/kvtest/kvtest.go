// Package kvtest is the law of stores of values that go away.
//
// It may never know one vendor, or how a failure comes about: a vendor's tests stage it. Every case says why it is a law.
//
// Start reading at Run.
package kvtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pawl"
	"pawl/ports/kv"
)

// Bench is how a vendor's tests run its store.
type Bench struct {
	// Open opens an empty store.
	Open func(t *testing.T) kv.Store
	// Pass lets time pass for all values of the store that was opened last.
	Pass func(t *testing.T, d time.Duration)
	// Fail are stores that fail, by the code that every call then has, or the code and a word more.
	Fail map[string]func(t *testing.T) kv.Store
	// Secret is what no error may tell.
	Secret string
}

// Run holds a vendor to the law.
func Run(t *testing.T, b Bench) {
	for _, c := range []struct {
		name, why string
		law       func(*testing.T, Bench)
	}{
		{"put and get", "what was put is there, until it is taken away", putAndGet},
		{"values are bytes", "no byte is syntax, and none is lost", valuesAreBytes},
		{"keys are text", "no character is syntax", keysAreText},
		{"keys begin so", "a prefix is text too, and readers go through keys in order", prefixes},
		{"many keys", "a list that comes in pages is a whole list", manyKeys},
		{"goes away", "a value is gone after its time, and not before", goesAway},
		{"overwritten", "whoever writes again means the new value and its time", overwritten},
		{"limits", "what one vendor would not take no vendor takes: another one may be configured tomorrow", limits},
		{"own bytes", "a store shares no memory with whoever uses it", ownBytes},
		{"concurrent", "many may use a store at once, and no value is a mix of two", concurrent},
		{"cancelled", "whoever cancels wants no other error", cancelled},
		{"deadline", "a call whose time is up says so", deadline},
		{"failures", "each failure has its code, which says whether another attempt could help", failures},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.law(t, b)
			if t.Failed() {
				t.Log("law:", c.why)
			}
		})
	}
}

const hour = time.Hour

// put puts a value that has to be taken.
func put(t *testing.T, s kv.Store, key, value string, ttl time.Duration) {
	t.Helper()
	if err := s.Put(t.Context(), key, []byte(value), ttl); err != nil {
		t.Fatalf("put %q: %v", key, err)
	}
}

// is checks what a key holds.
func is(t *testing.T, s kv.Store, key, want string) {
	t.Helper()
	if got, ok, err := s.Get(t.Context(), key); err != nil || !ok || string(got) != want {
		t.Errorf("%.80q holds %.80q (%d bytes), %v, %v; want %.80q", key, got, len(got), ok, err, want)
	}
}

// gone checks that a key holds nothing.
func gone(t *testing.T, s kv.Store, key string) {
	t.Helper()
	if got, ok, err := s.Get(t.Context(), key); err != nil || ok || got != nil {
		t.Errorf("%.80q holds %.80q, %v, %v", key, got, ok, err)
	}
}

// keys checks what keys begin so.
func keys(t *testing.T, s kv.Store, prefix string, want ...string) {
	t.Helper()
	if got, err := s.Keys(t.Context(), prefix); err != nil || !slices.Equal(got, want) {
		t.Errorf("keys of %.80q: %.300q, %v; want %.300q", prefix, got, err, want)
	}
}

func putAndGet(t *testing.T, b Bench) {
	s := b.Open(t)
	if s.Name() == "" {
		t.Error("it has no name")
	}
	gone(t, s, "a")
	keys(t, s, "")
	put(t, s, "a", "one", hour)
	put(t, s, "b", "two", hour)
	is(t, s, "a", "one")
	is(t, s, "b", "two")
	gone(t, s, "A")
	for range 2 { // what is not there may be taken away too
		if err := s.Delete(t.Context(), "a"); err != nil {
			t.Error(err)
		}
		gone(t, s, "a")
	}
	keys(t, s, "", "b")
}

func valuesAreBytes(t *testing.T, b Bench) {
	s := b.Open(t)
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	for i, value := range []string{
		"", "\x00", string(all), "null", `{"result":null,"success":false,"errors":[{"code":10009}]}`, "nil", "+OK\r\n$-1\r\n", "\r\n", "<html>",
		" white space \t\n", "\xEF\xBB\xBFmark", "\xff\xfe", strings.Repeat("\x00\xff", 1<<20),
	} {
		key := fmt.Sprint("value-", i)
		put(t, s, key, value, hour)
		is(t, s, key, value)
	}
}

// texts are keys that something could take for syntax.
func texts() []string {
	all := []string{
		"vd:session:run:edge:Marie%20Curie:Niels%20Bohr", "a+b", "a%2Fb", "a/b", "a//b", "/a", "a/", "a/..", "../a", "a/./b", "...",
		`a\b`, `a"b`, "a'b", "a`b", "a?b=c", "a#b", "a&b", "a=b", "a;b", "a,b", "a*b", "a[b]c", "a[^b]", "a{b}", "a|b", "a~b", "a_b", "a%b", "%", "%zz",
		"é", "e\u0301", "\u0301", "日本語", "\U0001F9ED", "\uFFFD", "ﷺ", "\U0002F9F4", "NULL", "null", "!", "@", "$1", "<a>", "^", ":", "-1", "(a)",
		"SELECT/**/1;--", "{tag}a", "true", "0", strings.Repeat("k", kv.MaxKey), strings.Repeat("é", kv.MaxKey/2),
	}
	slices.Sort(all)
	return all
}

func keysAreText(t *testing.T, b Bench) {
	s := b.Open(t)
	for _, key := range texts() {
		put(t, s, key, "value of "+key, hour)
	}
	for _, key := range texts() {
		is(t, s, key, "value of "+key)
	}
	keys(t, s, "", texts()...)
	for _, key := range texts() {
		if err := s.Delete(t.Context(), key); err != nil {
			t.Errorf("%q: %v", key, err)
		}
		gone(t, s, key)
	}
	keys(t, s, "")
}

func prefixes(t *testing.T, b Bench) {
	s := b.Open(t)
	for _, key := range texts() {
		put(t, s, key, "x", hour)
	}
	for _, prefix := range append(texts(), "a", "a[", "[", "*", "?", "vd:", "nothing-begins-so", "a/.", ".", "..", "") {
		var want []string
		for _, key := range texts() {
			if strings.HasPrefix(key, prefix) {
				want = append(want, key)
			}
		}
		keys(t, s, prefix, want...)
	}
	for _, prefix := range []string{strings.Repeat("k", kv.MaxKey+1), "\xff", "a b"} { // no key begins so
		if got, err := s.Keys(t.Context(), prefix); len(got) > 0 || kv.Code(err) != pawl.CodeInvalid {
			t.Errorf("%.40q: %q, %v", prefix, got, err)
		}
	}
}

func manyKeys(t *testing.T, b Bench) {
	s := b.Open(t)
	var want []string
	for i := range 1234 {
		want = append(want, fmt.Sprintf("many:%05d", i))
		put(t, s, want[i], "x", hour)
	}
	put(t, s, "few:1", "x", hour)
	keys(t, s, "many:", want...)
	keys(t, s, "few:", "few:1")
	keys(t, s, "many:0000", want[:10]...)
}

func goesAway(t *testing.T, b Bench) {
	s := b.Open(t)
	put(t, s, "short", "x", kv.MinTTL)
	put(t, s, "odd", "x", 90*time.Second+time.Nanosecond) // no vendor may round it down
	put(t, s, "long", "x", 10*time.Minute)
	put(t, s, "longest", "x", kv.MaxTTL)
	b.Pass(t, kv.MinTTL-time.Second)
	is(t, s, "short", "x")
	b.Pass(t, 2*time.Second)
	gone(t, s, "short")
	is(t, s, "odd", "x")
	keys(t, s, "", "long", "longest", "odd")
	b.Pass(t, 31*time.Second)
	gone(t, s, "odd")
	is(t, s, "long", "x")
	b.Pass(t, 10*time.Minute)
	gone(t, s, "long")
	keys(t, s, "", "longest")
	put(t, s, "short", "again", kv.MinTTL)
	is(t, s, "short", "again")
}

func overwritten(t *testing.T, b Bench) {
	s := b.Open(t)
	put(t, s, "longer", "old", kv.MinTTL)
	put(t, s, "shorter", "old", hour)
	b.Pass(t, 50*time.Second)
	put(t, s, "longer", "new", 2*kv.MinTTL)
	put(t, s, "shorter", "", kv.MinTTL)
	is(t, s, "longer", "new")
	is(t, s, "shorter", "")
	b.Pass(t, 70*time.Second)
	is(t, s, "longer", "new")
	gone(t, s, "shorter")
	b.Pass(t, 60*time.Second)
	gone(t, s, "longer")
}

func limits(t *testing.T, b Bench) {
	s := b.Open(t)
	invalid := func(what string, err error) {
		t.Helper()
		if _, again := pawl.Retryable(err); err == nil || kv.Code(err) != pawl.CodeInvalid || again {
			t.Errorf("%s: %v (tried again: %v)", what, err, again)
		} else if len(err.Error()) > 200 || !strings.HasPrefix(err.Error(), s.Name()+": ") {
			t.Errorf("%s: the error does not say who failed in one short line: %v", what, err)
		}
	}
	ctx := t.Context()
	for _, key := range []string{"", ".", "..", "\xff", "half\xe2\x82", "a b", "a\n", "\x00", "a\u00a0", "\u202Eabc", "\uFEFFa", "\x7f", strings.Repeat("k", kv.MaxKey+1), strings.Repeat("é", kv.MaxKey/2) + "k"} {
		invalid(fmt.Sprintf("put %.20q", key), s.Put(ctx, key, nil, hour))
		_, _, err := s.Get(ctx, key)
		invalid(fmt.Sprintf("get %.20q", key), err)
		invalid(fmt.Sprintf("delete %.20q", key), s.Delete(ctx, key))
	}
	for _, ttl := range []time.Duration{-hour, 0, time.Nanosecond, kv.MinTTL - 1, kv.MaxTTL + 1, 1<<63 - 1} {
		invalid("for "+ttl.String(), s.Put(ctx, "k", nil, ttl))
	}
	invalid("large", s.Put(ctx, "k", make([]byte, kv.MaxValue+1), hour))
	gone(t, s, "k")
	large := bytes.Repeat([]byte("0123456789abcde\n"), kv.MaxValue/16)
	put(t, s, "k", string(large), hour)
	if got, ok, err := s.Get(ctx, "k"); err != nil || !ok || !bytes.Equal(got, large) {
		t.Errorf("%d bytes, %v, %v", len(got), ok, err)
	}
}

func ownBytes(t *testing.T, b Bench) {
	s := b.Open(t)
	value := []byte("value")
	if err := s.Put(t.Context(), "k", value, hour); err != nil {
		t.Fatal(err)
	}
	clear(value)
	got, _, err := s.Get(t.Context(), "k")
	if err != nil {
		t.Fatal(err)
	}
	clear(got)
	is(t, s, "k", "value")
}

func concurrent(t *testing.T, b Bench) {
	s := b.Open(t)
	put(t, s, "shared", strings.Repeat("0", 5000), hour)
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			own := fmt.Sprint("own-", i)
			for n := range 10 {
				value := strings.Repeat(fmt.Sprint(n), 1000)
				if err := s.Put(t.Context(), own, []byte(value), hour); err != nil {
					t.Errorf("put: %v", err)
				}
				if got, ok, err := s.Get(t.Context(), own); err != nil || !ok || string(got) != value {
					t.Errorf("%.20q, %v, %v", got, ok, err)
				}
				if i == 0 {
					if err := s.Put(t.Context(), "shared", []byte(strings.Repeat(fmt.Sprint(n), 5000)), hour); err != nil {
						t.Errorf("put: %v", err)
					}
				}
				got, ok, err := s.Get(t.Context(), "shared")
				if err != nil || !ok || len(got) != 5000 || strings.Count(string(got), string(got[:1])) != 5000 {
					t.Errorf("%d bytes, %v, %v", len(got), ok, err)
				}
				if _, err := s.Keys(t.Context(), "own-"); err != nil {
					t.Errorf("keys: %v", err)
				}
			}
		})
	}
	all.Wait()
	keys(t, s, "own-", "own-0", "own-1", "own-2", "own-3", "own-4", "own-5", "own-6", "own-7")
}

// calls are all that can be asked of a store.
func calls(ctx context.Context, s kv.Store) map[string]error {
	_, _, get := s.Get(ctx, "k")
	_, list := s.Keys(ctx, "k")
	return map[string]error{"put": s.Put(ctx, "k", []byte("value"), hour), "get": get, "delete": s.Delete(ctx, "k"), "keys": list}
}

func cancelled(t *testing.T, b Bench) {
	s := b.Open(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for op, err := range calls(ctx, s) {
		if !errors.Is(err, context.Canceled) || kv.Code(err) != "" {
			t.Errorf("%s: %v", op, err)
		}
	}
	gone(t, s, "k")
}

func deadline(t *testing.T, b Bench) {
	s := b.Open(t)
	ctx, cancel := context.WithTimeout(t.Context(), -time.Second)
	defer cancel()
	for op, err := range calls(ctx, s) {
		if _, again := pawl.Retryable(err); kv.Code(err) != pawl.CodeTimeout || !again {
			t.Errorf("%s: %v (tried again: %v)", op, err, again)
		}
	}
	gone(t, s, "k")
}

func failures(t *testing.T, b Bench) {
	passing := []string{kv.CodeRateLimited, pawl.CodeTimeout, pawl.CodeUnavailable}
	for _, name := range slices.Sorted(maps.Keys(b.Fail)) {
		code, _, _ := strings.Cut(name, " ")
		t.Run(name, func(t *testing.T) {
			s := b.Fail[name](t)
			for op, err := range calls(t.Context(), s) {
				if err == nil || kv.Code(err) != code {
					t.Errorf("%s: code %q, want %q: %v", op, kv.Code(err), code, err)
					continue
				}
				if _, again := pawl.Retryable(err); again != slices.Contains(passing, code) {
					t.Errorf("%s: tried again: %v: %v", op, again, err)
				}
				text := err.Error()
				if !strings.HasPrefix(text, s.Name()+": "+op+": ") || strings.ContainsAny(text, "\n\r") || len(text) > 1000 {
					t.Errorf("%s: the error does not say who failed in one short line: %s", op, text)
				}
				for _, form := range []string{text, fmt.Sprintf("%+v", err), fmt.Sprintf("%#v", err)} {
					if b.Secret != "" && strings.Contains(form, b.Secret) {
						t.Errorf("%s: the error tells the secret: %s", op, form)
					}
				}
			}
		})
	}
}
