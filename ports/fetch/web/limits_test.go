package web_test

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"pawl"
	"pawl/ports/fetch"
	"pawl/ports/fetch/web"
)

// spent is how long something takes and how much memory it asks for, all in all.
func spent(do func()) (time.Duration, uint64) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	begin := time.Now()
	do()
	took := time.Since(begin)
	runtime.ReadMemStats(&after)
	return took, after.TotalAlloc - before.TotalAlloc
}

// stops fetches what does not end by itself.
func stops(t *testing.T, name string, f *web.Fetcher, url, code string, within time.Duration, memory uint64) {
	t.Helper()
	var err error
	took, used := spent(func() { _, err = f.Get(t.Context(), url) })
	if fetch.Code(err) != code || took > within || used > memory {
		t.Errorf("%s: %v (%s) after %s and %d MB", name, err, fetch.Code(err), took, used>>20)
	}
	t.Logf("%s: %v after %s and %.1f MB", name, err, took.Round(time.Millisecond), float64(used)/(1<<20))
}

// drip sends a byte now and then.
func drip(w http.ResponseWriter, r *http.Request) {
	for r.Context().Err() == nil {
		if _, err := w.Write([]byte("x")); err != nil {
			return
		}
		_ = http.NewResponseController(w).Flush()
		time.Sleep(20 * time.Millisecond) // that is how slow this server is
	}
}

// TestCase44Streams: what never ends, or ends in a thousand times of what came, stops within its limits.
func TestCase44Streams(t *testing.T) {
	var sent atomic.Int64
	bomb := data(t, "adversarial/gen_gzip_bomb_100MB.html.gz")
	at, c := site(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/10GB", "/10GB/told":
			if r.URL.Path == "/10GB/told" {
				w.Header().Set("Content-Length", fmt.Sprint(10<<30))
			}
			for piece := make([]byte, 64<<10); sent.Load() < 10<<30; {
				n, err := w.Write(piece)
				sent.Add(int64(n))
				if err != nil {
					return
				}
			}
		case "/bomb":
			serves(bomb, "Content-Encoding", "gzip")(w, r)
		case "/members": // of gzip, with nothing in them: much comes, and nothing out of it
			w.Header().Set("Content-Encoding", "gzip")
			for piece := bytes.Repeat(zip(t, ""), 1000); ; {
				if _, err := w.Write(piece); err != nil {
					return
				}
			}
		case "/drip":
			drip(w, r)
		case "/header":
			for i := range 100_000 {
				w.Header().Add("X-Flood", fmt.Sprint(i))
			}
		}
	})
	stops(t, "10 GB", web.New(c), at+"/10GB", fetch.CodeTooLarge, 5*time.Second, 120<<20)
	t.Logf("the server had sent %.1f MB", float64(sent.Load())/(1<<20))
	if sent.Load() > 40<<20 {
		t.Errorf("the server had sent %d bytes", sent.Load())
	}
	stops(t, "10 GB, as it says itself", web.New(c), at+"/10GB/told", fetch.CodeTooLarge, 5*time.Second, 10<<20)
	stops(t, "a bomb of 100 MB", web.New(c), at+"/bomb", fetch.CodeTooLarge, 5*time.Second, 10<<20)
	stops(t, "empty members", web.New(c), at+"/members", fetch.CodeTooLarge, 20*time.Second, 120<<20)
	stops(t, "a flood of headers", web.New(c), at+"/header", pawl.CodeUnavailable, 5*time.Second, 100<<20)
	stops(t, "a drip, as it is by default", web.New(c), at+"/drip", pawl.CodeTimeout, 8*time.Second, 10<<20)
	c.Pace, c.Total = time.Hour, time.Second
	stops(t, "a drip, and the whole time", web.New(c), at+"/drip", pawl.CodeTimeout, 3*time.Second, 10<<20)
}

// TestDefaults: what holds where nobody says anything.
func TestDefaults(t *testing.T) {
	t.Parallel()
	f := web.New(web.Config{})
	if f.Connect != 10*time.Second || f.Total != 30*time.Second || f.Pace != 5*time.Second || f.MaxBytes != 10<<20 || !slices.Equal(f.Ports, []uint16{80, 443}) ||
		f.Allow != nil || f.Proxy != nil || f.UserAgent == "" || f.Room == nil {
		t.Errorf("%+v", f.Config)
	}
}

// TestSilence: a server that takes the connection and says nothing, or says it slowly, is left.
func TestSilence(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() { // a header, a letter at a time
				defer conn.Close()
				if _, err := http.ReadRequest(bufio.NewReader(conn)); err != nil {
					return
				}
				for _, b := range []byte("HTTP/1.1 200 OK\r\nX-Long: " + strings.Repeat("a", 10_000)) {
					if _, err := conn.Write([]byte{b}); err != nil {
						return
					}
					time.Sleep(20 * time.Millisecond) // that is how slow this server is
				}
			}()
		}
	}()
	at := netip.MustParseAddrPort(l.Addr().String())
	f := web.New(web.Config{Ports: []uint16{at.Port()}, Allow: []netip.Prefix{netip.PrefixFrom(at.Addr(), 32)}, Connect: 300 * time.Millisecond})
	stops(t, "a header that drips", f, "http://"+at.String(), pawl.CodeTimeout, 5*time.Second, 1<<30)
}
