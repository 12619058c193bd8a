package kafkaconn

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// show logs in with the current token, and returns what comes of it if the broker answers so; "" takes the token.
func show(t *testing.T, b *bearer, answer string) error {
	t.Helper()
	session, _, err := b.Start(t.Context())
	if err != nil {
		return err
	}
	done, _, err := session.Next(t.Context(), []byte(answer))
	if done != (err == nil) {
		t.Errorf("done is %v, %v", done, err)
	}
	return err
}

const invalid = `{"status":"invalid_token"}`

// age makes the current token, and what is known of earlier ones, older.
func (b *bearer) age(d time.Duration) {
	if old := b.token.Load(); old != nil {
		b.token.Store(&token{old.text, old.asked.Add(-d), old.renew.Add(-d), old.expires.Add(-d)})
	}
	b.record.next = b.record.next.Add(-d)
	if !b.record.trouble.IsZero() {
		b.record.trouble = b.record.trouble.Add(-d)
	}
}

// The first token decides whether the configuration is right, so its refusal is final. The broker's reason is passed on,
// and no token is shown again after it was refused.
func TestFirstTokenIsRefused(t *testing.T) {
	url, asked := server(t, `{"access_token": "x", "expires_in": 3600}`)
	b := open(t, OAuth{TokenURL: url, ClientID: "c", ClientSecret: "s"})
	err := show(t, b, invalid)
	if !errors.Is(err, kafka.SASLAuthenticationFailed) || !strings.Contains(err.Error(), "invalid_token") || passes(err) {
		t.Errorf("a token that is refused: %v", err)
	}
	b.age(time.Minute)
	if err := show(t, b, ""); err != nil || asked.Load() != 2 {
		t.Errorf("%v with %d tokens, want a new one after the refusal", err, asked.Load())
	}
}

// A process whose tokens were taken before logs in again with a new one, also if that is refused for a while.
func TestTakenTokenIsRefused(t *testing.T) {
	url, asked := server(t, `{"access_token": "x", "expires_in": 3600}`)
	b := open(t, OAuth{TokenURL: url, ClientID: "c", ClientSecret: "s"})
	if err := show(t, b, ""); err != nil {
		t.Fatal(err)
	}
	b.age(20 * time.Minute)
	if err := show(t, b, invalid); !passes(err) || !strings.Contains(err.Error(), "invalid_token") {
		t.Errorf("a token that was taken before: %v", err)
	}
	if err := show(t, b, invalid); !passes(err) || asked.Load() != 2 {
		t.Errorf("a new token, with brokers that do not know the server's new keys yet: %v with %d tokens", err, asked.Load())
	}
	b.age(refusedFor / 2)
	if err := show(t, b, ""); err != nil {
		t.Errorf("they know them: %v", err)
	}
	b.age(20 * time.Minute)
	for range 2 {
		if err := show(t, b, invalid); !passes(err) {
			t.Errorf("refused again, much later: %v", err)
		}
	}
	b.age(refusedFor)
	if err := show(t, b, invalid); passes(err) || !errors.Is(err, kafka.SASLAuthenticationFailed) {
		t.Errorf("refused for a minute: %v", err)
	}
}

// A broker that takes a token and refuses it at once, again and again, gets new ones more and more slowly.
func TestRefusalsSlowDown(t *testing.T) {
	url, asked := server(t, `{"access_token": "x", "expires_in": 3600}`)
	b := open(t, OAuth{TokenURL: url, ClientID: "c", ClientSecret: "s"})
	for n, pause := range []time.Duration{firstAsk, 2 * firstAsk, 4 * firstAsk, 8 * firstAsk, 16 * firstAsk, lastAsk, lastAsk} {
		if err := show(t, b, ""); err != nil {
			t.Fatal(err)
		}
		if err := show(t, b, invalid); !passes(err) {
			t.Fatal(err)
		}
		b.age(pause - 500*time.Millisecond)
		if err := show(t, b, ""); !passes(err) || asked.Load() != int64(n)+1 {
			t.Fatalf("before %v are over: %v with %d tokens", pause, err, asked.Load())
		}
		b.age(500 * time.Millisecond)
	}
}

// Connections that share a token may all be told that it is refused, some of them when the next one is there already.
func TestRefusalsOfASharedToken(t *testing.T) {
	url, asked := server(t, `{"access_token": "x", "expires_in": 3600}`)
	b := open(t, OAuth{TokenURL: url, ClientID: "c", ClientSecret: "s"})
	if err := show(t, b, ""); err != nil {
		t.Fatal(err)
	}
	b.age(20 * time.Minute)
	var group, shown sync.WaitGroup
	shown.Add(8)
	for range 8 {
		group.Go(func() {
			session, _, err := b.Start(t.Context())
			shown.Done()
			if err != nil {
				t.Error(err)
				return
			}
			shown.Wait()
			if _, _, err := session.Next(t.Context(), []byte(invalid)); !passes(err) {
				t.Errorf("refused: %v", err)
			}
			if err := show(t, b, ""); err != nil {
				t.Errorf("after the refusal: %v", err)
			}
		})
	}
	group.Wait()
	if n := asked.Load(); n != 2 {
		t.Errorf("%d tokens, want one for all after the refusal", n)
	}
}

// Some brokers refuse a token with an error code, which kafka-go does not show to the mechanism.
func TestTokenRefusedWithACode(t *testing.T) {
	for name, c := range map[string]struct {
		takes  int64 // logins before the refusal
		passes bool
	}{"the first": {0, false}, "a later one": {1, true}} {
		t.Run(name, func(t *testing.T) {
			url, _ := server(t, `{"access_token": "x", "expires_in": 3600}`)
			var logins atomic.Int64
			cl, err := Open(Config{Brokers: refuses(t, &logins, c.takes), SASL: SASL{Mechanism: SASLOAuthBearer, OAuth: OAuth{TokenURL: url, ClientID: "c", ClientSecret: "s"}}})
			if err != nil {
				t.Fatal(err)
			}
			defer cl.Close()
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			for err == nil {
				err = cl.Ping(ctx)
				cl.Close() // so that the next request logs in
			}
			if passes(err) != c.passes || !strings.Contains(err.Error(), "ended") || errors.Is(err, kafka.SASLAuthenticationFailed) == c.passes {
				t.Errorf("%v after %d logins", err, logins.Load())
			}
		})
	}
}

// refuses is a broker that takes some tokens and refuses the later ones.
func refuses(t *testing.T, logins *atomic.Int64, takes int64) []string {
	t.Helper()
	b, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	b.ControlKey(int16(kmsg.SASLHandshake), func(r kmsg.Request) (kmsg.Response, error, bool) {
		b.KeepControl()
		return r.ResponseKind(), nil, true
	})
	b.ControlKey(int16(kmsg.SASLAuthenticate), func(r kmsg.Request) (kmsg.Response, error, bool) {
		b.KeepControl()
		answer := r.ResponseKind().(*kmsg.SASLAuthenticateResponse)
		if logins.Add(1) > takes {
			answer.ErrorCode, answer.ErrorMessage = int16(kafka.SASLAuthenticationFailed), kmsg.StringPtr("the token has ended")
		}
		return answer, nil, true
	})
	return b.ListenAddrs()
}
