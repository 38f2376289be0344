package web_test

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/csv"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"path"
	"strings"
	"testing"
	"time"

	"pawl"
	"pawl/internal/picture"
	"pawl/ports/fetch"
	"pawl/ports/fetch/fetchtest"
	"pawl/ports/fetch/web"
)

// webp is a picture of one pixel.
const webp = "UklGRhoAAABXRUJQVlA4TA0AAAAvAAAAEAcQERGIiP4HAA=="

const page = "<!DOCTYPE html><html><body>No.</body></html>"

func TestLaw(t *testing.T) {
	t.Parallel()
	fetchtest.Run(t, func(t *testing.T, outcome string) (fetch.Fetcher, string) {
		raw := photo(t)
		at, c := site(t, func(w http.ResponseWriter, r *http.Request) {
			switch outcome {
			case fetchtest.WebP:
				raw, _ := base64.StdEncoding.DecodeString(webp)
				serves(raw, "Content-Type", "image/jpeg")(w, r) // which is not so
			case fetchtest.NotFound:
				http.NotFound(w, r)
			case fetchtest.Forbidden:
				w.Header().Set("Content-Type", "text/html")
				w.WriteHeader(403)
				fmt.Fprint(w, page)
			case fetchtest.Page:
				serves([]byte(page), "Content-Type", "image/jpeg")(w, r)
			case fetchtest.Timeout:
				<-r.Context().Done()
			case fetchtest.RedirectLoop:
				http.Redirect(w, r, "/again", http.StatusFound)
			case fetchtest.TooLarge:
				serves(make([]byte, 11<<20), "Content-Type", "image/jpeg")(w, r)
			case fetchtest.Corrupt:
				serves(append(raw[:200:200], make([]byte, 100)...), "Content-Type", "image/jpeg")(w, r)
			default:
				serves(raw)(w, r)
			}
		})
		if outcome == fetchtest.Timeout {
			c.Connect = 200 * time.Millisecond
		}
		return web.New(c), at + "/p.jpg?token=secret"
	})
}

// TestCodes: what is wrong with a picture is told in the port's words.
func TestCodes(t *testing.T) {
	t.Parallel()
	for _, c := range [][2]string{
		{picture.CodeEmpty, fetch.CodeEmpty}, {picture.CodePage, fetch.CodePage}, {picture.CodeType, fetch.CodeType}, {picture.CodeCorrupt, fetch.CodeCorrupt},
		{picture.CodePixels, fetch.CodePixels}, {picture.CodeTooLarge, fetch.CodeTooLarge}, {picture.CodeTooSmall, fetch.CodeTooSmall},
	} {
		if c[0] != c[1] {
			t.Errorf("%q here and %q there", c[0], c[1])
		}
	}
}

// TestManifest: every shared picture has over HTTP the outcome that its manifest says, also where the server says that all are JPEGs.
func TestManifest(t *testing.T) {
	t.Parallel()
	rows, err := csv.NewReader(bytes.NewReader(data(t, "images/manifest.csv"))).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	dir := os.Getenv("PAWL_TESTDATA")
	if dir == "" {
		dir = "../../../../shared/data"
	}
	at, c := site(t, func(w http.ResponseWriter, r *http.Request) {
		serves(data(t, "images"+r.URL.Path), "Content-Type", "image/jpeg")(w, r)
	})
	c.MinSide = 64
	f := web.New(c)
	files, err := os.ReadDir(dir + "/images")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		for _, row := range rows[1:] {
			if ok, _ := path.Match(row[0], file.Name()); !ok || file.IsDir() {
				continue
			}
			got, err := f.Image(t.Context(), at+"/"+file.Name())
			want := ""
			for words, code := range map[string]string{
				"reject: empty": fetch.CodeEmpty, "html_instead_of_image": fetch.CodePage, "unsupported_type": fetch.CodeType, "reject: corrupt": fetch.CodeCorrupt,
				"too small": fetch.CodeTooSmall, "by header": fetch.CodePixels, "no fetch of the references": fetch.CodeType, "not decodable by": fetch.CodeType,
			} {
				if strings.Contains(row[2], words) {
					want = code
				}
			}
			if fetch.Code(err) != want || want == "" && (err != nil || got.Width == 0 || got.Partial != strings.Contains(row[1], "truncated")) {
				t.Errorf("%s: %dx%d, partial %v, %v, want %q", file.Name(), got.Width, got.Height, got.Partial, err, want)
			}
		}
	}
}

