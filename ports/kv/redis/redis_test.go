package redis_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"pawl"
	"pawl/ports/kv"
	"pawl/ports/kv/kvtest"
	"pawl/ports/kv/redis"
)

const password = "canary/+9d7c5b3a"

// server is a real Redis, and a client beside the store's.
type server struct {
	socket string
	*goredis.Client
}

// start starts one, which ends with the test.
func start(t *testing.T, options ...string) *server {
	t.Helper()
	program, err := exec.LookPath("redis-server")
	if err != nil {
		t.Skip("not installed: redis-server")
	}
	dir, err := os.MkdirTemp("", "pawl-redis-") // the name of a socket has to be short
	if err != nil {
		t.Fatal(err)
	}
	s := &server{socket: filepath.Join(dir, "s")}
	cmd := exec.Command(program, append([]string{"--port", "0", "--unixsocket", s.socket, "--dir", dir, "--save", "", "--requirepass", password}, options...)...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s.Client = goredis.NewClient(&goredis.Options{Network: "unix", Addr: s.socket, Password: password})
	t.Cleanup(func() {
		_ = s.Client.Close()
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		_ = os.RemoveAll(dir)
	})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for s.Ping(ctx).Err() != nil {
		if ctx.Err() != nil {
			t.Fatal("the server does not answer")
		}
		time.Sleep(10 * time.Millisecond) // another process: nothing tells when it listens
	}
	return s
}

func open(t *testing.T, address string) *redis.Store {
	t.Helper()
	s, err := redis.Open(address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func (s *server) address() string { return "unix://:canary%2F+9d7c5b3a@" + s.socket }

// pass makes every key as much older.
func (s *server) pass(t *testing.T, d time.Duration) {
	t.Helper()
	for keys := s.Scan(t.Context(), 0, "*", 1000).Iterator(); keys.Next(t.Context()); {
		left, err := s.PTTL(t.Context(), keys.Val()).Result()
		if err == nil && left < 0 {
			err = fmt.Errorf("key %q has no end", keys.Val())
		}
		if err == nil {
			err = s.PExpire(t.Context(), keys.Val(), left-d).Err()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestLaw(t *testing.T) {
	s := start(t)
	// answers is a server that says one thing to everything.
	answers := func(says string) func(*testing.T) kv.Store {
		return func(t *testing.T) kv.Store {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = l.Close() })
			go func() {
				for {
					c, err := l.Accept()
					if err != nil {
						return
					}
					go func() {
						defer c.Close()
						for buf := make([]byte, 4096); ; {
							if n, err := c.Read(buf); err != nil || n == 0 || says == "" {
								return
							}
							_, _ = c.Write([]byte(says))
						}
					}()
				}
			}()
			return open(t, "redis://"+l.Addr().String()+"?protocol=2")
		}
	}
	kvtest.Run(t, kvtest.Bench{
		Open: func(t *testing.T) kv.Store {
			if err := s.FlushAll(t.Context()).Err(); err != nil {
				t.Fatal(err)
			}
			return open(t, s.address())
		},
		Pass:   s.pass,
		Secret: password,
		Fail: map[string]func(*testing.T) kv.Store{
			pawl.CodeForbidden + " password": func(t *testing.T) kv.Store { return open(t, "unix://:canary%2F+wrong@"+s.socket) },
			pawl.CodeForbidden + " none":     func(t *testing.T) kv.Store { return open(t, "unix://"+s.socket) },
			pawl.CodeForbidden + " user": func(t *testing.T) kv.Store {
				if err := s.Do(t.Context(), "ACL", "SETUSER", "nobody", "on", ">"+password, "-@all", "+auth", "+hello").Err(); err != nil {
					t.Fatal(err)
				}
				return open(t, "unix://nobody:canary%2F+9d7c5b3a@"+s.socket)
			},
			pawl.CodeUnavailable + " nobody": func(t *testing.T) kv.Store { return open(t, "unix://"+filepath.Join(t.TempDir(), "s")) },
			pawl.CodeUnavailable + " broken": answers(""),
			pawl.CodeUnavailable + " loads":  answers("-LOADING Redis is loading the dataset in memory\r\n"),
			pawl.CodeUnavailable + " many":   answers("-ERR max number of clients reached\r\n"),
			pawl.CodeInvalid + " command":    answers("-ERR unknown command\r\n"),
			pawl.CodeTimeout: func(t *testing.T) kv.Store {
				l, err := net.Listen("tcp", "127.0.0.1:0") // takes connections, and says nothing
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = l.Close() })
				return open(t, "redis://"+l.Addr().String()+"?read_timeout=30ms&protocol=2")
			},
		},
	})
}

// TestFull: a Redis without room says so, and another attempt would not help.
func TestFull(t *testing.T) {
	s := start(t, "--maxmemory", "3mb", "--maxmemory-policy", "noeviction")
	store := open(t, s.address())
	var err error
	for i := 0; err == nil && i < 100; i++ {
		err = store.Put(t.Context(), fmt.Sprint(i), make([]byte, 100_000), time.Hour)
	}
	if _, again := pawl.Retryable(err); kv.Code(err) != kv.CodeFull || again {
		t.Errorf("%v, tried again: %v", err, again)
	}
	if _, ok, err := store.Get(t.Context(), "0"); err != nil || !ok {
		t.Errorf("what was there before: %v, %v", ok, err)
	}
}

// TestStrangers: what others have in the same database is not touched, and not listed where it can be no value of ours.
func TestStrangers(t *testing.T) {
	s := start(t)
	ctx := t.Context()
	for _, err := range []error{s.LPush(ctx, "vd:list", "x").Err(), s.Set(ctx, "vd:with space", "x", 0).Err(), s.Set(ctx, "other", "x", 0).Err()} {
		if err != nil {
			t.Fatal(err)
		}
	}
	store := open(t, s.address())
	if err := store.Put(ctx, "vd:own", nil, time.Hour); err != nil {
		t.Fatal(err)
	}
	if keys, err := store.Keys(ctx, "vd:"); err != nil || strings.Join(keys, "|") != "vd:own" {
		t.Errorf("%q, %v", keys, err)
	}
	_, _, err := store.Get(ctx, "vd:list")
	if _, again := pawl.Retryable(err); kv.Code(err) != pawl.CodeConflict || again {
		t.Errorf("%v, tried again: %v", err, again)
	}
	if n, err := s.DBSize(ctx).Result(); err != nil || n != 4 {
		t.Errorf("%d keys, %v", n, err)
	}
}

// TestAddress: what is no address is refused without being told, for it may hold a password.
func TestAddress(t *testing.T) {
	for _, address := range []string{"", "localhost:6379", "http://:" + password + "@host", "redis://:" + password + "@host:port:", "redis://h/%zz" + password, "redis://h?" + password + "=1"} {
		if _, err := redis.Open(address); kv.Code(err) != pawl.CodeInvalid || strings.Contains(err.Error(), "canary") {
			t.Errorf("%q: %v", address, err)
		}
	}
}
