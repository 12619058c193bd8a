package kafkaconn

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
)

// server gives answers in order, the last one again and again, and counts what it is asked.
func server(t *testing.T, answers ...string) (url string, asked *atomic.Int64) {
	t.Helper()
	asked = &atomic.Int64{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		answer := answers[min(int(asked.Add(1)), len(answers))-1]
		status := http.StatusOK
		if _, err := fmt.Sscanf(answer, "%d ", &status); err == nil {
			answer = answer[4:]
		}
		w.Header().Set("Location", "https://elsewhere.invalid/")
		w.WriteHeader(status)
		fmt.Fprint(w, answer)
	}))
	t.Cleanup(s.Close)
	return s.URL, asked
}

func open(t *testing.T, c OAuth) *bearer {
	t.Helper()
	b, err := newBearer(c)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// The first message is that of RFC 7628, with the extensions of KIP-342.
func TestBearerSays(t *testing.T) {
	url, _ := server(t, `{"access_token": "abc.def", "expires_in": 60}`)
	_, message, err := open(t, OAuth{TokenURL: url, ClientID: "c", ClientSecret: "s", Extensions: []string{"pool=p-1", "cluster=lkc=2"}}).Start(t.Context())
	if want := "n,,\x01auth=Bearer abc.def\x01pool=p-1\x01cluster=lkc=2\x01\x01"; err != nil || string(message) != want {
		t.Errorf("%q, %v, want %q", message, err, want)
	}
}

// One request serves all connections until four fifths of the token's time are over. While no new token can be had,
// the old one is used to its end.
func TestTokenIsShared(t *testing.T) {
	url, asked := server(t, `{"access_token": "first", "expires_in": 3600}`, "503 later", `{"access_token": "second", "expires_in": 3600}`)
	b := open(t, OAuth{TokenURL: url, ClientID: "c", ClientSecret: "s"})
	all := func(want string) {
		t.Helper()
		var group sync.WaitGroup
		for range 8 {
			group.Go(func() {
				if got, err := b.current(t.Context()); err != nil || got.text != want {
					t.Errorf("%+v, %v, want %s", got, err, want)
				}
			})
		}
		group.Wait()
	}
	age := func(d time.Duration) {
		old := *b.token.Load()
		b.token.Store(&token{old.text, old.asked.Add(-d), old.renew.Add(-d), old.expires.Add(-d)})
	}
	all("first")
	age(47 * time.Minute)
	all("first")
	if n := asked.Load(); n != 1 {
		t.Errorf("%d requests", n)
	}
	age(2 * time.Minute)
	if got, err := b.current(t.Context()); err != nil || got.text != "first" {
		t.Errorf("while the server is away: %+v, %v", got, err)
	}
	all("second")
}

// What the server answers is passed on; what may pass is tried again.
func TestNoToken(t *testing.T) {
	for answer, c := range map[string]struct {
		says   string
		passes bool
	}{
		`401 {"error": "invalid_client", "error_description": "no such client"}`: {"401 Unauthorized: invalid_client no such client", false},
		`401 {"error": "invalid_client", "error_description": "not topsecret"}`:  {"401 Unauthorized: invalid_client not ********", false},
		"503 <html>": {"503 Service Unavailable", true},
		"429 {}":     {"429 Too Many Requests", true},
		"302 ":       {"302 Found", false},
		"not JSON":   {"does not parse", false},
		"{}":         {"has no access_token", false},
		`{"access_token": "a\u0001auth=Bearer b"}`: {"has no access_token", false},
	} {
		url, _ := server(t, answer)
		_, _, err := open(t, OAuth{TokenURL: url, ClientID: "c", ClientSecret: "topsecret"}).Start(t.Context())
		if err == nil || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), "check kafka.sasl.oauth") || strings.Contains(err.Error(), "topsecret") {
			t.Errorf("%s: %v", answer, err)
		}
		if passes(err) != c.passes {
			t.Errorf("%s: passes is %v", answer, passes(err))
		}
	}
}

// passes reports whether callers try again after err.
func passes(err error) bool {
	var network net.Error
	return errors.As(err, &network) && network.Timeout() && !errors.As(err, new(kafka.Error))
}

// Servers write the end of a token in whole seconds, and say its time from now.
func TestTokenIsRenewedInTime(t *testing.T) {
	for says, want := range map[string]time.Duration{"3600": 48 * time.Minute, "10": 8 * time.Second, "3": 2 * time.Second, "1.5": time.Second / 2} {
		asked := time.Now()
		got, err := newToken(http.StatusOK, []byte(`{"access_token": "x", "expires_in": `+says+`}`), asked)
		if err != nil || got.renew.Sub(asked) != want {
			t.Errorf("after %s s: %+v, %v, want %v", says, got, err, want)
		}
	}
}

func TestBearerRefuses(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty.pem")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for says, c := range map[string]OAuth{
		"token_url is not https":     {},
		"is not https://HOST/PATH":   {TokenURL: "ldap://a/b"},
		"has a user in it":           {TokenURL: "https://u:p@a/b"},
		"more than an address":       {TokenURL: "https://a/b?key=p"},
		"is not NAME=VALUE":          {TokenURL: "https://a", Extensions: []string{"cluster"}},
		`"auth=x" is not NAME=VALUE`: {TokenURL: "https://a", Extensions: []string{"auth=x"}},
		"no PEM certificate":         {TokenURL: "https://a", CAFile: empty},
	} {
		if _, err := newBearer(c); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%+v: %v, want %q", c, err, says)
		}
	}
}
