package web_test

import (
	"encoding/csv"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"testing"
	"unicode"

	"pawl"
	"pawl/ports/fetch"
	"pawl/ports/fetch/web"
)

// TestCase39SSRFThroughTheUsersURL: every address of the shared list gets its verdict. No name leads out of this machine: what may be
// reached is told by where the connection would have gone.
func TestCase39SSRFThroughTheUsersURL(t *testing.T) {
	rows, err := csv.NewReader(strings.NewReader(string(data(t, "adversarial/ssrf_urls.csv")))).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]int{}
	for _, row := range rows[1:] {
		raw, leads, verdict, why := row[0], row[1], row[2], row[3]
		seen[verdict]++
		n := &names{leads: map[string][]string{}}
		host := ""
		if u, err := url.Parse(raw); err == nil {
			host = u.Hostname()
		}
		if host == "exаmple.com" {
			host, leads = "xn--exmple-4nf.com", "93.184.216.34" // only under that name is it looked up
		}
		if _, err := netip.ParseAddr(leads); err == nil {
			n.leads[host] = []string{leads}
		}
		var reached []string
		f := web.New(web.Config{Resolver: n.resolver(t)})
		f.Stop(func(address string) { reached = append(reached, address) })
		at, review, _ := f.Address(raw)
		_, err := f.Image(t.Context(), raw)
		switch host {
		case "rebind.test", "redir.test":
			continue // TestRebinding, TestRedirects
		}
		switch verdict {
		case "allow":
			if !slices.Equal(reached, []string{"93.184.216.34:80"}) && !slices.Equal(reached, []string{"93.184.216.34:443"}) || review != "" {
				t.Errorf("%q (%s): reached %q, %v, %q", raw, why, reached, err, review)
			}
		case "review":
			if !slices.Equal(reached, []string{"93.184.216.34:80"}) || at != "http://xn--exmple-4nf.com/" || !strings.Contains(review, "Cyrillic and Latin") {
				t.Errorf("%q (%s): reached %q as %q, %v, %q", raw, why, reached, at, err, review)
			}
		case "block", "block_or_strip":
			if len(reached) > 0 || fetch.Code(err) != fetch.CodeBlocked {
				t.Errorf("%q (%s): reached %q, %v", raw, why, reached, err)
			}
			for _, inside := range []string{"127.0.0.1", "169.254", "loopback", "private", "prohibited", "denied"} {
				if err != nil && !strings.Contains(raw, inside) && strings.Contains(err.Error(), inside) {
					t.Errorf("%q: the error tells of the inside: %v", raw, err)
				}
			}
		default:
			t.Errorf("%q: what is %q?", raw, verdict)
		}
	}
	t.Logf("%v", seen)
}

