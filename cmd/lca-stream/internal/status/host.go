package status

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strings"
)

// hosts are the names under which the server answers. A foreign page can make a browser send a request to any address
// under a name of its own (DNS rebinding), and read the answer: the address is right, the name is not. This is no
// access control.
type hosts struct {
	loopback bool     // only this machine can ask
	names    []string // in lower case; "*": any
}

// private are endings of names that no outsider can have in the public DNS: this machine (RFC 6761), its
// network (RFC 6762, and .internal by ICANN's resolution of 2024), and a Kubernetes namespace's services.
var private = []string{".localhost", ".local", ".internal", ".svc"}

func newHosts(listen string, allowed []string) hosts {
	host, _, err := net.SplitHostPort(listen)
	if err != nil {
		host = listen
	}
	h := hosts{names: []string{"localhost", strings.ToLower(host)}}
	ip, err := netip.ParseAddr(host)
	h.loopback = err == nil && ip.IsLoopback() || host == "localhost"
	if name, err := os.Hostname(); err == nil && !h.loopback {
		h.names = append(h.names, strings.ToLower(name))
	}
	for _, name := range allowed {
		h.names = append(h.names, strings.TrimSuffix(strings.ToLower(name), "."))
	}
	return h
}

// allow reports whether a request to this host is answered. An address cannot be rebound: probes and scrapes by
// address pass. Browsers always send a host; a client that sends none is no browser.
func (h hosts) allow(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.ToLower(strings.Trim(host, "[]")), ".")
	if host == "" || slices.Contains(h.names, host) || slices.Contains(h.names, "*") {
		return true
	}
	if ip, err := netip.ParseAddr(host); err == nil {
		return ip.IsLoopback() || !h.loopback
	}
	if h.loopback {
		return strings.HasSuffix(host, private[0])
	}
	return !strings.Contains(host, ".") || slices.ContainsFunc(private, func(end string) bool { return strings.HasSuffix(host, end) })
}

// named refuses requests for a host that is not this server.
func named(h hosts, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !h.allow(r.Host) {
			http.Error(w, fmt.Sprintf("%.260q is no name of this server: ask by address, or add the name to http.allowed_hosts", r.Host), http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}
