package web

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/net/idna"
)

const maxURL = 8 << 10 // bytes

// written refuses what two readers of an address could read in two ways, before anybody reads it.
func written(raw string) error {
	switch {
	case len(raw) > maxURL:
		return blocked("the address is too long")
	case !utf8.ValidString(raw) || strings.ContainsFunc(raw, unicode.IsControl):
		return blocked("the address has control characters")
	case strings.Contains(raw, `\`):
		return blocked("the address has a backslash")
	}
	return nil
}

// address reads an address as it will be asked for, its host in punycode, and refuses what can be refused before a name is looked up.
// Review says what is odd about the host.
func (f *Fetcher) address(raw string) (at *url.URL, review string, err error) {
	if err := written(raw); err != nil {
		return nil, "", err
	}
	u, err := url.Parse(raw)
	switch {
	case err != nil:
		return nil, "", blocked("the address is none")
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, "", blocked("only http and https are fetched")
	case u.Host == "":
		return nil, "", blocked("the address names no host")
	case u.User != nil:
		return nil, "", blocked("the address has credentials")
	case strings.ContainsFunc(u.Path, unicode.IsControl) || strings.Contains(u.RawQuery, "%00"):
		return nil, "", blocked("the address has control characters")
	}
	port := u.Port()
	if n, err := strconv.ParseUint(port, 10, 16); port != "" && (err != nil || !slices.Contains(f.Ports, uint16(n))) {
		return nil, "", blocked("the port is none that is fetched from")
	}
	host, review, err := f.host(u.Hostname())
	if err != nil {
		return nil, "", err
	}
	switch {
	case port != "":
		u.Host = net.JoinHostPort(host, port)
	case strings.Contains(host, ":"):
		u.Host = "[" + host + "]"
	default:
		u.Host = host
	}
	u.Fragment, u.RawFragment = "", ""
	return u, review, nil
}

// host is a host as it is looked up.
func (f *Fetcher) host(name string) (ascii, review string, err error) {
	if ip, err := netip.ParseAddr(name); err == nil {
		if ip.Zone() != "" || f.guard.SafeAddr(ip) != nil {
			return "", "", blocked(notPublic)
		}
		return ip.String(), "", nil
	}
	ascii = strings.ToLower(name)
	if strings.Contains("."+ascii, ".xn--") || strings.ContainsFunc(name, func(r rune) bool { return r > unicode.MaxASCII }) {
		if ascii, err = idna.Lookup.ToASCII(name); err != nil {
			return "", "", blocked("the host's name is none")
		}
		seen, err := idna.Lookup.ToUnicode(ascii)
		if err != nil {
			return "", "", blocked("the host's name is none")
		}
		if odd := oddity(seen); odd != "" {
			review = fmt.Sprintf("the host %s %s", ascii, odd)
		}
		if ip, err := netip.ParseAddr(ascii); err == nil { // ⑨③.… are digits
			return f.host(ip.String())
		}
	}
	labels := strings.Split(strings.TrimSuffix(ascii, "."), ".")
	for _, label := range labels {
		if label == "" || len(label) > 63 || strings.ContainsFunc(label, func(r rune) bool {
			return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-' && r != '_'
		}) {
			return "", "", blocked("the host's name is none")
		}
	}
	if last := labels[len(labels)-1]; last[0] >= '0' && last[0] <= '9' { // 2130706433, 127.1, 0x7f.1: some read numbers as addresses
		return "", "", blocked("the host is a number")
	}
	return ascii, review, nil
}

// oddity says why a host's name may look like another: a label mixes alphabets that no language mixes, as
// https://www.unicode.org/reports/tr39/#Restriction_Level_Detection has it, has only letters of another that look like Latin ones, or
// seems to be over where it is not, for what looks like the / ? # : behind a host.
func oddity(name string) string {
	for label := range strings.SplitSeq(name, ".") {
		var scripts []string
		alike := true
		for _, r := range label {
			if r > unicode.MaxASCII && !strings.ContainsRune(lookalikes, r) {
				alike = false
			}
			if s := script(r); s != "" && !slices.Contains(scripts, s) {
				scripts = append(scripts, s)
			}
		}
		slices.Sort(scripts)
		switch {
		case strings.ContainsFunc(label, symbol) || strings.ContainsAny(label, separators) ||
			slices.Contains(scripts, "Latin") && strings.ContainsAny(label, strokes):
			return "has characters that may look like those behind a host"
		case len(scripts) > 1 && !mixable(scripts):
			return "mixes " + strings.Join(scripts, " and ")
		case alike && len(scripts) == 1 && scripts[0] != "Latin":
			return "looks Latin and is " + scripts[0]
		}
	}
	return ""
}

// lookalikes are the letters that look like those of Latin in most faces.
const lookalikes = "аԁеһіјӏорԛѕԝхусᴀοαρυν"

// symbol reports what no name of a host should have (RFC 5892), but for the dots that Catalan and Japanese write inside words.
func symbol(r rune) bool {
	return r > unicode.MaxASCII && !unicode.In(r, unicode.L, unicode.M, unicode.N, unicode.Cf) && r != '·' && r != '・'
}

// separators are the letters that look like / ? # : or !, and strokes those that do where nobody expects Chinese or Japanese.
const (
	separators = "ːʔʖǀǃ〳〵"
	strokes    = "丿丶ノ"
)

func script(r rune) string {
	if unicode.In(r, unicode.Common, unicode.Inherited) {
		return ""
	}
	for name, table := range unicode.Scripts {
		if unicode.Is(table, r) {
			return name
		}
	}
	return ""
}

// mixable says whether a language is written so.
func mixable(scripts []string) bool {
	return slices.ContainsFunc([]string{"Han Hiragana Katakana Latin", "Bopomofo Han Latin", "Han Hangul Latin"}, func(together string) bool {
		return !slices.ContainsFunc(scripts, func(s string) bool { return !slices.Contains(strings.Fields(together), s) })
	})
}