// TestBlocked: what the shared list does not have.
func TestBlocked(t *testing.T) {
	t.Parallel()
	n := &names{leads: map[string][]string{}}
	f := web.New(web.Config{Resolver: n.resolver(t), Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.9/32")}})
	f.Stop(func(address string) { t.Errorf("reached %s", address) })
	for _, raw := range []string{
		"http://0177.0.0.1/", "http://0x7f.0.0.1/", "http://0x7f000001/", "http://127.0.0.1./", "http://①②⑦.⓪.⓪.①/", "http://127。0。0。1/", "http://0/",
		"http://[::]/", "http://[::127.0.0.1]/", "http://[::ffff:7f00:9]/", "http://[2002:7f00:1::]/", "http://[2001:db8::1]/", "http://[ff02::1]/",
		"http://255.255.255.255/", "http://0.0.0.0/", "http://168.63.129.16/", "http://[::ffff:168.63.129.16]/", "http://192.0.2.1/", "http://localhost/", "http://example.com:0/", "http://example.com:8080/",
		"http://example.com:99999/", "http://example.com:80:80/", "http://a b.example/", "http://exa%6dple.com:81/", "http://a..example/", "http://./",
		"http://" + strings.Repeat("a", 64) + ".example/", "http://example.com/?q=%00", "http://example.com/a%0d%0ab", "http://example.com/\u0085", "http://exam\u200Dple.com/",
		"http://example.com/" + strings.Repeat("a", 9000), "//example.com/", "http:example.com", "http:///", "https://@example.com/", "HTTP://[::1]/", "data:image/png;base64,AA==",
		"http://example.com/\xff", "ftp://example.com/", "http://xn--a/", "http://xn--\u00e4.example/", "http://unknown.test/", "http://＠example.com/", "http://[fe80::1]/",
	} {
		_, err := f.Image(t.Context(), raw)
		if _, again := pawl.Retryable(err); fetch.Code(err) != fetch.CodeBlocked || again {
			t.Errorf("%q: %v (%s)", raw, err, fetch.Code(err))
		}
	}
}

// TestInsideAtPublicAddress: what Azure answers from within has an address of the public net, and neither it nor a name leads there.
func TestInsideAtPublicAddress(t *testing.T) {
	t.Parallel()
	n := &names{leads: map[string][]string{"host.test": {"168.63.129.16"}, "next.test": {"168.63.129.17"}}}
	f := web.New(web.Config{Resolver: n.resolver(t)})
	var reached []string
	f.Stop(func(address string) { reached = append(reached, address) })
	for _, raw := range []string{"http://168.63.129.16/machine?comp=goalstate", "http://host.test/", "http://next.test/"} {
		_, err := f.Image(t.Context(), raw)
		if raw != "http://next.test/" && fetch.Code(err) != fetch.CodeBlocked {
			t.Errorf("%s: %v", raw, err)
		}
	}
	if !slices.Equal(reached, []string{"168.63.129.17:80"}) {
		t.Errorf("reached %q", reached)
	}
}

// TestNamesTellNothing: from the error nobody learns whether there is such a name inside.
func TestNamesTellNothing(t *testing.T) {
	t.Parallel()
	n := &names{leads: map[string][]string{"there.test": {"10.1.2.3"}}}
	f := web.New(web.Config{Resolver: n.resolver(t)})
	_, there := f.Image(t.Context(), "http://there.test/")
	_, gone := f.Image(t.Context(), "http://gone.test/")
	if there == nil || gone == nil || strings.ReplaceAll(there.Error(), "there.test", "gone.test") != gone.Error() || fetch.Code(there) != fetch.Code(gone) {
		t.Errorf("%v, but %v", there, gone)
	}
	if n.times("there.test") != 1 {
		t.Errorf("looked up %d times", n.times("there.test"))
	}
}

// TestRebinding: the address that is dialed decides, each time.
func TestRebinding(t *testing.T) {
	t.Parallel()
	n := &names{leads: map[string][]string{"rebind.test": {"93.184.216.34", "127.0.0.1"}}}
	f := web.New(web.Config{Resolver: n.resolver(t)})
	var reached []string
	f.Stop(func(address string) { reached = append(reached, address) })
	_, _ = f.Image(t.Context(), "http://rebind.test/")
	_, err := f.Image(t.Context(), "http://rebind.test/")
	if !slices.Equal(reached, []string{"93.184.216.34:80"}) || fetch.Code(err) != fetch.CodeBlocked || n.times("rebind.test") != 2 {
		t.Errorf("reached %q, %v, looked up %d times", reached, err, n.times("rebind.test"))
	}

	hits := 0
	at, c := site(t, func(w http.ResponseWriter, r *http.Request) { hits++; serves(photo(t))(w, r) })
	n = &names{leads: map[string][]string{"rebind.test": {"127.0.0.1", "127.0.0.2"}}}
	c.Resolver = n.resolver(t)
	f = web.New(c)
	if _, err := f.Image(t.Context(), named(at, "rebind.test")); err != nil {
		t.Error(err)
	}
	if _, err := f.Image(t.Context(), named(at, "rebind.test")); fetch.Code(err) != fetch.CodeBlocked || hits != 1 {
		t.Errorf("%v after %d hits", err, hits)
	}
}

// TestReview: a host that may look like another can be fetched from, in punycode, and the picture says so. Names that are only
// foreign say nothing.
func TestReview(t *testing.T) {
	t.Parallel()
	at, c := site(t, serves(photo(t)))
	n := &names{leads: map[string][]string{"xn--exmple-4nf.com": {"127.0.0.1"}}}
	c.Resolver = n.resolver(t)
	f := web.New(c)
	for _, raw := range []string{named(at, "exаmple.com"), named(at, "xn--exmple-4nf.com")} {
		got, err := f.Image(t.Context(), raw)
		if err != nil || got.Review != "the host xn--exmple-4nf.com mixes Cyrillic and Latin" || !strings.Contains(got.URL, "//xn--exmple-4nf.com:") {
			t.Errorf("%q: %q at %q, %v", raw, got.Review, got.URL, err)
		}
	}
	for host, odd := range map[string]bool{
		"bücher.example": false, "пример.example": false, "日本語カナ.example": false, "日本abc.example": false, "한국abc.example": false, "παράδειγμα.example": false,
		"example.com": false, "a_b.example": false, "аррӏе.com": true, "οαρ.example": true, "gооgle.com": true, "pаypal.example": true, "日本аб.example": true,
	} {
		_, review, err := f.Address("http://" + host + strings.TrimPrefix(at, "http://127.0.0.1") + "/")
		if err != nil || (review != "") != odd {
			t.Errorf("%s: %q, %v", host, review, err)
		}
	}
}

// TestSeparatorsInNames: a name that seems to be over where it is not is told, or refused; so nobody takes the host for another.
func TestSeparatorsInNames(t *testing.T) {
	t.Parallel()
	f := web.New(web.Config{})
	for _, r := range "⁄∕⧸⫽╱⟋／⧵∖？ʔʖ＃♯⌗：∶꞉ː։׃˸ǃǀ〳丿ノ" {
		host := "example.com" + string(r) + "a.evil.example"
		if at, review, err := f.Address("http://" + host + "/"); err == nil && !strings.Contains(review, "look like those behind a host") {
			t.Errorf("%U %s: %q, %q, %v", r, host, at, review, err)
		}
	}
	for _, host := range []string{"col·lecció.example", "ジョン・レノン.example", "ノート.example", "丿乀.example", "हिन्दी.example"} {
		if _, review, err := f.Address("http://" + host + "/"); review != "" {
			t.Errorf("%s: %q, %v", host, review, err)
		}
	}
}

// FuzzAddress: what is let through is http or https at a host that cannot be read in another way, and stays so when it is read again.
func FuzzAddress(f *testing.F) {
	for _, raw := range []string{
		"http://example.com/", "https://exаmple.com:443/a?b#c", "http://[2606:4700::1]/", "http://1.1.1.1/", "http://2130706433/", "http://a\\@b/", "http://a/%00", "http://①.②.③.④/",
		"http://example.com。/", "http://xn--exmple-4nf.com/", "http://a:b@c/", "javascript:alert(1)", "http://[::ffff:1.1.1.1]/", "http://[fe80::1%25eth0]/", "\n", "http://％41/",
	} {
		f.Add(raw)
	}
	web := web.New(web.Config{})
	f.Fuzz(func(t *testing.T, raw string) {
		at, review, err := web.Address(raw)
		if err != nil {
			return
		}
		u, err := url.Parse(at)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.User != nil || u.Host == "" || strings.ContainsFunc(at, unicode.IsControl) {
			t.Fatalf("%q: %q, %v", raw, at, err)
		}
		if p := u.Port(); p != "" && p != "80" && p != "443" {
			t.Fatalf("%q: port %q", raw, p)
		}
		if strings.ContainsFunc(u.Host, func(r rune) bool { return r > unicode.MaxASCII || strings.ContainsRune(`\@/?#% `, r) }) {
			t.Fatalf("%q: host %q", raw, u.Host)
		}
		again, odd, err := web.Address(at)
		if err != nil || again != at || odd != review {
			t.Fatalf("%q: %q, and read again %q, %v, %q and %q", raw, at, again, err, review, odd)
		}
	})
}