// TestAsks: what is sent says who asks, and nothing else of anybody.
func TestAsks(t *testing.T) {
	t.Parallel()
	var heard []http.Header
	at, c := site(t, func(w http.ResponseWriter, r *http.Request) {
		heard = append(heard, r.Header)
		http.SetCookie(w, &http.Cookie{Name: "a", Value: "b"})
		if r.URL.Path == "/from" {
			http.Redirect(w, r, "/to", http.StatusMovedPermanently)
			return
		}
		serves(photo(t))(w, r)
	})
	c.UserAgent = "some agent (someone@a.example)"
	f := web.New(c)
	for range 2 {
		got, err := f.Image(t.Context(), at+"/from?token=secret#part")
		if err != nil || got.URL != at+"/to" {
			t.Fatal(got.URL, err)
		}
	}
	for _, h := range heard {
		want := http.Header{"User-Agent": {c.UserAgent}, "Accept": {"image/jpeg, image/png, image/webp, image/gif"}, "Accept-Encoding": {"identity"}, "Connection": {"close"}}
		if fmt.Sprint(h) != fmt.Sprint(want) {
			t.Errorf("asked with %v, want %v", h, want)
		}
	}
	if len(heard) != 4 {
		t.Errorf("asked %d times", len(heard))
	}
}

