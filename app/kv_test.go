package app

import (
	"context"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"pawl/internal/picture"
	"pawl/ports/faces"
	"pawl/ports/kv"
)

// outside is what a workflow got of the outside world with some settings, and the line of doctor about it.
type outside struct {
	kv        kv.Store
	kvErr     error
	faces     faces.Recognizer
	facesErr  error
	out, line string
}

func openOutside(t *testing.T, code int, about string, env ...string) (got outside) {
	t.Helper()
	s := newShell(t)
	w := Graph(hello())
	open := w.Open
	w.Open = func(ctx context.Context, o Opening) (*Opened, error) {
		got.kv, got.kvErr = o.KV(ctx)
		got.faces, got.facesErr = o.Recognizer(ctx)
		return open(ctx, o)
	}
	s.ws, s.env = []Workflow{w}, append(s.env, env...)
	told := s.want(code, "doctor")
	got.out = told.out + told.err
	for l := range strings.Lines(told.out) {
		if f := strings.Fields(l); len(f) > 1 && f[1] == about {
			got.line = l
		}
	}
	if got.kv != nil {
		t.Cleanup(func() { _ = got.kv.Close() })
	}
	return got
}

// TestKV: which store a workflow gets, that what doctor says tells no secret, and that one in a file holds what was put.
func TestKV(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "values.db")
	for _, c := range []struct {
		store, token, name, doctor string
		code                       int
	}{
		{"", "", "", "(none)", 0},
		{"memory", "", "memory", "memory", 0},
		{"sqlite:" + path, "", "sqlite", "sqlite", 0},
		{"sqlite", "", "sqlite", "sqlite", 0},
		{"redis://ann:hunter2@127.0.0.1:1/3", "", "redis", "redis", 0},
		{"rediss://ann:hunter2@127.0.0.1:1/3", "", "redis", "redis", 0},
		{"cloudflare:abc/def", "hunter2", "cloudflare", "cloudflare", 0},
		{"cloudflare:abc/def", "", "", "PAWL_KV_TOKEN", exitUnavailable},
		{"cloudflare:abc", "hunter2", "", "cloudflare:ACCOUNT/NAMESPACE", exitUnavailable},
		{"memory:x", "", "", "nothing after it", exitUnavailable},
		{"redis://ann:hunter2@h/none", "", "", "address of a Redis", exitUnavailable},
		{"memcached://ann:hunter2@h", "", "", `there is no "memcached://ann:****@h"`, exitUnavailable},
	} {
		got := openOutside(t, c.code, "kv", "PAWL_KV_STORE="+c.store, "PAWL_KV_TOKEN="+c.token)
		if !strings.Contains(got.line, c.doctor) || strings.Contains(got.out, "hunter2") {
			t.Errorf("%s: doctor says %s\n%s", c.store, got.line, got.out)
		}
		if (got.kv == nil) != (c.name == "") || got.kv != nil && got.kv.Name() != c.name || (got.kvErr != nil) != (c.code != 0) {
			t.Errorf("%s: %v, %v", c.store, got.kv, got.kvErr)
		}
		if c.name != "memory" && c.name != "sqlite" {
			continue
		}
		if err := got.kv.Put(t.Context(), "k", []byte("v"), time.Hour); err != nil {
			t.Error(err)
		}
		if v, ok, err := got.kv.Get(t.Context(), "k"); err != nil || !ok || string(v) != "v" {
			t.Errorf("%s: %q, %v, %v", c.store, v, ok, err)
		}
	}
	if _, err := os.Stat(path); err != nil {
		t.Error(err)
	}
}

// TestRecognizer: which recognizer a workflow gets.
func TestRecognizer(t *testing.T) {
	t.Setenv("AWS_REGION", "") // found by the SDK itself, in the real environment
	t.Setenv("AWS_DEFAULT_REGION", "")
	t.Setenv("AWS_PROFILE", "")
	t.Setenv("AWS_CONFIG_FILE", filepath.Join(t.TempDir(), "config"))
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", filepath.Join(t.TempDir(), "credentials"))
	for _, c := range []struct {
		source, region, name, doctor string
		code                         int
	}{
		{"", "", "", "(none)", 0},
		{"rekognition", "eu-central-1", "rekognition", "rekognition", 0},
		{"rekognition", "", "", "no region", exitUnavailable},
		{"recognition", "", "", "rekognition", exitUnavailable},
	} {
		got := openOutside(t, c.code, "faces", "PAWL_FACES_SOURCE="+c.source, "PAWL_FACES_REGION="+c.region)
		if !strings.Contains(got.line, c.doctor) {
			t.Errorf("%s: doctor says %s\n%s", c.source, got.line, got.out)
		}
		if (got.faces == nil) != (c.name == "") || got.faces != nil && got.faces.Name() != c.name || (got.facesErr != nil) != (c.code != 0) {
			t.Errorf("%s: %v, %v", c.source, got.faces, got.facesErr)
		}
	}
}

// TestOneRoom: fetched pictures and those that are made to fit a recognizer are decoded in one room.
func TestOneRoom(t *testing.T) {
	t.Parallel()
	room := picture.NewRoom(1 << 20)
	o := Opening{conf: &config{settings: []*setting{{key: "faces.source", value: "rekognition"}, {key: "faces.region", value: "us-east-1"}}, room: room}}
	r, err := o.Recognizer(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if p := reflect.ValueOf(r).Elem().FieldByName("room").Pointer(); o.Fetcher().Room != room || p != reflect.ValueOf(room).Pointer() {
		t.Error("a room of its own")
	}
}

// TestOutsideFile: the file has their settings in objects of their own.
func TestOutsideFile(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	file := filepath.Join(s.dir, "c.json")
	text := `{"kv":{"store":"cloudflare:abc/def","token":"hunter2"},"faces":{"source":"rekognition","region":"eu-central-1"}}`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s.ws = []Workflow{Graph(hello())}
	got := s.want(0, "doctor", "--config", file)
	if !strings.Contains(strings.Join(strings.Fields(got.out), " "), "outside readers cloudflare") || !strings.Contains(got.out, "eu-central-1") || strings.Contains(got.out+got.err, "hunter2") {
		t.Errorf("%s", got.out)
	}
}
