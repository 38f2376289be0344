// Package cloudflare keeps values in a namespace of Cloudflare Workers KV, over its REST API.
//
// It is eventually consistent: what was written may be unseen for 60 seconds and more where it, or that it was missing, has been read
// before (https://developers.cloudflare.com/kv/concepts/how-kv-works), and lists are as late. One key takes one write a second; the
// free plan takes 1,000 writes and 1,000 lists a day (https://developers.cloudflare.com/kv/platform/limits). It may never hide any of
// this by waiting, retrying or remembering.
//
// Start reading at New.
package cloudflare

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"pawl"
	"pawl/internal/rest"
	"pawl/ports/kv"
)

// Config is one namespace. Account, Namespace and Token are needed.
type Config struct {
	URL       string // of the API; empty: Cloudflare's
	Account   string // its id
	Namespace string // its id
	Token     string // with the permission Workers KV Storage Write

	First, Silence time.Duration // until the first byte of an answer, and between its bytes; 0: 90 s, 30 s
	HTTP           *http.Client
}

const (
	name   = "cloudflare"
	ownURL = "https://api.cloudflare.com/client/v4"
)

// Store is a kv.Store.
type Store struct {
	rest *rest.Client
}

var _ kv.Store = (*Store)(nil)

// New is the store in a namespace. Nothing is asked for yet.
func New(c Config) *Store {
	return &Store{rest: &rest.Client{
		URL:     strings.TrimSuffix(cmp.Or(c.URL, ownURL), "/") + "/accounts/" + url.PathEscape(c.Account) + "/storage/kv/namespaces/" + url.PathEscape(c.Namespace),
		Header:  map[string]string{"Authorization": "Bearer " + c.Token},
		Secrets: []string{c.Token}, HTTP: c.HTTP, First: c.First, Silence: c.Silence,
		Most:    kv.MaxValue,
		Refuses: func(answer json.RawMessage) bool { return !envelopeOf(answer).Success },
	}}
}

// Name is "cloudflare".
func (s *Store) Name() string { return name }

func path(key string) string { return "/values/" + url.PathEscape(key) }

// Put keeps a value. Times are whole seconds there: a part of one counts as one.
func (s *Store) Put(ctx context.Context, key string, value []byte, ttl time.Duration) error {
	if err := kv.Check(name, key, value, ttl); err != nil {
		return err
	}
	seconds := int64((ttl + time.Second - 1) / time.Second)
	_, err := s.rest.Put(ctx, path(key), url.Values{"expiration_ttl": {strconv.FormatInt(seconds, 10)}}, value)
	return fault("put", err)
}

// Get gives a value, which may not be the last one that was put.
func (s *Store) Get(ctx context.Context, key string) ([]byte, bool, error) {
	if err := kv.CheckKey(name, "get", key); err != nil {
		return nil, false, err
	}
	value, err := s.rest.Bytes(ctx, path(key))
	if noKey(err) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, fault("get", err)
	}
	return value, true, nil
}

// Delete takes a value away.
func (s *Store) Delete(ctx context.Context, key string) error {
	if err := kv.CheckKey(name, "delete", key); err != nil {
		return err
	}
	_, err := s.rest.Delete(ctx, path(key))
	if noKey(err) {
		return nil
	}
	return fault("delete", err)
}

const (
	page      = 1000 // keys of one answer: the most there is
	mostPages = 1000
)

// Keys are those that begin so.
func (s *Store) Keys(ctx context.Context, prefix string) ([]string, error) {
	if err := kv.CheckPrefix(name, prefix); err != nil {
		return nil, err
	}
	var keys []string
	query := url.Values{"limit": {strconv.Itoa(page)}}
	if prefix != "" {
		query.Set("prefix", prefix)
	}
	for range mostPages {
		raw, err := s.rest.Get(ctx, "/keys", query)
		if err != nil {
			return nil, fault("keys", err)
		}
		cursor, err := listed(raw, prefix, &keys)
		if err != nil {
			return nil, fault("keys", err)
		}
		if cursor == "" {
			slices.Sort(keys)
			return slices.Compact(keys), nil
		}
		query.Set("cursor", cursor)
	}
	return nil, kv.Failure{Store: name, Op: "keys", Code: pawl.CodeExhausted, Text: fmt.Sprintf("the list has more than %d pages", mostPages), After: -1}.Fault()
}

// listed reads one page of a list.
func listed(raw json.RawMessage, prefix string, keys *[]string) (cursor string, err error) {
	var list struct {
		Result []struct {
			Name string `json:"name"`
		} `json:"result"`
		Info struct {
			Cursor string `json:"cursor"`
		} `json:"result_info"`
	}
	if err := json.Unmarshal(raw, &list); err != nil {
		return "", errors.New("the list has another form than is described")
	}
	for _, k := range list.Result {
		if k.Name == "" || !strings.HasPrefix(k.Name, prefix) {
			return "", fmt.Errorf("the list has %.100q, which does not begin with %.100q", k.Name, prefix)
		}
		*keys = append(*keys, k.Name)
	}
	return list.Info.Cursor, nil
}

// Close does nothing.
func (s *Store) Close() error { return nil }

// envelope is around every answer but a value.
type envelope struct {
	Success bool `json:"success"`
	Errors  []struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	} `json:"errors"`
}

func envelopeOf(body []byte) (e envelope) {
	if json.Unmarshal(body, &e) != nil {
		return envelope{}
	}
	return e
}

// noKey says whether an answer is that there is no such key: a namespace or an account that is not there answers 404 too.
func noKey(err error) bool {
	var e *rest.Error
	if !errors.As(err, &e) || e.Status != http.StatusNotFound {
		return false
	}
	said := envelopeOf(e.Body)
	return len(said.Errors) > 0 && said.Errors[0].Code == 10009
}

// meanings are what codes of errors mean where the status does not say it.
var meanings = map[int]string{
	10000: pawl.CodeForbidden, 9109: pawl.CodeForbidden, 6003: pawl.CodeForbidden, // no good token
	10048: kv.CodeQuota,                                                        // the free plan's operations of today
	10013: pawl.CodeNotFound, 7003: pawl.CodeNotFound, 7000: pawl.CodeNotFound, // no such namespace or account
	971: kv.CodeRateLimited, // the API's own limit
}

func fault(op string, err error) error {
	if err == nil {
		return nil
	}
	return kv.FaultOf(name, op, err, func(f *kv.Failure, body []byte) {
		said := envelopeOf(body)
		if len(said.Errors) == 0 {
			return
		}
		first := said.Errors[0]
		f.Text = fmt.Sprintf("%s (%d)", rest.Line(first.Message), first.Code)
		if code := meanings[first.Code]; code != "" {
			f.Code = code
		}
	})
}