// TestRedirects: each hop is held to the same as the first, and at most five are followed.
func TestRedirects(t *testing.T) {
	t.Parallel()
	inner := 0
	inside := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { inner++ }))
	t.Cleanup(inside.Close)
	to := ""
	at, c := site(t, func(w http.ResponseWriter, r *http.Request) {
		var left int
		switch n, _ := fmt.Sscanf(r.URL.Path, "/hops/%d", &left); {
		case n == 1 && left > 0:
			http.Redirect(w, r, fmt.Sprintf("/hops/%d", left-1), http.StatusTemporaryRedirect)
		case n == 1:
			serves(photo(t))(w, r)
		default:
			w.Header().Set("Location", to)
			w.WriteHeader(302)
		}
	})
	n := &names{leads: map[string][]string{"redir.test": {"127.0.0.1"}, "inside.test": {"127.0.0.2"}}}
	c.Resolver = n.resolver(t)
	c.Ports = append(c.Ports, 80, 443)
	f := web.New(c)
	for hops, code := range map[int]string{0: "", 5: "", 6: fetch.CodeRedirects, 11: fetch.CodeRedirects} {
		if _, err := f.Image(t.Context(), fmt.Sprintf("%s/hops/%d", named(at, "redir.test"), hops)); fetch.Code(err) != code || code == "" && err != nil {
			t.Errorf("%d hops: %v", hops, err)
		}
	}
	begin := time.Now()
	for _, to = range []string{
		"http://169.254.169.254/", "http://127.0.0.2/", "http://inside.test/", "http://[::1]/", "file:///etc/passwd", "http://user:pass@redir.test/", inside.URL,
		"//10.0.0.5/", `http:\\127.0.0.2\`, `/\127.0.0.2`, "http://redir.test:22/", "http://2130706433/", "javascript:alert(1)", "http://%31%32%37.0.0.2/",
	} {
		_, err := f.Image(t.Context(), named(at, "redir.test")+"/302-to-metadata")
		if _, again := pawl.Retryable(err); fetch.Code(err) != fetch.CodeBlocked || again {
			t.Errorf("to %s: %v (%s)", to, err, fetch.Code(err))
		}
		if err != nil && (strings.Contains(err.Error(), "127.0.0.2") || strings.Contains(err.Error(), "169.254") || strings.Contains(err.Error(), "inside")) {
			t.Errorf("to %s: the error tells where it led: %v", to, err)
		}
	}
	t.Logf("14 redirects that lead inside were refused in %s", time.Since(begin).Round(time.Millisecond))
	if inner != 0 {
		t.Errorf("the inside was asked %d times", inner)
	}
}

// TestGet: a document is told by its bytes, unpacked, and what was cut says so.
func TestGet(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("All work and no play. ", 1000)
	packed := zip(t, text)
	at, c := site(t, func(w http.ResponseWriter, r *http.Request) {
		h := map[string]http.HandlerFunc{
			"/page": serves([]byte(page), "Content-Type", "image/png"), "/text": serves([]byte(text)), "/photo": serves(photo(t), "Content-Type", "text/html"),
			"/packed": serves(packed, "Content-Encoding", "gzip"), "/packed/cut": serves(packed[:len(packed)-20], "Content-Encoding", "gzip"),
			"/packed/twice": serves(packed, "Content-Encoding", "gzip, gzip"), "/packed/bad": serves([]byte(text), "Content-Encoding", "gzip"),
			"/packed/empty": serves(nil, "Content-Encoding", "gzip"), "/brotli": serves(packed, "Content-Encoding", "br"),
			"/cut": serves([]byte(text[:5000]), "Content-Length", "22000"), "/empty": serves(nil),
		}[r.URL.Path]
		h(w, r)
	})
	f := web.New(c)
	for _, c := range []struct {
		path, kind, code string
		size             int
		partial          bool
	}{
		{path: "/page", kind: "text/html", size: len(page)},
		{path: "/text", kind: "text/plain", size: len(text)},
		{path: "/photo", kind: "image/jpeg", size: len(photo(t))},
		{path: "/packed", kind: "text/plain", size: len(text)},
		{path: "/packed/cut", kind: "text/plain", size: -1, partial: true},
		{path: "/packed/twice", code: fetch.CodeType},
		{path: "/packed/bad", code: fetch.CodeCorrupt},
		{path: "/packed/empty", kind: "text/plain"},
		{path: "/brotli", code: fetch.CodeType},
		{path: "/cut", kind: "text/plain", size: 5000, partial: true},
		{path: "/empty", kind: "text/plain"},
	} {
		got, err := f.Get(t.Context(), at+c.path)
		if fetch.Code(err) != c.code || c.code == "" && err != nil || got.Type != c.kind || c.size >= 0 && len(got.Bytes) != c.size || got.Partial != c.partial {
			t.Errorf("%s: %d bytes of %q, partial %v, %v", c.path, len(got.Bytes), got.Type, got.Partial, err)
		}
	}
}

func zip(t *testing.T, text string) []byte {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := w.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// TestPartial: a picture that broke off and can still be seen is one, and says so; one that cannot may come whole the next time.
func TestPartial(t *testing.T) {
	t.Parallel()
	whole := photo(t)
	var raw []byte
	at, c := site(t, func(w http.ResponseWriter, r *http.Request) { serves(raw, "Content-Length", length(whole))(w, r) })
	f := web.New(c)
	raw = whole[:len(whole)-2]
	if got, err := f.Image(t.Context(), at); err != nil || !got.Partial || !bytes.Equal(got.Bytes, raw) {
		t.Errorf("%+v, %v", got, err)
	}
	raw = whole[:len(whole)/2]
	_, err := f.Image(t.Context(), at)
	if _, again := pawl.Retryable(err); !again || fetch.Code(err) != pawl.CodeUnavailable {
		t.Errorf("%v (%s)", err, fetch.Code(err))
	}
}

// TestStatus: a source that wants to be left alone is, as long as it says.
func TestStatus(t *testing.T) {
	t.Parallel()
	at, c := site(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "120")
		w.WriteHeader(429)
	})
	_, err := web.New(c).Image(t.Context(), at+"/?token=secret")
	if after, again := pawl.Retryable(err); !again || after != 2*time.Minute || fetch.Code(err) != fetch.CodeRateLimited || err.Error() != at+"/: 429: Too Many Requests" {
		t.Errorf("%v after %s", err, after)
	}
}

// TestProxy: one that is configured is used, and one of the environment is not.
func TestProxy(t *testing.T) {
	var through []string
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		through = append(through, r.URL.String())
		serves(photo(t))(w, r)
	}))
	t.Cleanup(proxy.Close)
	t.Setenv("HTTP_PROXY", proxy.URL)
	at, c := site(t, serves(photo(t)))
	n := &names{leads: map[string][]string{"site.test": {"127.0.0.1"}}}
	c.Resolver = n.resolver(t)
	if _, err := web.New(c).Image(t.Context(), named(at, "site.test")); err != nil || len(through) > 0 {
		t.Errorf("%v, through the environment's proxy: %q", err, through)
	}
	c.Proxy, _ = url.Parse(proxy.URL)
	f := web.New(c)
	if _, err := f.Image(t.Context(), "http://elsewhere.test/p.jpg"); err != nil || len(through) != 1 || through[0] != "http://elsewhere.test/p.jpg" {
		t.Errorf("%v, through the proxy: %q", err, through)
	}
	if _, err := f.Image(t.Context(), "http://10.0.0.5/"); fetch.Code(err) != fetch.CodeBlocked || len(through) != 1 {
		t.Errorf("%v, through the proxy: %q", err, through)
	}
}

// TestTLS: a certificate that does not hold is none, and is not tried again.
func TestTLS(t *testing.T) {
	t.Parallel()
	s := httptest.NewTLSServer(serves(photo(t)))
	t.Cleanup(s.Close)
	at := netip.MustParseAddrPort(s.Listener.Addr().String())
	_, err := web.New(web.Config{Ports: []uint16{at.Port()}, Allow: []netip.Prefix{netip.PrefixFrom(at.Addr(), 32)}}).Image(t.Context(), s.URL)
	if _, again := pawl.Retryable(err); again || fetch.Code(err) != pawl.CodeInvalid || errors.Unwrap(err) == nil {
		t.Errorf("%v (%s)", err, fetch.Code(err))
	}
}
