package web

import (
	"net"
	"net/http"
	"net/netip"

	"code.dny.dev/ssrf"
)

// guarding says what may be dialed. 8080 is no port of it: services of the inside like it, and pictures of the public web do not stand there.
// Whoever needs it names it.
func guarding(ports []uint16, allow []netip.Prefix) *ssrf.Guardian {
	var v4, v6 []netip.Prefix
	for _, p := range allow {
		if p.Addr().Is4() {
			v4 = append(v4, p)
		} else {
			v6 = append(v6, p)
		}
	}
	// At an address of the public net, and yet inside: Azure's host tells a machine there of itself and of its network.
	// https://learn.microsoft.com/azure/virtual-network/what-is-ip-address-168-63-129-16
	azure := netip.MustParsePrefix("168.63.129.16/32")
	return ssrf.New(ssrf.WithDeniedV4Prefixes(azure), ssrf.WithPorts(ports...), ssrf.WithAllowedV4Prefixes(v4...), ssrf.WithAllowedV6Prefixes(v6...))
}

// dialer dials what a name has led to only after the guard has seen that very address: a name that leads somewhere else a moment
// later, or a redirect, is seen too.
func dialer(c Config, g *ssrf.Guardian) *net.Dialer {
	d := &net.Dialer{Timeout: c.Connect, Resolver: c.Resolver, Control: g.Safe}
	if c.Proxy != nil {
		d.Control = nil // only the proxy is dialed
	}
	return d
}

// transport keeps no connection for a next request, so that each is dialed and seen.
func transport(c Config, d *net.Dialer) *http.Transport {
	t := &http.Transport{
		DialContext: d.DialContext, TLSHandshakeTimeout: c.Connect, ResponseHeaderTimeout: c.Connect, MaxResponseHeaderBytes: maxHeader,
		DisableCompression: true, // it is unpacked where its bytes are counted
		DisableKeepAlives:  true,
		ForceAttemptHTTP2:  true,
	}
	if c.Proxy != nil {
		t.Proxy = http.ProxyURL(c.Proxy)
	}
	return t
}
