package status

import (
	"net/http"
	"os"
	"strings"
	"testing"
)

// What a browser may be made to ask by a foreign page is refused, and what people and probes ask passes.
func TestHosts(t *testing.T) {
	own, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, listen string
		allowed      []string
		pass, refuse []string
	}{
		{"loopback", "127.0.0.1:8095", nil,
			[]string{"localhost", "localhost:8095", "LOCALHOST.", "127.0.0.1:8095", "127.0.0.2", "[::1]:8095", "[::1]", "page.localhost:8095", ""},
			[]string{"evil.example", "evil.example:8095", "127.0.0.1.evil.example", "localhost.evil.example", "10.0.0.7", "[fd00::7]:8095", "lca", "lca.local", "a]b", "evil.example:x:y"}},
		{"localhost by name", "localhost:0", nil, []string{"localhost:1", "127.0.0.1"}, []string{"evil.example", "lca"}},
		{"loopback behind a proxy", "127.0.0.1:8095", []string{"metrics.Example.org"}, []string{"metrics.example.org", "METRICS.example.org:443", "localhost"}, []string{"example.org", "a.metrics.example.org"}},
		{"everywhere", ":8095", nil,
			[]string{"10.0.0.7:8095", "[fd00::7]:8095", "127.0.0.1", own, "my-transform", "my-transform:8095", "my.streams.svc", "my.streams.svc.cluster.local:8095", "host.docker.internal", "localhost"},
			[]string{"evil.example", "svc.evil.example", "10.0.0.7.evil.example", "mysvc.example"}},
		{"an address by name", "lca.example.org:8095", nil, []string{"lca.example.org", "10.0.0.7"}, []string{"evil.example"}},
		{"any name, as chosen", "0.0.0.0:8095", []string{"*"}, []string{"evil.example", "10.0.0.7"}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newHosts(c.listen, c.allowed)
			for _, host := range c.pass {
				if !h.allow(host) {
					t.Errorf("%q is refused", host)
				}
			}
			for _, host := range c.refuse {
				if h.allow(host) {
					t.Errorf("%q passes", host)
				}
			}
		})
	}
}

// Every page of the server is behind the check, and the refusal says what to do.
func TestRebindingIsRefused(t *testing.T) {
	base := serve(t, busy(t), nil)
	for _, path := range []string{"/", "/ping", "/ready", "/metrics", "/api/v1/status", "/api/v1/strangest", "/api/v1/snapshots/latest", "/debug/config"} {
		req, err := http.NewRequest(http.MethodGet, base+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Host = "evil.example:8095"
		answer, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		text := new(strings.Builder)
		_ = answer.Write(text)
		_ = answer.Body.Close()
		if answer.StatusCode != http.StatusForbidden || !strings.Contains(text.String(), "http.allowed_hosts") || strings.Contains(text.String(), "lca_") {
			t.Errorf("%s as evil.example: %s", path, text)
		}
	}
}
