package web_test

import (
	"bytes"
	"context"
	"image"
	"image/color"
	"image/jpeg"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"golang.org/x/net/dns/dnsmessage"

	"pawl/ports/fetch/web"
)

// data is a file of the shared test data.
func data(t testing.TB, name string) []byte {
	t.Helper()
	dir := os.Getenv("PAWL_TESTDATA")
	if dir == "" {
		dir = "../../../../shared/data"
	}
	raw, err := os.ReadFile(filepath.Join(dir, name))
	if os.IsNotExist(err) {
		t.Skipf("no shared test data (set PAWL_TESTDATA): %v", err)
	} else if err != nil {
		t.Fatal(err)
	}
	return raw
}

// photo is a JPEG.
func photo(t testing.TB) []byte {
	t.Helper()
	m := image.NewRGBA(image.Rect(0, 0, 120, 90))
	for i := range 120 * 90 {
		m.Set(i%120, i/120, color.RGBA{byte(i), byte(i / 120), 90, 255})
	}
	var out bytes.Buffer
	if err := jpeg.Encode(&out, m, nil); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// site is a server on this machine, and a fetcher's Config with which it, and nothing else of this machine, may be reached.
func site(t *testing.T, h http.HandlerFunc) (url string, c web.Config) {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	at := netip.MustParseAddrPort(s.Listener.Addr().String())
	return s.URL, web.Config{Ports: []uint16{at.Port()}, Allow: []netip.Prefix{netip.PrefixFrom(at.Addr(), 32)}}
}

// named is a site's address under another name.
func named(url, host string) string { return strings.Replace(url, "127.0.0.1", host, 1) }

func serves(raw []byte, header ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.Write(raw)
	}
}

// names is a server of names: each leads to its addresses, one after the other with each time that it is looked up, and the last for
// good.
type names struct {
	mu    sync.Mutex
	leads map[string][]string
	asked map[string]int
}

// resolver asks it, over UDP as RFC 1035 has it.
func (n *names) resolver(t *testing.T) *net.Resolver {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	n.asked = map[string]int{}
	var served sync.WaitGroup
	served.Go(func() {
		buf := make([]byte, 1500)
		for {
			size, from, err := conn.ReadFrom(buf)
			if err != nil {
				return
			}
			if out := n.answer(buf[:size]); out != nil {
				_, _ = conn.WriteTo(out, from)
			}
		}
	})
	t.Cleanup(func() { conn.Close(); served.Wait() })
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp", conn.LocalAddr().String())
	}}
}

func (n *names) answer(raw []byte) []byte {
	var m dnsmessage.Message
	if m.Unpack(raw) != nil || len(m.Questions) != 1 {
		return nil
	}
	q := m.Questions[0]
	out := dnsmessage.Message{Header: dnsmessage.Header{ID: m.ID, Response: true, RecursionAvailable: true}, Questions: m.Questions}
	n.mu.Lock()
	defer n.mu.Unlock()
	name := strings.TrimSuffix(q.Name.String(), ".")
	leads := n.leads[name]
	if len(leads) == 0 {
		out.RCode = dnsmessage.RCodeNameError
	} else if q.Type == dnsmessage.TypeA {
		ip := netip.MustParseAddr(leads[min(n.asked[name], len(leads)-1)])
		n.asked[name]++
		out.Answers = []dnsmessage.Resource{{
			Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class}, Body: &dnsmessage.AResource{A: ip.As4()},
		}}
	}
	reply, err := out.Pack()
	if err != nil {
		return nil
	}
	return reply
}

func (n *names) times(name string) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.asked[name]
}

func length(raw []byte) string { return strconv.Itoa(len(raw)) }
